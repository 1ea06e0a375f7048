"""What a method makes of images that are not for training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dytox.config import Config
from dytox.data.augment import normalise
from dytox.data.samples import Samples
from dytox.engine.lesson import Lesson
from dytox.engine.method import Method
from dytox.models.base import Output
from dytox.randomness import generator


def scores(method: Method, images: Tensor) -> Tensor:
    """Scores over the classes seen for uint8 images, (n, classes), on the CPU."""
    config = method.config
    return over_batches(config, images, lambda part: method.predict(forward(method, prepared(config, part))))


def features(lesson: Lesson, samples: Samples, share: int | None = None) -> Tensor:
    """Features to select by, (n, dim): without augmentation, or with that of a share of the memory."""
    method, config = lesson.method, lesson.config
    if share is None:
        return over_batches(
            config, samples.images, lambda part: method.features(forward(method, prepared(config, part)))
        )
    augmentation, size = lesson.augmentation, samples.images.shape[-1]
    source = generator(config.seed, lesson.position, f"share {share}")
    draws = augmentation.draw(source, len(samples), size)
    varied = augmentation(samples.images, draws)
    return over_batches(config, varied, lambda part: method.features(forward(method, part)))


def prepared(config: Config, images: Tensor) -> Tensor:
    """uint8 images as the network takes them."""
    return normalise(images, config.data.mean, config.data.std)


def forward(method: Method, images: Tensor) -> Output:
    """One pass in eval mode, on the device of the weights."""
    return method.model(images.to(method.device))


@torch.no_grad()
def over_batches(config: Config, images: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """`function` of all images, a batch at a time; the results are gathered on the CPU."""
    parts = images.split(config.runtime.evaluation_batch)
    return torch.cat([function(part).cpu() for part in parts])
