"""What a method makes of images that are not for training; the processes share them out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dytox.data.augment import normalise
from dytox.data.samples import Samples
from dytox.engine.distributed import World
from dytox.engine.lesson import Lesson
from dytox.engine.method import Method
from dytox.engine.phase import freeze
from dytox.engine.precision import autocast
from dytox.errors import UserError
from dytox.models.base import Output


def scores(method: Method, images: Tensor, world: World) -> Tensor:
    """Scores over the classes seen for uint8 images, (n, classes), on the CPU."""

    def predict(part: slice) -> Tensor:
        return method.predict(forward(method, prepared(method, images[part])))

    return over_batches(predict, len(images), world, method.config.runtime.evaluation_batch)


def features(lesson: Lesson, samples: Samples, share: int | None = None) -> Tensor:
    """Features to select by, (n, dim): without augmentation, or with that of a share of the memory."""
    method, augmentation = lesson.method, lesson.augmentation
    freeze(method)  # whatever phase was before: no BatchNorm moves here
    draws = {}
    if share is not None:
        source = lesson.generator(f"share {share}")
        draws = augmentation.draw(source, len(samples), samples.images.shape[-1])

    def extract(part: slice) -> Tensor:
        images = samples.images[part]
        if share is None:
            return method.features(forward(method, prepared(method, images)))
        varied = augmentation(images, {name: each[part] for name, each in draws.items()})
        return method.features(forward(method, varied))

    return over_batches(extract, len(samples), lesson.world, lesson.config.runtime.evaluation_batch)


def prepared(method: Method, images: Tensor) -> Tensor:
    """uint8 images as the network takes them."""
    data = method.config.data
    return normalise(images.to(method.device), data.mean, data.std)


def forward(method: Method, images: Tensor) -> Output:
    """One pass, on the device and in the precision of the weights."""
    with autocast(method):
        return method.model(images.to(method.device, method.dtype))


def refuse_no_numbers(found: Tensor, task: int) -> None:
    """A model that an update has spoiled is found out before anything is made of its output."""
    if not found.isfinite().all():
        raise UserError(
            f"The model gives no numbers any more at the end of task {task + 1}: "
            "it diverged, and a smaller learning rate may help."
        )


@torch.no_grad()
def over_batches(function: Callable[[slice], Tensor], count: int, world: World, batch: int) -> Tensor:
    """`function` of all of `count` images, a batch at a time, each process its share; on the CPU of each."""
    if count < world.size:
        world = World()  # too few to share: every process looks at all
    mine = world.share(count)
    starts = range(mine.start, mine.stop, batch)
    parts = [function(slice(start, min(start + batch, mine.stop))).cpu() for start in starts]
    return world.gather(torch.cat(parts), count)
