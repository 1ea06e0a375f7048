"""From the embeddings of DyTox, one for each task, to logits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, pad

from dytox.models.base import zero_rows
from dytox.models.cached import Cached


class TaskHead(nn.Module):
    """Clf (eq. 6): a LayerNorm and a linear projection of one embedding."""

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.linear = nn.Linear(dim, classes)

    def forward(self, embedding: Tensor) -> Tensor:
        """(batch, dim) as logits (batch, classes)."""
        return self.linear(self.norm(embedding))


class Heads(nn.Module):
    """The classifiers of all tasks; they give all outputs, those of forgotten classes included."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.tasks = nn.ModuleList()

    @abstractmethod
    def linears(self) -> list[nn.Linear]:
        """The layer of each task that gives its outputs."""

    def forget(self, outputs: Collection[int]) -> list[int]:
        """Set the weights of these outputs to zero; return the tasks whose embedding no output uses now."""
        return zero_rows(self.linears(), outputs)

    def newest(self) -> Iterable[nn.Module | nn.Parameter]:
        """What a new task trains: its own part."""
        return [self.tasks[-1]]


class TokenHeads(Heads):
    """Heads on the embeddings (batch, embeddings, dim) of all task tokens."""

    @abstractmethod
    def expand(self, classes: int, *, embeddings: int) -> None:
        """Add a task, when there are `embeddings` task tokens."""

    @abstractmethod
    def widen(self, embeddings: int) -> None:
        """Make room for `embeddings` task tokens, where there may be more tokens than tasks."""


class Joined(NamedTuple):
    """The heads of all tasks as one product, with the norms' scales and shifts in it."""

    weight: Tensor  # (tasks, dim, most)
    bias: Tensor  # (tasks, 1, most)


class IndependentHeads(TokenHeads, Cached[Joined]):
    """Clf_i (eq. 8): the i-th head sees the i-th embedding alone; all heads in one product."""

    places: Tensor  # of the outputs among tasks × most; empty if every task has as many

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.register_buffer("places", torch.empty(0, dtype=torch.int64), persistent=False)

    def expand(self, classes: int, *, embeddings: int = 0) -> None:
        """Add a head; the old ones stay as they are."""
        self.tasks.append(TaskHead(self.dim, classes))
        sizes = [layer.out_features for layer in self.linears()]
        places = [task * max(sizes) + row for task, size in enumerate(sizes) for row in range(size)]
        padded = len({*sizes}) > 1  # found once, so that no step carries the places to the device
        self.places = torch.tensor(places if padded else [], dtype=torch.int64, device=self.places.device)

    def widen(self, embeddings: int) -> None:
        """Refuse tokens without a head."""
        if embeddings != len(self.tasks):
            raise ValueError("its task tokens do not fit its tasks")

    def forget(self, outputs: Collection[int]) -> list[int]:
        """As of all heads; a head without a class left loses its norm too."""
        empty = super().forget(outputs)
        with torch.no_grad():
            for weight in (weight for task in empty for weight in self.tasks[task].parameters()):
                weight.zero_()
        return empty

    def linears(self) -> list[nn.Linear]:
        """The layer of each head."""
        return [head.linear for head in self.tasks]  # type: ignore[misc]  # a ModuleList of TaskHeads

    def compute_constants(self) -> Joined:
        """Clf_i(e) = (W_i · s_i) ê + (b_i + W_i t_i) for the norm's scale s_i and shift t_i."""
        heads: list[TaskHead] = list(self.tasks)  # type: ignore[arg-type]  # a ModuleList of TaskHeads
        most = max(layer.out_features for layer in self.linears())
        spare = [(layer, most - layer.out_features) for layer in self.linears()]
        weight = torch.stack([pad(layer.weight, (0, 0, 0, more)) for layer, more in spare])
        bias = torch.stack([pad(layer.bias, (0, more)) for layer, more in spare])[..., None]
        scale = torch.stack([head.norm.weight for head in heads])[:, None]  # (tasks, 1, dim)
        shift = torch.stack([head.norm.bias for head in heads])[..., None]
        return Joined((weight * scale).transpose(1, 2), torch.baddbmm(bias, weight, shift).transpose(1, 2))

    def forward(self, embeddings: Tensor) -> Tensor:
        """(batch, tasks, dim) as logits (batch, outputs)."""
        weight, bias = self.constants()
        normed = layer_norm(embeddings, (self.dim,)).transpose(0, 1)
        logits = torch.baddbmm(bias, normed, weight).transpose(0, 1).flatten(1)
        return logits.index_select(1, self.places) if len(self.places) else logits


class SingleHead(TokenHeads):
    """One classifier over all embeddings together: a LayerNorm each, concatenated, then one linear map.

    The rows of each task are a block of their own, so that old rows can be frozen. When an embedding is
    added, old rows get a zero column for each of its values: growing changes no old logit.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.norms = nn.ModuleList()

    def expand(self, classes: int, *, embeddings: int) -> None:
        """Add rows for a new task, and columns up to this number of embeddings."""
        self.widen(embeddings)
        self.tasks.append(nn.Linear(self.dim * embeddings, classes))

    def widen(self, embeddings: int) -> None:
        """Add norms and columns up to this number of embeddings."""
        while len(self.norms) < embeddings:
            self.norms.append(nn.LayerNorm(self.dim))
        width = self.dim * embeddings
        for block in self.linears():
            zeros = block.weight.new_zeros(block.out_features, width - block.in_features)
            block.weight = nn.Parameter(torch.cat([block.weight.detach(), zeros], dim=1))
            block.in_features = width

    def forget(self, outputs: Collection[int]) -> list[int]:
        """As of all heads; every row uses every embedding, so none becomes useless."""
        super().forget(outputs)
        return []

    def newest(self) -> Iterable[nn.Module | nn.Parameter]:
        """The newest rows, and the norm of the newest embedding."""
        return [self.tasks[-1], self.norms[-1]]

    def linears(self) -> list[nn.Linear]:
        """The blocks of rows."""
        return list(self.tasks)  # type: ignore[arg-type]  # a ModuleList of Linears

    def forward(self, embeddings: Tensor) -> Tensor:
        """(batch, embeddings, dim) as logits (batch, outputs)."""
        joined = torch.cat([norm(embeddings[:, i]) for i, norm in enumerate(self.norms)], dim=1)
        return torch.cat([block(joined) for block in self.tasks], dim=1)
