"""LookSAM (Liu et al., CVPR 2022): a sharpness-aware gradient every k steps, reused in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from dytox.config import SamConfig


class LookSam:
    """Keeps the direction in which a sharpness-aware gradient g_s leaves the plain gradient g.

    Of g_s the part along g changes quickly and the part g_v across it slowly. So g_s is computed every k
    steps; at the steps between, it is approximated by g + α ‖g‖ g_v / ‖g_v‖.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], sam: SamConfig) -> None:
        self.parameters, self.sam = parameters, sam
        self.steps = 0  # updates of the phase so far
        self.direction = [torch.zeros_like(p) for p in parameters]  # g_v / ‖g_v‖

    def due(self) -> bool:
        """Whether this step computes g_s."""
        return self.steps % self.sam.every == 0

    @torch.no_grad()
    def keep(self, plain: Sequence[Tensor]) -> None:
        """Compute g_v from the current gradients, g_s, and `plain`, g, whatever the scale of either."""
        sharp = gradients(self.parameters)
        along = _dot(sharp, plain) / (_dot(plain, plain) + 1e-24)
        across = [s - along * g for s, g in zip(sharp, plain, strict=True)]
        norm = _dot(across, across).sqrt()
        found = norm.isfinite() & (norm > 0)  # fp16 may have overflowed
        self.direction = [torch.where(found, each / norm, torch.zeros_like(each)) for each in across]

    @torch.no_grad()
    def add(self) -> None:
        """Turn the current gradients, g, into the approximation of g_s."""
        plain = gradients(self.parameters)
        size = self.sam.reuse * _dot(plain, plain).sqrt()
        for parameter, each in zip(self.parameters, self.direction, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(size * each)

    def state(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint keeps: the number of steps and the direction."""
        kept = {str(place): each for place, each in enumerate(self.direction)}
        return {"steps": torch.tensor(self.steps), **kept}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned; an empty mapping is the start of a phase."""
        if state:
            self.steps = int(state["steps"])
            self.direction = [state[str(place)].to(p) for place, p in enumerate(self.parameters)]


def gradients(parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """The gradient of each parameter; zeros for one that has none."""
    return [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]


def _dot(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    return torch.stack([(a * b).sum() for a, b in zip(one, other, strict=True)]).sum()
