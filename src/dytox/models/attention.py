"""The three attentions: plain self-attention, GPSA (ConViT) and task-attention (the paper's eq. 3)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from dytox.models.base import Constant
from dytox.models.cached import Cached


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(…, tokens, dim) -> (…, heads, tokens, dim / heads)."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """(…, heads, tokens, dim / heads) -> (…, tokens, dim)."""
    return x.transpose(-3, -2).flatten(-2)


def linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """A linear layer as transformers begin: weights of standard deviation 0.02, no bias at first."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.trunc_normal_(layer.weight, std=0.02)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class SelfAttention(nn.Module):
    """Multi-head self-attention without bias on queries, keys and values."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qk = linear(dim, 2 * dim, bias=False)
        self.v = linear(dim, dim, bias=False)
        self.proj = linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, patches, dim), and the same out."""
        return self.proj(merge_heads(self.attend(x)))

    def attend(self, x: Tensor) -> Tensor:
        """What each head gathers: (batch, heads, patches, dim / heads)."""
        q, k = (split_heads(part, self.heads) for part in self.qk(x).chunk(2, dim=-1))
        return scaled_dot_product_attention(q, k, split_heads(self.v(x), self.heads))


class GatedPositionalSelfAttention(SelfAttention, Cached[Tensor]):
    """GPSA: a learned gate between attention by content and attention by relative position.

    Both maps are normalised, so their mixture is (1 - g) · SDPA(q, k, v) + g · P · v, where P (heads, N, N)
    does not depend on the image: no map per image is ever made, and P · v is one product a head, over the
    patches of all images. P's softmax ignores `pos_bias`.
    """

    relative: Tensor

    def __init__(self, dim: int, heads: int, *, side: int, locality_strength: float) -> None:
        super().__init__(dim, heads)
        self.pos_proj = linear(3, heads, bias=False)
        self.pos_bias = Constant(torch.zeros(heads))
        self.gate = nn.Parameter(torch.ones(heads))
        self.register_buffer("relative", relative_positions(side), persistent=False)
        self._initialise(locality_strength)

    @torch.no_grad()
    def _initialise(self, strength: float) -> None:
        """Values pass through; the first ⌊√heads⌋² heads look at the places of a square kernel."""
        nn.init.eye_(self.v.weight)
        kernel = math.isqrt(self.heads)
        centre = (kernel - 1) / 2 if kernel % 2 == 0 else kernel // 2
        for head in range(kernel**2):
            row, column = divmod(head, kernel)
            self.pos_proj.weight[head] = torch.tensor([2 * (row - centre), 2 * (column - centre), -1.0])
        self.pos_proj.weight.mul_(strength)

    def positional_map(self) -> Tensor:
        """P: where each head looks by position alone, (heads, patches, patches)."""
        return self.pos_proj(self.relative).permute(2, 0, 1).softmax(dim=-1)

    def compute_constants(self) -> Tensor:
        """P."""
        return self.positional_map()

    def attend(self, x: Tensor) -> Tensor:
        """The gated sum of both attentions."""
        q, k = (split_heads(part, self.heads) for part in self.qk(x).chunk(2, dim=-1))
        v = split_heads(self.v(x), self.heads)
        by_content = scaled_dot_product_attention(q, k, v)
        by_head = v.permute(1, 2, 0, 3).contiguous().flatten(2)  # (heads, patches, batch · dim / heads)
        by_position = torch.bmm(self.constants(), by_head).unflatten(2, (x.shape[0], -1)).permute(2, 0, 1, 3)
        gate = torch.sigmoid(self.gate).view(-1, 1, 1).to(by_content)  # (heads, 1, 1)
        return torch.lerp(by_content, by_position.to(by_content), gate)


def relative_positions(side: int) -> Tensor:
    """For each pair of patches of a side×side grid: x, y and squared distance; (patches, patches, 3)."""
    place = torch.arange(side**2)
    x, y = place % side, place // side
    dx, dy = x[None] - x[:, None], y[None] - y[:, None]
    return torch.stack([dx, dy, dx**2 + dy**2], dim=-1).float()


class Queries(NamedTuple):
    """What the task tokens bring to their attention, whatever the image; (heads, tasks, …) each."""

    q: Tensor  # scaled
    own_score: Tensor  # of a token's attention to itself
    own_value: Tensor


class TaskAttention(nn.Module):
    """All task tokens attend at once, each to the patches and to itself (eq. 3 for every i).

    `Norm(z_i)` acts token by token, so keys and values of the patches are the same for all tasks.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (linear(dim, dim, bias=False) for _ in range(3))
        self.proj = linear(dim, dim)

    def queries(self, tokens: Tensor) -> Queries:
        """The part of eq. 3 that no image changes, of normalised tokens (tasks, dim)."""
        q, k, v = (split_heads(each(tokens), self.heads) for each in (self.q, self.k, self.v))
        q = q / math.sqrt(q.shape[-1])
        return Queries(q, (q * k).sum(-1, keepdim=True), v)

    def weights(self, queries: Queries, patches: Tensor) -> Tensor:
        """A of eq. 3: (batch, heads, tasks, 1 + patches), a token's attention to itself first."""
        k = split_heads(self.k(patches), self.heads)  # (batch, heads, patches, d / h)
        own = queries.own_score.expand(patches.shape[0], -1, -1, -1)
        return torch.cat([own, queries.q @ k.transpose(-2, -1)], dim=-1).softmax(dim=-1)

    def forward(self, queries: Queries, patches: Tensor) -> Tensor:
        """Normalised patches (batch, patches, dim) as what each task gathers, (batch, tasks, dim)."""
        own, others = self.weights(queries, patches).split((1, patches.shape[1]), dim=-1)
        gathered = others @ split_heads(self.v(patches), self.heads) + own * queries.own_value
        return self.proj(merge_heads(gathered))  # (batch, tasks, dim)
