"""Heads on one feature vector, to which each task adds a block of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from dytox.models.heads import Heads
from dytox.models.slots import Slot


class Classifier(Heads):
    """A linear classifier (batch, dim) -> (batch, classes), a block of rows a task.

    Blocks of their own, so that old rows can be frozen, and growing changes no old logit by a bit.
    """

    def __init__(self, dim: int, *, bias: bool = True, scaled: bool = False) -> None:
        super().__init__(dim)
        self.bias = bias
        self.scale = nn.Parameter(torch.ones(1)) if scaled else None  # learned, shared by all tasks

    def expand(self, classes: int) -> None:
        """New rows for a new task."""
        self.close_gaps()
        self.tasks.append(nn.Linear(self.dim, classes, bias=self.bias))
        self.slots.append(Slot.full(classes))

    def linears(self) -> list[nn.Linear]:
        """The blocks."""
        return list(self.tasks)  # type: ignore[arg-type]  # a ModuleList of Linears

    def filled(self) -> Iterator[tuple[Slot, nn.Linear]]:
        """The blocks, each with the places of its outputs."""
        return zip([slot for slot in self.slots if slot.rows], self.linears(), strict=True)

    def blocks(self, features: Tensor) -> list[Tensor]:
        """The logits of each task, unscaled."""
        found = []
        for slot, layer in self.filled():
            bias = None if layer.bias is None else slot.spread(layer.bias, slot.size)
            found.append(slot.take(linear(features, slot.spread(layer.weight, slot.size), bias)))
        return found

    def forward(self, features: Tensor) -> Tensor:
        """Features (batch, dim) as logits (batch, classes)."""
        logits = torch.cat(self.blocks(features), dim=1)
        return logits if self.scale is None else self.scale * logits


class CosineClassifier(Classifier):
    """σ · cos(feature, row), without a bias; the scale σ is learned and shared by all tasks (UCIR)."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, bias=False, scaled=True)

    def blocks(self, features: Tensor) -> list[Tensor]:
        """The cosines with each task's rows."""
        normed = normalize(features)
        return [
            slot.take(linear(normed, slot.spread(normalize(layer.weight), slot.size)))
            for slot, layer in self.filled()
        ]

    def cosines(self, features: Tensor) -> Tensor:
        """Of each feature with each row, (batch, classes)."""
        return torch.cat(self.blocks(features), dim=1)


class BiasCorrected(Classifier):
    """α · o + β for the classes of the newest task, o for all others (BiC).

    A new task starts at α = 1, β = 0.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.alpha, self.beta = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    @torch.no_grad()
    def reset(self) -> None:
        """No correction."""
        self.alpha.fill_(1.0)
        self.beta.fill_(0.0)

    def expand(self, classes: int) -> None:
        """New rows; from now on the correction is theirs."""
        super().expand(classes)
        self.reset()

    def forget(self, gone: Collection[int]) -> list[int]:
        """Takes these outputs away; without the newest task, nothing is left to correct."""
        last = len(self.tasks) - 1
        empty = super().forget(gone)
        if last in empty:
            self.reset()
        return empty

    def forward(self, features: Tensor) -> Tensor:
        """Features (batch, dim) as logits (batch, classes), those of the newest task corrected."""
        *old, new = self.blocks(features)
        return torch.cat([*old, self.alpha * new + self.beta], dim=1)
