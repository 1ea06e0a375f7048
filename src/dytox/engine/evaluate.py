"""What a method makes of images that are not for training; the processes share them out."""

from __future__ import annotations

from collections.abc import Callable

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
from dytox.models.prepared import cached
from dytox.randomness import Position

CPU_BATCH = 256  # of small models; beyond it activations leave the caches (docs/performance.md)
GPU_BATCH = 1024


def scores(method: Method, images: Stored, world: World) -> Tensor:
    """Scores over the classes seen for uint8 or encoded images, (n, classes), on the CPU."""

    def predict(pixels: Tensor, part: slice) -> Tensor:
        return method.predict(forward(method, normalised(method, pixels)))

    wanted = images if isinstance(images, Tensor) else Request(images)
    with cached(method.modules()):
        return over_batches(predict, wanted, world, method)


def features(lesson: Lesson, samples: Samples, share: int | None = None, *, mirrored: bool = False) -> Tensor:
    """Features to select by, (n, dim): without augmentation, or with that of a share of the memory.

    Or of the images from left to right.
    """
    method, augmentation = lesson.method, lesson.augmentation
    freeze(method)  # whatever phase was before: no BatchNorm moves here
    wanted = samples.images if isinstance(samples.images, Tensor) else Request(samples.images)
    draws = {}
    if share is not None:
        size = samples.size if isinstance(wanted, Tensor) else None
        draws = augmentation.draw(lesson.generator(f"share {share}"), len(samples), size)
        area = lesson.config.augment.resized_crop
        if isinstance(wanted, Request) and area is not None:
            crops = draw_crops(lesson.generator(f"crop of share {share}"), len(samples))
            wanted = Request(wanted.encoded, crops, area)

    def extract(pixels: Tensor, part: slice) -> Tensor:
        if share is None:
            seen = pixels.flip(-1) if mirrored else pixels
            return method.features(forward(method, normalised(method, seen)))
        varied = augmentation(pixels, {name: each[part] for name, each in draws.items()})
        return method.features(forward(method, varied))

    with cached(method.modules()):
        return over_batches(extract, wanted, lesson.world, method)


def normalised(method: Method, images: Tensor) -> Tensor:
    """uint8 images as the network takes them."""
    data = method.config.data
    return normalise(sent(images, method.device), data.mean, data.std)


def forward(method: Method, images: Tensor) -> Output:
    """One pass, on the device and in the precision of the weights."""
    with autocast(method):
        return method.model(images.to(method.device, method.dtype))


def refuse_no_numbers(found: Tensor, task: int) -> None:
    """A model that an update has spoiled is found out before anything is made of its output."""
    if not found.isfinite().all():
        raise Diverged(
            f"The model gives no numbers any more at the end of task {task + 1}: "
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
    """`function` of pixels and their places, a batch at a time, each process its share; on each one's CPU."""
    count, batch = len(images), evaluation_batch(method)
    if count < world.size:
        world = World()  # too few to share: every process looks at all
    mine = world.share(count)
    places = [slice(start, min(start + batch, mine.stop)) for start in range(mine.start, mine.stop, batch)]
    decoded = in_parts(images, places, method.config.runtime.workers)
    fitting = Fitting(function)
    return world.gather(torch.cat(list(map(fitting, decoded, places))), count)


def evaluation_batch(method: Method) -> int:
    """Images at a time: what the config says, or what the device is fastest with."""
    wanted = method.config.runtime.evaluation_batch
    return wanted or (CPU_BATCH if method.device.type == "cpu" else GPU_BATCH)


class Fitting:
    """`function` of batches, in parts as large as the device has the memory for; on the CPU.

    A part that does not fit is halved, and no later part is larger than those that fitted.
    """

    def __init__(self, function: Callable[[Tensor, slice], Tensor]) -> None:
        self.function = function
        self.most: int | None = None  # images at a time; at first all of a batch

    def __call__(self, pixels: Tensor, part: slice) -> Tensor:
        """Of the pixels of the images at these places."""
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
