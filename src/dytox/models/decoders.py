"""From patch tokens to one embedding for each task (sections 3.2 and 3.3): the TAB and its alternatives.

Every decoder turns tokens θ_i (tasks, …) and patches (batch, N, dim) into embeddings (batch, tasks, dim).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable

import torch
from torch import Tensor, nn

from dytox.models.attention import Queries, TaskAttention, linear
from dytox.models.transformer import Mlp, added


class TaskDecoder(nn.Module):
    """One decoder, shared by all tasks but for their tokens."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def new_token(self) -> Tensor:
        """θ_i of a new task, (1, …)."""
        return nn.init.trunc_normal_(torch.empty(1, self.dim), std=0.02)

    @abstractmethod
    def forward(
        self, tokens: Tensor, patches: Tensor, keep: Tensor | None = None, queries: Queries | None = None
    ) -> Tensor:
        """Patches (batch, N, dim) as embeddings (batch, tasks, dim).

        `queries` are what `prepare` gives for the tokens. DropPath's `keep` is (batch, tasks, 2), one number
        for each branch of a decoder that has branches.
        """

    def prepare(self, tokens: Tensor) -> Queries | None:
        """The part of the work that does not depend on the images."""
        return None

    def attention(self, tokens: Tensor, patches: Tensor) -> Tensor | None:
        """Where each task looks, (batch, tasks, patches); None if all tasks see the same."""
        return None

    def expand(self) -> None:
        """Add what a new task needs; a shared decoder needs nothing."""

    def forget(self, tasks: Collection[int]) -> None:
        """Set what belongs to these tasks alone to zero."""

    def newest(self) -> nn.Module:
        """What a new task trains."""
        return self

    def block_weights(self, task: int) -> Iterable[Tensor]:
        """The weights that only this task uses."""
        return []

    def constant_parts(self) -> list[nn.Module]:
        """The parts that no task changes."""
        return [self]


class TaskAttentionBlock(TaskDecoder):
    """TAB (eq. 4), for all task tokens in one pass: e_i = TAB([θ_i, x_L]) for every i (eq. 7)."""

    def __init__(self, *, dim: int, heads: int, mlp_ratio: float) -> None:
        super().__init__(dim)
        self.norm1 = nn.LayerNorm(dim)
        self.attn = TaskAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio))

    def prepare(self, tokens: Tensor) -> Queries:
        """The queries of tokens (tasks, dim)."""
        return self.attn.queries(self.norm1(tokens))

    def forward(
        self, tokens: Tensor, patches: Tensor, keep: Tensor | None = None, queries: Queries | None = None
    ) -> Tensor:
        """tokens (tasks, dim), patches (batch, N, dim), keep (batch, tasks, 2) -> (batch, tasks, dim)."""
        attention_keep, mlp_keep = (None, None) if keep is None or not self.training else keep.unbind(dim=2)
        queries = self.prepare(tokens) if queries is None else queries
        e = added(tokens, self.attn(queries, self.norm1(patches)), attention_keep)
        return added(e, self.mlp(self.norm2(e)), mlp_keep)

    def attention(self, tokens: Tensor, patches: Tensor) -> Tensor:
        """Where each task token looks, averaged over the heads: (batch, tasks, patches)."""
        return self.attn.weights(self.prepare(tokens), self.norm1(patches))[..., 1:].mean(dim=1)


class Film(TaskDecoder):
    """e_i = γ_i ⊙ x̄ + β_i of the pooled patches x̄ (FiLM); both are learned directly, θ_i = [γ_i, β_i]."""

    def new_token(self) -> Tensor:
        """At first every task sees x̄ as it is."""
        return torch.cat([torch.ones(1, self.dim), torch.zeros(1, self.dim)], dim=1)

    def forward(
        self, tokens: Tensor, patches: Tensor, keep: Tensor | None = None, queries: Queries | None = None
    ) -> Tensor:
        """Patches (batch, patches, dim) as embeddings (batch, tasks, dim); it has no branch to drop."""
        scale, shift = tokens.chunk(2, dim=1)  # (tasks, dim) each
        return patches.mean(dim=1, keepdim=True) * scale + shift


class Adapter(TaskDecoder):
    """e = x̄ + MLP(x̄), a residual adapter on the pooled patches; θ is the bias of its second layer."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.up, self.down = linear(dim, dim), linear(dim, dim, bias=False)

    def forward(
        self, tokens: Tensor, patches: Tensor, keep: Tensor | None = None, queries: Queries | None = None
    ) -> Tensor:
        """Patches (batch, patches, dim) as embeddings (batch, tasks, dim); it has no branch to drop."""
        pooled = patches.mean(dim=1, keepdim=True)  # (batch, 1, dim)
        return pooled + self.down(nn.functional.gelu(self.up(pooled))) + tokens


class PerTask(TaskDecoder):
    """A separate decoder for each task; like its token and head, it stays when later tasks are trained."""

    def __init__(self, dim: int, make: Callable[[], TaskDecoder]) -> None:
        super().__init__(dim)
        self.make = make
        self.tasks = nn.ModuleList()

    def expand(self) -> None:
        self.tasks.append(self.make())

    def forget(self, tasks: Collection[int]) -> None:
        with torch.no_grad():
            for weight in (weight for task in tasks for weight in self.tasks[task].parameters()):
                weight.zero_()

    def newest(self) -> nn.Module:
        return self.tasks[-1]

    def block_weights(self, task: int) -> Iterable[Tensor]:
        return self.tasks[task].parameters()

    def constant_parts(self) -> list[nn.Module]:
        return []

    def decoders(self) -> list[TaskDecoder]:
        """The decoder of each task."""
        return list(self.tasks)  # type: ignore[arg-type]  # a ModuleList of decoders

    def forward(
        self, tokens: Tensor, patches: Tensor, keep: Tensor | None = None, queries: Queries | None = None
    ) -> Tensor:
        """The embedding of each task by its own decoder."""
        found = []
        for place, decoder in enumerate(self.tasks):
            own = None if keep is None else keep[:, place : place + 1]
            found.append(decoder(tokens[place : place + 1], patches, own))
        return torch.cat(found, dim=1)

    def attention(self, tokens: Tensor, patches: Tensor) -> Tensor | None:
        """Where each task's decoder looks."""
        looked = [
            decoder.attention(tokens[place : place + 1], patches)
            for place, decoder in enumerate(self.decoders())
        ]
        found = [each for each in looked if each is not None]
        return torch.cat(found, dim=1) if found else None


def make_decoder(kind: str, *, dim: int, heads: int, mlp_ratio: float) -> TaskDecoder:
    """The decoder of this name in the config."""

    def tab() -> TaskAttentionBlock:
        return TaskAttentionBlock(dim=dim, heads=heads, mlp_ratio=mlp_ratio)

    kinds: dict[str, Callable[[], TaskDecoder]] = {
        "tab": tab,
        "film": lambda: Film(dim),
        "tab-per-task": lambda: PerTask(dim, tab),
        "adapters": lambda: PerTask(dim, lambda: Adapter(dim)),
    }
    return kinds[kind]()
