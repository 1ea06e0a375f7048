"""Herding (iCaRL), for several classes at once: a turn of all of them is one product of matrices."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

VALUES = 2**19  # features held at once, in double: 4 MiB, which every turn reads again from a cache
CHECK = 4  # turns between two looks at whether all is chosen
NEVER = torch.iinfo(torch.int64).max


def herd(classes: Sequence[Tensor], count: int) -> list[Tensor]:
    """For features (n_c, dim) of each class: the places of `count` images of it, most wanted first.

    Each exemplar brings the exemplars' mean closest to the class mean, of normalised features. An image
    may win again; it then moves the sum, and is not kept twice. Should some never win, the closest to the
    mean come last.
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
    """The turn in which each image first won (classes, n), until `wanted` (classes,) have."""
    mean = normed.sum(dim=1) / sizes[:, None]
    whole = torch.full(normed.shape[:2], NEVER)
    padding = torch.arange(normed.shape[1]) >= sizes[:, None]
    limits = (10 * sizes).clamp(min=1000)  # by the class: one order, whatever the count
    alive = torch.arange(len(normed))  # the classes that are not done
    won, rows, target, turn = whole.clone(), alive, mean.clone(), 0
    while len(alive):
        turned = normed.transpose(1, 2)
        for _ in range(CHECK):
            scores = torch.bmm(target[:, None], turned).squeeze(1)  # (classes, n)
            best = scores.masked_fill_(padding, -torch.inf).argmax(dim=1)
            won[rows, best] = won[rows, best].clamp_(max=turn)
            target += mean - normed[rows, best]
            turn += 1
        left = ((won < NEVER).sum(dim=1) < wanted[alive]) & (turn < limits[alive])
        if not left.all():
            whole[alive] = won
            won, normed, mean, target, padding = (each[left] for each in (won, normed, mean, target, padding))
            alive, rows = alive[left], rows[: len(won)]
    return whole.masked_fill_(whole >= limits[:, None], NEVER)  # those that won past their limit


def _order(won: Tensor, features: Tensor, count: int) -> Tensor:
    """The first `count` winners, then the closest to the mean."""
    order = won.argsort(stable=True)
    winners = int((won < NEVER).sum())
    if winners < min(count, len(won)):
        features = features.double()
        distances = (features - features.mean(dim=0)).square().sum(dim=1)
        rest = distances.argsort(stable=True)
        order = torch.cat([order[:winners], rest[won[rest] == NEVER]])
    return order[:count]
