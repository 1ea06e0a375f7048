"""Which exemplars: each selection orders a class's images, the most wanted first.

All take features (n, dim) of one class and give `count` places, best first, so that a smaller memory is a
prefix of a larger one. `selected` does it for many classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dytox.memory.herding import herd

Selection = Callable[[Tensor, int, torch.Generator], Tensor]


def closest(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """The nearest to the mean of the class."""
    return _distances(features).argsort(stable=True)[:count]


def furthest(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """The furthest from the mean of the class."""
    return _distances(features).argsort(descending=True, stable=True)[:count]


def random(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Any, without replacement."""
    return torch.randperm(len(features), generator=generator)[:count]


def _distances(features: Tensor) -> Tensor:
    features = features.double()
    return (features - features.mean(dim=0)).square().sum(dim=1)


SELECTIONS: dict[str, Selection] = {
    "closest": closest,
    "furthest": furthest,
    "random": random,
}


def selected(name: str, classes: Sequence[Tensor], count: int, generator: torch.Generator) -> list[Tensor]:
    """The places of the most wanted images of each class, of which `classes` has the features."""
    if name == "herding":
        return herd(classes, count)
    return [SELECTIONS[name](features, count, generator) for features in classes]
