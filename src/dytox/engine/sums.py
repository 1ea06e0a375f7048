"""The running sums of an epoch, kept on the device until they are asked for."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dytox.engine.distributed import World

NEVER = float("inf")


class Sums:
    """Each loss times the images it was measured on, and the first step at which the total was not finite."""

    def __init__(self, losses: Mapping[str, float]) -> None:
        self._losses: dict[str, Tensor | float] = dict(losses)
        self._bad_step: Tensor | float = NEVER

    def add(self, means: Mapping[str, Tensor], *, images: int, step: int) -> None:
        """One step's losses, of so many images."""
        for name, mean in means.items():
            self._losses[name] = self._losses.get(name, 0.0) + mean.double() * images
        self._bad_step = torch.where(means["total"].isfinite(), NEVER, float(step)).clamp(max=self._bad_step)

    def over(self, world: World) -> tuple[dict[str, float], int | None]:
        """The sums over all processes, and the first bad step of any."""
        totals = world.total([float(each) for each in self._losses.values()])
        bad = world.least(float(self._bad_step))
        return dict(zip(self._losses, totals, strict=True)), None if bad == NEVER else int(bad)
