"""A classifier with several proxies a class, for classes of several modes (PODNet's LSC)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from dytox.models.classifiers import Classifier
from dytox.models.slots import Slot

ROUNDS = 50  # of k-means, at most


class ProxyClassifier(Classifier):
    """η · Σ_k softmax_k(s_k) s_k over a class's proxies θ_k, s_k = -‖f̂ - θ̂_k‖² = 2 cos(f, θ_k) - 2.

    The row of a class holds its proxies side by side. The scale η is learned and shared by all tasks.
    """

    def __init__(self, dim: int, *, proxies: int) -> None:
        super().__init__(dim, bias=False, scaled=True)
        self.proxies = proxies

    def expand(self, classes: int) -> None:
        """New proxies for a new task."""
        self.close_gaps()
        self.tasks.append(nn.Linear(self.proxies * self.dim, classes, bias=False))
        self.slots.append(Slot.full(classes))

    def blocks(self, features: Tensor) -> list[Tensor]:
        """The similarities to each task's classes, unscaled."""
        normed, found = normalize(features), []
        for slot, layer in self.filled():
            proxies = slot.spread(layer.weight, slot.size).view(slot.size * self.proxies, self.dim)
            near = 2 * linear(normed, normalize(proxies)) - 2
            near = near.view(-1, slot.size, self.proxies)  # (batch, classes, proxies)
            found.append(slot.take((near.softmax(dim=2) * near).sum(dim=2)))
        return found

    @torch.no_grad()
    def imprint(self, centres: Tensor) -> None:
        """The newest task's proxies in these directions (classes, proxies, dim), as long as the old ones."""
        old = torch.cat([layer.weight.view(-1, self.dim) for layer in self.linears()[:-1]])
        scaled = normalize(centres.to(old), dim=2) * old.norm(dim=1).mean()
        self.linears()[-1].weight.copy_(scaled.flatten(1))


def centres(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """k-means of normalised features (n, dim): so many centres, started at drawn features."""
    points = normalize(features.double())
    drawn = torch.randperm(len(points), generator=generator).repeat(-(-count // len(points)))
    found = points[drawn[:count]]
    for _ in range(ROUNDS):
        nearest = torch.cdist(points, found).argmin(dim=1)
        before = found.clone()
        for place in nearest.unique().tolist():  # a centre that nobody is near stays where it is
            found[place] = points[nearest == place].mean(dim=0)
        if torch.equal(found, before):
            break
    return found
