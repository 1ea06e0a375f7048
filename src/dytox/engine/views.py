"""Phases with a frozen encoder: a few augmented views of each image are encoded once, not in every epoch."""

from __future__ import annotations

from torch import Tensor

from dytox.data.loader import Loader
from dytox.engine.evaluate import over_view
from dytox.engine.lesson import Lesson
from dytox.engine.precision import autocast
from dytox.errors import UserError
from dytox.models.base import Encoder


def encode_views(lesson: Lesson, loader: Loader, phase: str) -> None:
    """Make the loader give batches of cached tokens, if the phase asks for that."""
    count = loader.phase.cache_views
    if count is None:
        return
    encoder, method = _frozen_encoder(lesson, phase), lesson.method

    def encode(images: Tensor) -> Tensor:
        with autocast(method):
            encoding = encoder(images.to(method.device, method.dtype))
        if encoding.summary is not None:
            raise UserError(
                f"Impossible config: cache_views of the phase {phase!r} keeps tokens alone, and the encoder "
                f"{lesson.config.model.encoder} has a summary beside them: set it to null."
            )
        return encoding.tokens.to(method.dtype)

    loader.views = [over_view(encode, lesson, loader.samples, f"view {view}") for view in range(count)]


def _frozen_encoder(lesson: Lesson, phase: str) -> Encoder:
    """The one encoder of the method, refused if it learns or a teacher needs the images too."""
    parts = lesson.method.model.encoder_parts()
    learns = any(weight.requires_grad for part in parts for weight in part.parameters())
    if len(parts) != 1 or not isinstance(parts[0], Encoder) or learns or lesson.method.teacher is not None:
        raise UserError(
            f"Impossible config: cache_views of the phase {phase!r} needs one encoder that is frozen there, "
            "and no teacher: set it to null."
        )
    if lesson.config.augment.mixup:
        raise UserError(
            f"Impossible config: cache_views of the phase {phase!r} does not go with augment.mixup: set one "
            "of them to null or 0."
        )
    return parts[0]
