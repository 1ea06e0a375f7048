"""From embeddings to logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm
from torch.nn.utils.rnn import pad_sequence


class Head(nn.Module):
    """Clf (eq. 6): a LayerNorm and a linear projection of one embedding."""

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.linear = nn.Linear(dim, classes)

    def forward(self, embedding: Tensor) -> Tensor:  # (batch, dim) -> (batch, classes)
        return self.linear(self.norm(embedding))


class IndependentHeads(nn.Module):
    """Clf_i (eq. 8): the i-th head sees the i-th embedding alone; all heads in one product."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.tasks = nn.ModuleList()

    def expand(self, classes: int) -> None:
        """A new head for a new task; the old ones stay as they are."""
        self.tasks.append(Head(self.dim, classes))

    def forward(self, embeddings: Tensor) -> Tensor:  # (batch, tasks, dim) -> (batch, classes)
        heads: list[Head] = list(self.tasks)  # type: ignore[arg-type]  # a ModuleList of Heads
        scale = torch.stack([head.norm.weight for head in heads])  # (tasks, dim)
        shift = torch.stack([head.norm.bias for head in heads])
        normed = layer_norm(embeddings, (self.dim,)) * scale + shift
        weight = pad_sequence([head.linear.weight for head in heads], batch_first=True)  # (tasks, most, dim)
        bias = pad_sequence([head.linear.bias for head in heads], batch_first=True)  # (tasks, most)
        logits = torch.baddbmm(bias[:, None], normed.transpose(0, 1), weight.transpose(1, 2))
        sizes = torch.tensor([head.linear.out_features for head in heads], device=logits.device)
        real = torch.arange(weight.shape[1], device=logits.device) < sizes[:, None]  # (tasks, most)
        return logits.transpose(0, 1)[:, real]


class SingleHead(nn.Module):
    """One classifier over all embeddings together: a LayerNorm each, concatenated, then one linear map.

    The rows of each task are a block of their own, so that old rows can be frozen. When an embedding is
    added, old rows get a zero column for each of its values: growing changes no old logit.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.norms = nn.ModuleList()
        self.tasks = nn.ModuleList()

    def expand(self, classes: int, *, embeddings: int) -> None:
        """New rows for a new task, and columns up to so many embeddings."""
        while len(self.norms) < embeddings:
            self.norms.append(nn.LayerNorm(self.dim))
        width = self.dim * embeddings
        for block in self.tasks:
            assert isinstance(block, nn.Linear)
            zeros = block.weight.new_zeros(block.out_features, width - block.in_features)
            block.weight = nn.Parameter(torch.cat([block.weight.detach(), zeros], dim=1))
            block.in_features = width
        self.tasks.append(nn.Linear(width, classes))

    def forward(self, embeddings: Tensor) -> Tensor:  # (batch, embeddings, dim) -> (batch, classes)
        normed = [norm(embeddings[:, i]) for i, norm in enumerate(self.norms)]
        joined = torch.cat(normed, dim=1)
        return torch.cat([block(joined) for block in self.tasks], dim=1)
