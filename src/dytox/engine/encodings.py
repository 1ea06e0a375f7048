"""Cached outputs of the encoder, for phases in which it is frozen: computed once, not in every epoch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dytox.config import AugmentConfig
from dytox.data.decoding import Request
from dytox.data.samples import Samples
from dytox.engine.evaluate import normalised, over_batches, over_view
from dytox.engine.lesson import Lesson
from dytox.engine.phase import Training
from dytox.engine.precision import autocast
from dytox.errors import UserError

MOST = 2_000_000_000  # bytes of encodings; above that every epoch encodes its images


def encode(lesson: Lesson, samples: Samples, phase: Training) -> Tensor | None:
    """The encodings of the samples for a training phase, (views, n, tokens, dim), or None.

    With `cache_views` there are that many augmented views, which epochs take in turn. Otherwise a pretrained
    frozen encoder is cached if that changes nothing: if training varies images by mirroring alone. Encodings
    depend on the position of the phase alone, so an interrupted run has the same when it continues.
    """
    if phase.config.cache_views is not None:
        _refuse_impossible(lesson, phase.name)
        views = range(phase.config.cache_views)
        return torch.stack([over_view(_encoder(lesson), lesson, samples, f"view {view}") for view in views])
    method, augment = lesson.method, lesson.config.augment
    if method.works_on or not mirrors_only(augment) or not method.model.has_frozen_encoder():
        return None
    encoded = _encoder(lesson)
    size = encoded(torch.zeros(1, 3, samples.size, samples.size, dtype=method.dtype)).numel()
    if (2 if augment.flip else 1) * len(samples) * size * method.dtype.itemsize > MOST:
        return None

    def as_it_is(pixels: Tensor, part: slice) -> Tensor:
        return encoded(normalised(method, pixels))

    def mirrored(pixels: Tensor, part: slice) -> Tensor:
        return encoded(normalised(method, pixels.flip(-1)))

    wanted = samples.images if isinstance(samples.images, Tensor) else Request(samples.images)
    functions = (as_it_is, mirrored) if augment.flip else (as_it_is,)
    return torch.stack([over_batches(each, wanted, lesson.world, method) for each in functions])


def mirrors_only(augment: AugmentConfig) -> bool:
    """Whether training images are varied by mirroring alone; mixing encodings is not mixing images."""
    other = (augment.pad, augment.resized_crop, augment.brightness, augment.randaugment, augment.mixup)
    return not any(other)


def _encoder(lesson: Lesson) -> Callable[[Tensor], Tensor]:
    method = lesson.method

    @torch.no_grad()
    def encoded(images: Tensor) -> Tensor:
        with autocast(method):
            found = method.model.encode(images.to(method.device, method.dtype))
        return found.to(method.dtype)

    return encoded


def _refuse_impossible(lesson: Lesson, phase: str) -> None:
    """Raise if the encoder learns in a phase with cached views, or if something else needs the images."""
    method = lesson.method
    parts = method.model.encoder_parts()
    learns = any(weight.requires_grad for part in parts for weight in part.parameters())
    if len(parts) != 1 or learns or method.teacher is not None or method.works_on:
        raise UserError(
            f"Impossible config: cache_views of the phase {phase!r} needs one encoder that is frozen there, "
            "and no teacher: set it to null."
        )
    if lesson.config.augment.mixup:
        raise UserError(
            f"Impossible config: cache_views of the phase {phase!r} does not go with augment.mixup: set one "
            "of them to null or 0."
        )
