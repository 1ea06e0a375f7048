"""The sums of the losses of an epoch, kept on the device until its end."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dytox.engine.distributed import World

_NEVER = float("inf")


class Sums:
    """The sum of each loss, weighted by images, and the first step whose total was not finite."""

    def __init__(self, losses: Mapping[str, float]) -> None:
        self._losses: dict[str, Tensor | float] = dict(losses)
        self._bad_step: Tensor | float = _NEVER

    def add(self, means: Mapping[str, Tensor], *, images: int, step: int) -> None:
        """Add the mean losses of one step with this number of images."""
        for name, mean in means.items():
            self._losses[name] = self._losses.get(name, 0.0) + mean.double() * images
        self._bad_step = torch.where(means["total"].isfinite(), _NEVER, float(step)).clamp(max=self._bad_step)

    def over(self, world: World) -> tuple[dict[str, float], int | None]:
        """The sums over all processes, and the first step at which any total was not finite, or None."""
        totals = world.total([float(each) for each in self._losses.values()])
        bad = world.least(float(self._bad_step))
        return dict(zip(self._losses, totals, strict=True)), None if bad == _NEVER else int(bad)
