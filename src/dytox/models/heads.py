"""From embeddings to logits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from dytox.models import slots
from dytox.models.slots import Slot


class Head(nn.Module):
    """Clf (eq. 6): a LayerNorm and a linear projection of one embedding."""

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.linear = nn.Linear(dim, classes)

    def forward(self, embedding: Tensor) -> Tensor:  # (batch, dim) -> (batch, classes)
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


class IndependentHeads(Heads):
    """Clf_i (eq. 8): the i-th head sees the i-th embedding alone; all heads in one product."""

    def expand(self, classes: int) -> None:
        """A new head for a new task; the old ones stay as they are."""
        self.close_gaps()
        self.tasks.append(Head(self.dim, classes))
        self.slots.append(Slot.full(classes))

    def linears(self) -> list[nn.Linear]:
        """Each head's."""
        return [head.linear for head in self.tasks]  # type: ignore[misc]  # a ModuleList of Heads

    def fill(self, values: list[Tensor]) -> Tensor:
        """One row a slot, from one a task: zeros where a slot is empty."""
        left = iter(values)
        return torch.stack([next(left) if slot.rows else torch.zeros_like(values[0]) for slot in self.slots])

    def forward(self, embeddings: Tensor) -> Tensor:  # (batch, slots, dim) -> (batch, classes)
        heads: list[Head] = list(self.tasks)  # type: ignore[arg-type]  # a ModuleList of Heads
        scale = self.fill([head.norm.weight for head in heads])  # (slots, dim)
        shift = self.fill([head.norm.bias for head in heads])
        normed = layer_norm(embeddings, (self.dim,)) * scale + shift
        filled = [slot for slot in self.slots if slot.rows]
        most = max(slot.size for slot in self.slots)
        pairs = list(zip(filled, self.linears(), strict=True))
        weight = self.fill([slot.spread(layer.weight, most) for slot, layer in pairs])  # (slots, most, dim)
        bias = self.fill([slot.spread(layer.bias, most) for slot, layer in pairs])  # (slots, most)
        logits = torch.baddbmm(bias[:, None], normed.transpose(0, 1), weight.transpose(1, 2))
        places = [place * most + row for place, slot in enumerate(self.slots) for row in slot.rows]
        return logits.transpose(0, 1).flatten(1).index_select(1, torch.tensor(places, device=logits.device))


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

    def forward(self, embeddings: Tensor) -> Tensor:  # (batch, embeddings, dim) -> (batch, classes)
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
