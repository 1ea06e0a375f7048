"""Which exemplars: each selection orders a class's images, the most wanted first.

All take features (n, dim) of one class and give `count` places, best first, so that a smaller memory is a
prefix of a larger one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

Selection = Callable[[Tensor, int, torch.Generator], Tensor]


def herding(features: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """iCaRL's: each exemplar brings the exemplars' mean closest to the class mean, of normalised features.

    An image may win again; it then moves the sum, and is not kept twice. Should some never win, the
    closest to the mean come last.
    """
    normed = normalize(features.double(), eps=1e-8)
    mean = normed.mean(dim=0)
    count = min(count, len(features))
    chosen: dict[int, None] = {}  # an ordered set
    wanted = mean.clone()
    for _ in range(max(1000, 10 * len(features))):  # by the class: one order, whatever the count
        if len(chosen) == count:
            break
        best = int((normed @ wanted).argmax())
        chosen.setdefault(best)
        wanted += mean - normed[best]
    for place in closest(features, len(features), generator).tolist():
        if len(chosen) == count:
            break
        chosen.setdefault(place)
    return torch.tensor(list(chosen))


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
    "herding": herding,
    "closest": closest,
    "furthest": furthest,
    "random": random,
}
