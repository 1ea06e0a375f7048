"""Selection of exemplars: each function ranks the images of a class, best first.

All take the features (n, dim) of one class and give the indices of the best `count` images, so that a smaller
memory is a prefix of a larger one. `selected` does this for many classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dytox.memory.herding import herd

Selection = Callable[[Tensor, int, torch.Generator], Tensor]


def herding(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """iCaRL: each exemplar moves the mean of the exemplars closest to the class mean."""
    return herd([features], count)[0]


def closest(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """The images closest to the class mean."""
    return _distances(features).argsort(stable=True)[:count]


def furthest(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """The images furthest from the class mean."""
    return _distances(features).argsort(descending=True, stable=True)[:count]


def random(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Random images, without replacement."""
    return torch.randperm(len(features), generator=generator)[:count]


def _distances(features: Tensor) -> Tensor:
    features = features.double()
    return (features - features.mean(dim=0)).square().sum(dim=1)


SELECTIONS: dict[str, Selection] = {
    "herding": herding,
    "closest": closest,
    "furthest": furthest,
    "random": random,
}


def selected(name: str, classes: Sequence[Tensor], count: int, generator: torch.Generator) -> list[Tensor]:
    """The indices of the best images of each class, given the features of each class."""
    if name == "herding":
        return herd(classes, count)
    return [SELECTIONS[name](features, count, generator) for features in classes]
