"""Scores and features of images without training; each process computes its share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b

import torch
from torch import Tensor

from dytox.data.augment import draw_crops, normalise
from dytox.data.decoding import Request, in_parts
from dytox.data.samples import Samples, Stored
from dytox.data.transfer import sent
from dytox.engine.distributed import World
from dytox.engine.lesson import Lesson
from dytox.engine.method import Method
from dytox.engine.observer import Diverged
from dytox.engine.phase import freeze
from dytox.engine.precision import autocast
from dytox.models.base import Output
from dytox.models.cached import cached, frozen
from dytox.randomness import Position

MOST_SEEN = 1_000_000_000  # bytes of encodings that `remembering` keeps
CPU_BATCH = 256  # with more images the activations do not fit the caches (docs/performance.md)
GPU_BATCH = 1024


def scores(method: Method, images: Stored, world: World) -> Tensor:
    """Scores over the classes seen for uint8 or encoded images, (n, classes), on the CPU.

    With `evaluation.flip` they are the mean of those of an image and of its mirror image.
    """

    def predict(pixels: Tensor, part: slice) -> Tensor:
        found = method.predict(forward(method, seen(method, pixels)))
        if not method.config.evaluation.flip:
            return found
        return (found + method.predict(forward(method, seen(method, pixels.flip(-1))))) / 2

    wanted = images if isinstance(images, Tensor) else Request(images)
    with cached(method.modules()):
        return over_batches(predict, wanted, world, method)


def features(lesson: Lesson, samples: Samples, share: int | None = None, *, mirrored: bool = False) -> Tensor:
    """Features for the selection of exemplars, (n, dim), on the CPU.

    They are those of the images without augmentation, or `mirrored` left to right. With `share` they are
    those of augmented images, with the augmentation of this share of the memory.
    """
    method = lesson.method
    freeze(method)  # also after a training phase: BatchNorm's statistics must not move here
    if share is not None:
        return over_view(
            lambda images: method.features(forward(method, images)), lesson, samples, f"share {share}"
        )

    def extract(pixels: Tensor, part: slice) -> Tensor:
        view = pixels.flip(-1) if mirrored else pixels
        return method.features(forward(method, seen(method, view)))

    wanted = samples.images if isinstance(samples.images, Tensor) else Request(samples.images)
    with cached(method.modules()):
        return over_batches(extract, wanted, lesson.world, method)


def over_view(function: Callable[[Tensor], Tensor], lesson: Lesson, samples: Samples, purpose: str) -> Tensor:
    """Apply `function` to augmented images; the lesson's position and the purpose decide how they vary."""
    wanted = samples.images if isinstance(samples.images, Tensor) else Request(samples.images)
    size = samples.size if isinstance(wanted, Tensor) else None
    draws = lesson.augmentation.draw(lesson.generator(purpose), len(samples), size)
    area = lesson.config.augment.resized_crop
    if isinstance(wanted, Request) and area is not None:
        crops = draw_crops(lesson.generator(f"crop of {purpose}"), len(samples))
        wanted = Request(wanted.encoded, crops, area)

    def vary(pixels: Tensor, part: slice) -> Tensor:
        return function(lesson.augmentation(pixels, {name: each[part] for name, each in draws.items()}))

    with cached(frozen(lesson.method.modules())):
        return over_batches(vary, wanted, lesson.world, lesson.method)


def normalised(method: Method, images: Tensor) -> Tensor:
    """Normalise uint8 images and move them to the method's device."""
    data = method.config.data
    return normalise(sent(images, method.device), data.mean, data.std)


class SeenImages:
    """Encodings of images by a frozen encoder, by the images' content; a copy of a method shares them."""

    def __init__(self) -> None:
        self.encodings: dict[bytes, Tensor] = {}
        self.bytes = 0

    def __deepcopy__(self, memo: object) -> SeenImages:
        return self

    def add(self, key: bytes, encoding: Tensor) -> None:
        """Store the encoding of one image, and count its bytes."""
        self.encodings[key] = encoding
        self.bytes += encoding.numel() * encoding.element_size()


@contextmanager
def remembering(method: Callable[[], Method]) -> Iterator[None]:
    """Within it a frozen encoder is computed once for each image, for `method()` and its copies."""
    method().seen_images = SeenImages()
    try:
        yield
    finally:
        method().seen_images = None


def seen(method: Method, pixels: Tensor) -> Tensor:
    """What the network gets of uint8 images: normalised or, within `remembering`, encoded."""
    known = method.seen_images
    if known is None or known.bytes > MOST_SEEN or not method.model.has_frozen_encoder():
        return normalised(method, pixels)
    keys = [blake2b(image.numpy().tobytes(), digest_size=16).digest() for image in pixels.contiguous()]
    new = [place for place, key in enumerate(keys) if key not in known.encodings]
    if new:
        with autocast(method):
            images = normalised(method, pixels[new]).to(method.dtype)
            for place, encoding in zip(new, method.model.encode(images).to(method.dtype).cpu(), strict=True):
                known.add(keys[place], encoding)
    return sent(torch.stack([known.encodings[key] for key in keys]), method.device)


def forward(method: Method, images: Tensor) -> Output:
    """One forward pass, on the device and in the precision of the weights."""
    with autocast(method):
        return method.model(images.to(method.device, method.dtype))


def refuse_no_numbers(found: Tensor, task: int) -> None:
    """Raise `Diverged` if scores or features are not finite, before anything is computed from them."""
    if not found.isfinite().all():
        raise Diverged(
            f"The output of the model is not finite at the end of task {task + 1}: "
            "it diverged, so begin a new run with a smaller learning rate.",
            Position(task + 1),
        )


@torch.no_grad()
def over_batches(
    function: Callable[[Tensor, slice], Tensor],
    images: Tensor | Request,
    world: World,
    method: Method,
) -> Tensor:
    """Apply `function` to pixels and their places, batch by batch.

    Each process computes its share of the images and returns all results, on its CPU.
    """
    count, batch = len(images), evaluation_batch(method)
    if count < world.size:
        world = World()  # too few to share: every process computes all
    mine = world.share(count)
    places = [slice(start, min(start + batch, mine.stop)) for start in range(mine.start, mine.stop, batch)]
    decoded = in_parts(images, places, method.config.runtime.workers)
    fitting = Fitting(function)
    return world.gather(torch.cat(list(map(fitting, decoded, places))), count)


def evaluation_batch(method: Method) -> int:
    """The number of images in a batch: that of the config, or a good one for the device."""
    wanted = method.config.runtime.evaluation_batch
    return wanted or (CPU_BATCH if method.device.type == "cpu" else GPU_BATCH)


class Fitting:
    """Applies `function` to batches in parts that fit the device's memory; results are on the CPU.

    A part that does not fit is halved, and no later part is larger than those that fitted.
    """

    def __init__(self, function: Callable[[Tensor, slice], Tensor]) -> None:
        self.function = function
        self.most: int | None = None  # the largest part in images; None: a whole batch

    def __call__(self, pixels: Tensor, part: slice) -> Tensor:
        """The results for the pixels of the images at these places."""
        done, found = 0, list[Tensor]()
        while done < len(pixels):
            size = min(self.most or len(pixels), len(pixels) - done)
            first = part.start + done
            try:
                found.append(self.function(pixels[done : done + size], slice(first, first + size)).cpu())
                done += size
            except torch.OutOfMemoryError:
                if size <= 1:
                    raise
                self.most = (size + 1) // 2
        return torch.cat(found)
