"""Room for the outputs of a task, in which a forgotten class leaves a gap.

Matrix products of other shapes round otherwise: without gaps the other logits would move in their last bits.
Gaps hold no weights, only zeros while computing, and are closed when the model next grows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

MOST = 1_000_000  # outputs of a task


@dataclass(frozen=True)
class Slot:
    """`size` outputs, of which those at `rows` are still there."""

    size: int
    rows: tuple[int, ...]

    @staticmethod
    def full(size: int) -> Slot:
        """Without a gap."""
        return Slot(size, tuple(range(size)))

    def spread(self, values: Tensor, size: int) -> Tensor:
        """The values of the rows (rows, …) at their places, zeros in the gaps and behind: (size, …)."""
        if len(self.rows) == self.size:
            behind = size - self.size
            return values if not behind else torch.cat([values, values.new_zeros(behind, *values.shape[1:])])
        places = torch.tensor(self.rows, dtype=torch.int64, device=values.device)
        return values.new_zeros(size, *values.shape[1:]).index_copy(0, places, values)

    def take(self, outputs: Tensor) -> Tensor:
        """The outputs (batch, size) that are still there."""
        return outputs if len(self.rows) == self.size else outputs[:, list(self.rows)]


def forget(slots: Sequence[Slot], linears: Sequence[nn.Linear], gone: Collection[int]) -> list[Slot]:
    """Takes the outputs `gone`, counted over all slots, out of the layers of the slots that are not empty."""
    layers, first, left = iter(linears), 0, []
    for slot in slots:
        if not slot.rows:
            left.append(slot)
            continue
        layer = next(layers)
        keep = [row for row in range(len(slot.rows)) if first + row not in gone]
        first += len(slot.rows)
        left.append(replace(slot, rows=tuple(slot.rows[row] for row in keep)))
        layer.weight = nn.Parameter(layer.weight.detach()[keep])
        if layer.bias is not None:
            layer.bias = nn.Parameter(layer.bias.detach()[keep])
        layer.out_features = len(keep)
    return left


def to_json(slots: Sequence[Slot]) -> dict[str, Any]:
    """What `from_json` needs, where there are gaps."""
    if all(len(slot.rows) == slot.size for slot in slots):
        return {}
    return {"slots": [{"size": slot.size, "rows": list(slot.rows)} for slot in slots]}


def from_json(structure: Mapping[str, Any]) -> list[Slot]:
    """The slots of a structure, which must fit its increments."""
    if "slots" not in structure:
        return [Slot.full(size) for size in structure["increments"]]
    slots = [Slot(each["size"], tuple(each["rows"])) for each in structure["slots"]]
    sizes = [len(slot.rows) for slot in slots if slot.rows]
    sound = all(
        type(slot.size) is int
        and slot.size <= MOST
        and slot.rows == tuple(sorted({*slot.rows} & {*range(slot.size)}))
        for slot in slots
    )
    if not sound or sizes != list(structure["increments"]):
        raise ValueError("its gaps do not fit its tasks")
    return slots
