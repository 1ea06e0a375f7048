"""From patch tokens to one embedding a task (sections 3.2 and 3.3), and what could stand in the TAB's place.

Every decoder turns tokens θ_i (tasks, …) and patches (batch, N, dim) into embeddings (batch, tasks, dim).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from dytox.models.attention import Queries, TaskAttention, linear
from dytox.models.encoders import Mlp, added

Kind = Literal["tab", "tab-per-task", "film", "adapters"]


class Decoder(nn.Module):
    """One decoder, shared by all tasks but for their tokens."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def new_token(self) -> Tensor:
        """θ_i of a new task, (1, …)."""
        return nn.init.trunc_normal_(torch.empty(1, self.dim), std=0.02)

    @abstractmethod
    def forward(self, tokens: Tensor, patches: Tensor, keep: Tensor | None = None) -> Tensor:
        """DropPath's `keep` is (batch, tasks, 2), one a branch, for those that have branches."""

    def attention(self, tokens: Tensor, patches: Tensor) -> Tensor | None:
        """Where each task looks, (batch, tasks, patches); None where all tasks see the same."""
        return None


class TaskAttentionBlock(Decoder):
    """TAB (eq. 4), for all task tokens in one pass: e_i = TAB([θ_i, x_L]) for every i (eq. 7)."""

    def __init__(self, *, dim: int, heads: int, mlp_ratio: float) -> None:
        super().__init__(dim)
        self.norm1 = nn.LayerNorm(dim)
        self.attn = TaskAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio))

    def queries(self, tokens: Tensor) -> Queries:
        """What no image changes, of tokens (tasks, dim)."""
        return self.attn.queries(self.norm1(tokens))

    def forward(
        self, tokens: Tensor, patches: Tensor, keep: Tensor | None = None, queries: Queries | None = None
    ) -> Tensor:
        """tokens (tasks, dim), patches (batch, N, dim), keep (batch, tasks, 2) -> (batch, tasks, dim).

        `queries` are those of the tokens, where they are already known.
        """
        attention_keep, mlp_keep = (None, None) if keep is None or not self.training else keep.unbind(dim=2)
        queries = self.queries(tokens) if queries is None else queries
        e = added(tokens, self.attn(queries, self.norm1(patches)), attention_keep)
        return added(e, self.mlp(self.norm2(e)), mlp_keep)

    def attention(self, tokens: Tensor, patches: Tensor) -> Tensor:
        """Where each task token looks, averaged over the heads: (batch, tasks, patches)."""
        return self.attn.weights(self.queries(tokens), self.norm1(patches))[..., 1:].mean(dim=1)


class Film(Decoder):
    """e_i = γ_i ⊙ x̄ + β_i of the pooled patches x̄ (FiLM); both are learned directly, θ_i = [γ_i, β_i]."""

    def new_token(self) -> Tensor:
        """At first every task sees x̄ as it is."""
        return torch.cat([torch.ones(1, self.dim), torch.zeros(1, self.dim)], dim=1)

    def forward(self, tokens: Tensor, patches: Tensor, keep: Tensor | None = None) -> Tensor:
        """Patches (batch, patches, dim) as embeddings (batch, tasks, dim); it has no branch to drop."""
        scale, shift = tokens.chunk(2, dim=1)  # (tasks, dim) each
        return patches.mean(dim=1, keepdim=True) * scale + shift


class Adapter(Decoder):
    """e = x̄ + MLP(x̄), a residual adapter on the pooled patches; θ is the bias of its second layer."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.up, self.down = linear(dim, dim), linear(dim, dim, bias=False)

    def forward(self, tokens: Tensor, patches: Tensor, keep: Tensor | None = None) -> Tensor:
        """Patches (batch, patches, dim) as embeddings (batch, tasks, dim); it has no branch to drop."""
        pooled = patches.mean(dim=1, keepdim=True)  # (batch, 1, dim)
        return pooled + self.down(nn.functional.gelu(self.up(pooled))) + tokens


class PerTask(Decoder):
    """A decoder of its own for each task; as its token and head, it stays when later tasks are trained."""

    def __init__(self, dim: int, make: Callable[[], Decoder]) -> None:
        super().__init__(dim)
        self.make = make
        self.tasks = nn.ModuleList()

    def expand(self) -> None:
        """A new task's."""
        self.tasks.append(self.make())

    def forget(self, tasks: Collection[int]) -> None:
        """Without those of these tasks."""
        self.tasks = nn.ModuleList(each for task, each in enumerate(self.tasks) if task not in tasks)

    def forward(
        self, tokens: Tensor, patches: Tensor, keep: Tensor | None = None, filled: Sequence[int] | None = None
    ) -> Tensor:
        """Of the tokens those at the places `filled` have a task, by default all; zeros for the others."""
        filled = range(len(tokens)) if filled is None else filled
        found = dict[int, Tensor]()
        for place, decoder in zip(filled, self.tasks, strict=True):
            own = None if keep is None else keep[:, place : place + 1]
            found[place] = decoder(tokens[place : place + 1], patches, own)
        return _stacked(found, len(tokens))

    def attention(
        self, tokens: Tensor, patches: Tensor, filled: Sequence[int] | None = None
    ) -> Tensor | None:
        """Where each task's decoder looks."""
        filled = range(len(tokens)) if filled is None else filled
        found = dict[int, Tensor]()
        for place, decoder in zip(filled, self.tasks, strict=True):
            assert isinstance(decoder, Decoder)
            looked = decoder.attention(tokens[place : place + 1], patches)
            if looked is None:
                return None
            found[place] = looked
        return _stacked(found, len(tokens))


def _stacked(found: dict[int, Tensor], count: int) -> Tensor:
    """(batch, 1, …) each, by place -> (batch, count, …), zeros where there is none."""
    like = next(iter(found.values()))
    return torch.cat([found.get(place, torch.zeros_like(like)) for place in range(count)], dim=1)


def make_decoder(kind: Kind, *, dim: int, heads: int, mlp_ratio: float) -> Decoder:
    """The decoder of this name."""

    def tab() -> TaskAttentionBlock:
        return TaskAttentionBlock(dim=dim, heads=heads, mlp_ratio=mlp_ratio)

    if kind == "tab":
        return tab()
    if kind == "film":
        return Film(dim)
    return PerTask(dim, tab if kind == "tab-per-task" else lambda: Adapter(dim))
