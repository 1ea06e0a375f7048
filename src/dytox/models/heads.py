"""From embeddings to logits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from dytox.models import slots
from dytox.models.prepared import Preparing
from dytox.models.slots import Slot


class Head(nn.Module):
    """Clf (eq. 6): a LayerNorm and a linear projection of one embedding."""

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.linear = nn.Linear(dim, classes)

    def forward(self, embedding: Tensor) -> Tensor:
        """(batch, dim) as logits (batch, classes)."""
        return self.linear(self.norm(embedding))


class Heads(nn.Module):
    """The classifiers of all tasks, each with a slot for its outputs."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.tasks = nn.ModuleList()
        self.slots: list[Slot] = []

    @abstractmethod
    def linears(self) -> list[nn.Linear]:
        """The layer of each task that gives its outputs."""

    def close_gaps(self) -> None:
        """From now on as if the forgotten classes had never been."""
        self.slots = [Slot.full(len(slot.rows)) for slot in self.slots if slot.rows]

    def forget(self, gone: Collection[int]) -> list[int]:
        """Takes these outputs away, and tasks left empty with them; gives the places of those tasks."""
        self.slots = slots.forget(self.slots, self.linears(), gone)
        empty = [task for task, layer in enumerate(self.linears()) if not layer.out_features]
        self.tasks = nn.ModuleList(each for task, each in enumerate(self.tasks) if task not in empty)
        return empty

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        """The gaps of a structure to whose increments these heads have grown."""
        self.slots = slots.from_json(structure)


class Joined(NamedTuple):
    """The heads of all tasks as one product, with the norms' scales and shifts in it."""

    weight: Tensor  # (slots, dim, most)
    bias: Tensor  # (slots, 1, most)


class IndependentHeads(Heads, Preparing[Joined]):
    """Clf_i (eq. 8): the i-th head sees the i-th embedding alone; all heads in one product."""

    places: Tensor  # of the outputs that are there, among slots × most; empty: all are

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.register_buffer("places", torch.empty(0, dtype=torch.int64), persistent=False)

    def expand(self, classes: int) -> None:
        """A new head for a new task; the old ones stay as they are."""
        self.close_gaps()
        self.tasks.append(Head(self.dim, classes))
        self.slots.append(Slot.full(classes))
        self._arrange()

    def forget(self, gone: Collection[int]) -> list[int]:
        """Takes these outputs away; gives the places of the tasks left empty."""
        empty = super().forget(gone)
        self._arrange()
        return empty

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        """The gaps of a structure to whose increments these heads have grown."""
        super().rebuild(structure)
        self._arrange()

    @property
    def most(self) -> int:
        """The outputs of the largest slot."""
        return max((slot.size for slot in self.slots), default=0)

    def _arrange(self) -> None:
        """Finds the places once, so that no step carries them to the device."""
        whole = all(len(slot.rows) == self.most for slot in self.slots)
        rows = [place * self.most + row for place, slot in enumerate(self.slots) for row in slot.rows]
        self.places = torch.tensor([] if whole else rows, dtype=torch.int64, device=self.places.device)

    def linears(self) -> list[nn.Linear]:
        """Each head's."""
        return [head.linear for head in self.tasks]  # type: ignore[misc]  # a ModuleList of Heads

    def fill(self, values: list[Tensor]) -> Tensor:
        """One row a slot, from one a task: zeros where a slot is empty."""
        left = iter(values)
        return torch.stack([next(left) if slot.rows else torch.zeros_like(values[0]) for slot in self.slots])

    def prepare(self) -> Joined:
        """Clf_i(e) = (W_i · s_i) ê + (b_i + W_i t_i) for the norm's scale s_i and shift t_i."""
        heads: list[Head] = list(self.tasks)  # type: ignore[arg-type]  # a ModuleList of Heads
        filled, most = [slot for slot in self.slots if slot.rows], self.most
        pairs = list(zip(filled, self.linears(), strict=True))
        weight = self.fill([slot.spread(layer.weight, most) for slot, layer in pairs])  # (slots, most, dim)
        bias = self.fill([slot.spread(layer.bias, most) for slot, layer in pairs])[..., None]
        scale = self.fill([head.norm.weight for head in heads])[:, None]  # (slots, 1, dim)
        shift = self.fill([head.norm.bias for head in heads])[..., None]
        return Joined((weight * scale).transpose(1, 2), torch.baddbmm(bias, weight, shift).transpose(1, 2))

    def forward(self, embeddings: Tensor) -> Tensor:
        """(batch, slots, dim) as logits (batch, classes)."""
        weight, bias = self.prepared()
        normed = layer_norm(embeddings, (self.dim,)).transpose(0, 1)
        logits = torch.baddbmm(bias, normed, weight).transpose(0, 1).flatten(1)
        return logits.index_select(1, self.places) if len(self.places) else logits


class SingleHead(Heads):
    """One classifier over all embeddings together: a LayerNorm each, concatenated, then one linear map.

    The rows of each task are a block of their own, so that old rows can be frozen. When an embedding is
    added, old rows get a zero column for each of its values: growing changes no old logit.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.norms = nn.ModuleList()

    def expand(self, classes: int, *, embeddings: int) -> None:
        """New rows for a new task, and columns up to so many embeddings."""
        self.close_gaps()
        self.widen(embeddings)
        self.tasks.append(nn.Linear(self.dim * embeddings, classes))
        self.slots.append(Slot.full(classes))

    def widen(self, embeddings: int) -> None:
        """Columns up to so many embeddings."""
        while len(self.norms) < embeddings:
            self.norms.append(nn.LayerNorm(self.dim))
        width = self.dim * embeddings
        for block in self.linears():
            zeros = block.weight.new_zeros(block.out_features, width - block.in_features)
            block.weight = nn.Parameter(torch.cat([block.weight.detach(), zeros], dim=1))
            block.in_features = width

    def linears(self) -> list[nn.Linear]:
        """The blocks."""
        return list(self.tasks)  # type: ignore[arg-type]  # a ModuleList of Linears

    def forward(self, embeddings: Tensor) -> Tensor:
        """(batch, embeddings, dim) as logits (batch, classes)."""
        normed = [norm(embeddings[:, i]) for i, norm in enumerate(self.norms)]
        joined = torch.cat(normed, dim=1)
        filled = [slot for slot in self.slots if slot.rows]
        return torch.cat(
            [
                slot.take(
                    linear(joined, *(slot.spread(each, slot.size) for each in (block.weight, block.bias)))
                )
                for slot, block in zip(filled, self.linears(), strict=True)
            ],
            dim=1,
        )
