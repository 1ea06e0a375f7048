"""The exemplars that are kept for rehearsal: how many of each class, and which.

A selection ranks the images of a class by their features (n, dim) and gives the indices of the best `count`
images, so that a smaller memory is a prefix of a larger one. `selected` does this for many classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dytox.config import MemoryConfig
from dytox.errors import UserError

Selection = Callable[[Tensor, int, torch.Generator], Tensor]

VALUES = 2**19  # numbers processed together, as float64: 4 MiB, which stay in the cache over all turns
CHECK = 4  # turns between two checks for the end
_NEVER = torch.iinfo(torch.int64).max


def exemplars_per_share(config: MemoryConfig, classes: int) -> int:
    """The number of images a class in each share of the memory, after `classes` classes have been seen."""
    shared = config.size // classes
    per_class = shared if config.per_class is None else min(shared, config.per_class)
    per_share = per_class if config.budget == "each" else per_class // config.shares
    if per_share == 0:
        key, value, each = ("size", config.size, classes)
        if config.per_class is not None and config.per_class < shared:
            key, value, each = ("per_class", config.per_class, 1)
        shares = f" in each of {config.shares} shares" if config.shares > 1 else ""
        least = each * (1 if config.budget == "each" else config.shares)
        none = ", or 0 for no memory" if key == "size" else ""
        raise UserError(
            f"memory.{key} {value} leaves no image{shares} for each of {classes} classes: "
            f"it must be at least {least}{none}."
        )
    return per_share


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
    "closest": closest,
    "furthest": furthest,
    "random": random,
}


def selected(name: str, classes: Sequence[Tensor], count: int, generator: torch.Generator) -> list[Tensor]:
    """The indices of the best images of each class, given the features of each class."""
    if name == "herding":
        return herd(classes, count)
    return [SELECTIONS[name](features, count, generator) for features in classes]


# --- herding (iCaRL) for several classes at once: each turn is one batched matrix product


def herd(classes: Sequence[Tensor], count: int) -> list[Tensor]:
    """Select `count` images of each class by its features (n_c, dim); gives their indices, best first.

    Each exemplar moves the mean of the exemplars as close as possible to the mean of the class, both of
    normalised features. An image may be selected again: that changes the mean, but it is kept only once. If
    too few are ever selected, the images closest to the class mean follow.
    """
    largest = max((each.numel() for each in classes), default=0)
    together = max(1, VALUES // max(1, largest))
    parts = [classes[first : first + together] for first in range(0, len(classes), together)]
    return [order for part in parts for order in _herd(part, count)]


def _herd(classes: Sequence[Tensor], count: int) -> list[Tensor]:
    sizes = torch.tensor([len(each) for each in classes])
    normed = torch.zeros(len(classes), int(sizes.max()), classes[0].shape[1], dtype=torch.float64)
    for row, features in zip(normed, classes, strict=True):
        row[: len(features)] = features
    normed /= torch.linalg.vector_norm(normed, dim=2, keepdim=True).clamp_(min=1e-8)
    won = _turns(normed, sizes, sizes.clamp(max=count))
    return [_order(turns[: len(each)], each, count) for turns, each in zip(won, classes, strict=True)]


def _turns(normed: Tensor, sizes: Tensor, wanted: Tensor) -> Tensor:
    """The first turn in which each image was selected (classes, n), until `wanted` (classes,) images are."""
    mean = normed.sum(dim=1) / sizes[:, None]
    whole = torch.full(normed.shape[:2], _NEVER)
    padding = torch.arange(normed.shape[1]) >= sizes[:, None]
    limits = (10 * sizes).clamp(min=1000)  # without `count`, so that the order is the same for any
    alive = torch.arange(len(normed))  # the classes that are not finished
    won, rows, target, turn = whole.clone(), alive, mean.clone(), 0
    while len(alive):
        turned = normed.transpose(1, 2)
        for _ in range(CHECK):
            scores = torch.bmm(target[:, None], turned).squeeze(1)  # (classes, n)
            best = scores.masked_fill_(padding, -torch.inf).argmax(dim=1)
            won[rows, best] = won[rows, best].clamp_(max=turn)
            target += mean - normed[rows, best]
            turn += 1
        left = ((won < _NEVER).sum(dim=1) < wanted[alive]) & (turn < limits[alive])
        if not left.all():
            whole[alive] = won
            won, normed, mean, target, padding = (each[left] for each in (won, normed, mean, target, padding))
            alive, rows = alive[left], rows[: len(won)]
    return whole.masked_fill_(whole >= limits[:, None], _NEVER)  # selected after the limit of their class


def _order(won: Tensor, features: Tensor, count: int) -> Tensor:
    """The first `count` selected images, then those closest to the mean."""
    order = won.argsort(stable=True)
    winners = int((won < _NEVER).sum())
    if winners < min(count, len(won)):
        rest = _distances(features).argsort(stable=True)
        order = torch.cat([order[:winners], rest[won[rest] == _NEVER]])
    return order[:count]
