"""Heads on one feature vector, to which each task adds a block of rows, and class means."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from dytox.models.heads import Heads

ROUNDS = 50  # of k-means, at most


class LinearHead(Heads):
    """A linear classifier (batch, dim) -> (batch, outputs), a block of rows for each task.

    Separate blocks allow old rows to be frozen, and growing changes no old logit by a bit.
    """

    def __init__(self, dim: int, *, bias: bool = True, scaled: bool = False) -> None:
        super().__init__(dim)
        self.bias = bias
        self.scale = nn.Parameter(torch.ones(1)) if scaled else None  # learned, shared by all tasks

    def expand(self, classes: int) -> None:
        """Add rows for a new task."""
        self.tasks.append(nn.Linear(self.dim, classes, bias=self.bias))

    def linears(self) -> list[nn.Linear]:
        """The blocks of rows."""
        return list(self.tasks)  # type: ignore[arg-type]  # a ModuleList of Linears

    def newest(self) -> Iterable[nn.Module | nn.Parameter]:
        """The newest rows, and the scale."""
        return [self.tasks[-1], *([] if self.scale is None else [self.scale])]

    def blocks(self, features: Tensor) -> list[Tensor]:
        """The logits of each task, unscaled."""
        return [layer(features) for layer in self.tasks]

    def forward(self, features: Tensor) -> Tensor:
        """Features (batch, dim) as logits (batch, outputs)."""
        logits = torch.cat(self.blocks(features), dim=1)
        return logits if self.scale is None else self.scale * logits


class CosineHead(LinearHead):
    """σ · cos(feature, row), without a bias; the scale σ is learned and shared by all tasks (UCIR)."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, bias=False, scaled=True)

    def blocks(self, features: Tensor) -> list[Tensor]:
        """The cosines with each task's rows."""
        normed = normalize(features)
        return [linear(normed, normalize(layer.weight)) for layer in self.linears()]

    def cosines(self, features: Tensor) -> Tensor:
        """The cosine of each feature with each row, (batch, outputs)."""
        return torch.cat(self.blocks(features), dim=1)


class BiasCorrectedHead(LinearHead):
    """α · o + β for the outputs o of the newest task, o for all others (BiC).

    A new task starts at α = 1, β = 0.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.alpha, self.beta = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def expand(self, classes: int) -> None:
        """Add rows; from now on the correction is theirs."""
        super().expand(classes)
        with torch.no_grad():
            self.alpha.fill_(1.0)
            self.beta.fill_(0.0)

    def forward(self, features: Tensor) -> Tensor:
        """Features (batch, dim) as logits (batch, outputs), those of the newest task corrected."""
        *old, new = self.blocks(features)
        return torch.cat([*old, self.alpha * new + self.beta], dim=1)


class ProxyHead(LinearHead):
    """η · Σ_k softmax_k(s_k) s_k over a class's proxies θ_k, s_k = -‖f̂ - θ̂_k‖² = 2 cos(f, θ_k) - 2.

    Several proxies for each class suit classes of several modes (PODNet's LSC). The row of a class holds its
    proxies side by side. The scale η is learned and shared by all tasks.
    """

    def __init__(self, dim: int, *, proxies: int) -> None:
        super().__init__(dim, bias=False, scaled=True)
        self.proxies = proxies

    def expand(self, classes: int) -> None:
        """Add the proxies of a new task."""
        self.tasks.append(nn.Linear(self.proxies * self.dim, classes, bias=False))

    def blocks(self, features: Tensor) -> list[Tensor]:
        """The similarities to each task's classes, unscaled."""
        normed, found = normalize(features), []
        for layer in self.linears():
            near = 2 * linear(normed, normalize(layer.weight.view(-1, self.dim))) - 2
            near = near.view(-1, layer.out_features, self.proxies)  # (batch, classes, proxies)
            found.append((near.softmax(dim=2) * near).sum(dim=2))
        return found

    @torch.no_grad()
    def imprint(self, centres: Tensor, old: Tensor) -> None:
        """Set the newest proxies to these directions (classes, proxies, dim), as long as the `old` rows'."""
        lengths = old.view(-1, self.dim).norm(dim=1)
        scaled = normalize(centres.to(old), dim=2) * lengths.mean()
        self.linears()[-1].weight.copy_(scaled.flatten(1))


def centres(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """k-means of normalised features (n, dim): `count` centres, started at drawn features."""
    points = normalize(features.double())
    drawn = torch.randperm(len(points), generator=generator).repeat(-(-count // len(points)))
    found = points[drawn[:count]]
    for _ in range(ROUNDS):
        nearest = torch.cdist(points, found).argmin(dim=1)
        before = found.clone()
        for place in nearest.unique().tolist():  # a centre that no point is nearest to stays where it is
            found[place] = points[nearest == place].mean(dim=0)
        if torch.equal(found, before):
            break
    return found


class ClassMeans(nn.Module):
    """The normalised mean feature of each live class, which a method sets and predicts by (iCaRL)."""

    means: Tensor  # (classes, dim)

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(0, dim))

    def expand(self, classes: int) -> None:
        """Make room for the means of new classes."""
        self.means = torch.cat([self.means, self.means.new_zeros(classes, self.means.shape[1])])

    def forget(self, places: Collection[int]) -> None:
        """Remove the means of these classes: each score is computed on its own, so no other one changes."""
        left = [place for place in range(len(self.means)) if place not in places]
        self.means = self.means[left]

    def place(self, means: Tensor) -> None:
        """Set the means of all classes."""
        assert means.shape == self.means.shape, (means.shape, self.means.shape)
        self.means.copy_(means)

    def forward(self, features: Tensor) -> Tensor:
        """-‖f / ‖f‖ - mean‖² for features (batch, dim): (batch, classes)."""
        return -(normalize(features)[:, None] - self.means).square().sum(dim=2)
