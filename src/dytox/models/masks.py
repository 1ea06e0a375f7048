"""Channel masks that learn which channels a network needs (HAT, Serrà et al. 2018; DER, Yan et al. 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

STEEPEST = 50.0  # of s·e in the compensation, as HAT has it: beyond, cosh leaves the range of float32
FURTHEST = 6.0  # of e, as HAT has it: beyond, a channel could hardly come back


def steepness(step: int, steps: int, steepest: float) -> float:
    """s of a step of an epoch: from 1 / s_max at its first to s_max at its last, in equal parts."""
    done = step / (steps - 1) if steps > 1 else 1.0
    return 1 / steepest + (steepest - 1 / steepest) * done


def compensation(e: Tensor, s: float) -> Tensor:
    """σ'(e) / (s σ'(se)) = (cosh(se) + 1) / (s (cosh(e) + 1)): what steep masks take from a gradient."""
    return ((s * e).clamp(-STEEPEST, STEEPEST).cosh() + 1) / (s * (e.cosh() + 1))


class ChannelMask(nn.Module):
    """m = σ(s·e), a factor a channel; in eval mode 1 or 0."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.e = nn.Parameter(torch.randn(channels))  # as HAT's: half of the channels open
        self.s = 1.0  # set before each step

    def forward(self) -> Tensor:
        """The factors, (channels,)."""
        if self.training:
            z = self.s * self.e
            return torch.where(z > 0, 1 - (-z).sigmoid(), z.sigmoid())  # σ(z): 1 - σ keeps its last digits
        return self.kept().to(self.e)

    def kept(self) -> Tensor:
        """Which channels stay, (channels,): where σ(s_max·e) is above one half; the strongest if none is."""
        return (self.e > 0) | (torch.arange(len(self.e), device=self.e.device) == self.e.argmax())

    @torch.no_grad()
    def compensate(self) -> None:
        """Gives the gradient back what the steepness took."""
        if self.e.grad is not None:
            self.e.grad *= compensation(self.e, self.s)

    @torch.no_grad()
    def clamp(self) -> None:
        """Keeps e within reach."""
        self.e.clamp_(-FURTHEST, FURTHEST)
