"""Images that are kept from learning: to measure by, to calibrate by, and to know when to say nothing."""

from __future__ import annotations

import torch

from dytox.data.samples import Samples
from dytox.errors import UserError
from dytox.randomness import Position, generator

MOST = 20  # of a class: they stay in the model directory


def hold_out(samples: Samples, share: float, already: Samples) -> tuple[Samples, Samples]:
    """What is learned, and what is held out: this share of each class, rounded down, always the same.

    A class has at most MOST images held out, with those that it has already.
    """
    if not 0 <= share < 1:
        raise UserError(f"The share to hold out must be at least 0 and below 1, not {share}.")
    nothing = torch.empty(0, dtype=torch.int64)
    learned, held = [nothing], [nothing]
    for label in samples.labels.unique().tolist():
        members = (samples.labels == label).nonzero().squeeze(1)
        shuffled = members[
            torch.randperm(len(members), generator=generator(0, Position(), f"held out {label}"))
        ]
        room = max(0, MOST - int((already.labels == label).sum()))
        count = min(int(len(members) * share + 1e-9), room, len(members) - 1)
        held.append(shuffled[:count])
        learned.append(shuffled[count:])
    first, second = (torch.cat(part).sort().values for part in (learned, held))
    return samples.take(first), samples.take(second)
