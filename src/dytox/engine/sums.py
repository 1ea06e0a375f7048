"""The running sums of an epoch, kept on the device until they are asked for."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

NEVER = -1.0


class Sums:
    """Each loss weighted by the images it was measured on, and the first step at which one was not finite."""

    def __init__(self, values: Mapping[str, float] | None = None) -> None:
        values = dict(values or {})
        self._bad_step: Tensor | float = values.pop("bad_step", NEVER)
        self._images = values.pop("images", 0.0)
        self._losses: dict[str, Tensor | float] = dict(values)

    def add(self, means: Mapping[str, Tensor], *, images: int, step: int) -> None:
        """One step's mean losses."""
        for name, mean in means.items():
            self._losses[name] = self._losses.get(name, 0.0) + mean.double() * images
        self._images += images
        total = means["total"]
        now = torch.where(total.isfinite(), NEVER, float(step))
        before = torch.as_tensor(self._bad_step, dtype=now.dtype, device=now.device)
        self._bad_step = torch.where(before == NEVER, now, before)

    def values(self) -> dict[str, float]:
        """The sums as numbers, from which they can go on."""
        losses = {name: float(value) for name, value in self._losses.items()}
        return {**losses, "images": self._images, "bad_step": float(self._bad_step)}

    def means(self) -> dict[str, float]:
        """Each loss's mean over the images so far."""
        return {name: float(value) / self._images for name, value in self._losses.items()}

    def bad_step(self) -> int | None:
        """The first step whose loss was not finite."""
        step = float(self._bad_step)
        return None if step == NEVER else int(step)
