"""A frozen encoder is computed once for each image and its mirror image, not once an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dytox.config import AugmentConfig
from dytox.data.decoding import Pixels, Request
from dytox.data.loader import Loader
from dytox.data.samples import Samples
from dytox.data.transfer import sent
from dytox.engine.evaluate import normalised, over_batches
from dytox.engine.lesson import Lesson
from dytox.engine.precision import autocast

MOST = 2_000_000_000  # bytes of encodings; above that every epoch encodes its images


def encode(lesson: Lesson, samples: Samples) -> Tensor | None:
    """The encodings of samples and, if training mirrors images, mirrored ones, (views, n, tokens, dim).

    None if the encoder is not frozen, if images are varied otherwise too, if the method needs the maps of the
    encoder's stages, or if the encodings are too large. They do not depend on the order of the batches, so a
    run that is continued has the same.
    """
    method, augment = lesson.method, lesson.config.augment
    if not method.model.encodes or method.works_on or not mirrors_only(augment):
        return None
    wanted = samples.images if isinstance(samples.images, Tensor) else Request(samples.images)
    one = torch.zeros(1, 3, samples.size, samples.size, device=method.device, dtype=method.dtype)
    with torch.no_grad():
        first = method.model.encode(one)
    views = 2 if augment.flip else 1
    if views * len(samples) * first.numel() * first.element_size() > MOST:
        return None

    def encoded(pixels: Tensor) -> Tensor:
        with autocast(method):
            return method.model.encode(normalised(method, pixels).to(method.dtype)).to(method.dtype)

    def as_it_is(pixels: Tensor, part: slice) -> Tensor:
        return encoded(pixels)

    def mirrored(pixels: Tensor, part: slice) -> Tensor:
        return encoded(pixels.flip(-1))

    functions = (as_it_is, mirrored)[:views]
    return torch.stack([over_batches(each, wanted, lesson.world, method) for each in functions])


def mirrors_only(augment: AugmentConfig) -> bool:
    """Whether training images are varied by mirroring alone, besides MixUp."""
    varied = augment.pad or augment.resized_crop or augment.brightness or augment.randaugment
    return not varied


class EncodedLoader(Loader):
    """The batches of a training phase on a frozen encoder: encodings instead of images."""

    def __init__(self, encodings: Tensor, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.encodings = encodings  # (views, n, tokens, dim)

    def _pixels(self, batches: Any) -> Pixels:
        return (torch.empty(0) for _ in batches)  # they have been seen

    def _augmented(self, pixels: Tensor, varied: Mapping[str, Tensor], mine: Tensor) -> Tensor:
        view = varied["flip"].long() if len(self.encodings) > 1 else torch.zeros_like(mine)
        return sent(self.encodings[view, mine], self.device, self.dtype)
