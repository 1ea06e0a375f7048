"""The plain formulation of the model, as the paper writes it.

It computes a positional map for every image, and one pass through the TAB and one head for every task. It
uses the weights of a `DyTox` model; tests check that both give the same result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from dytox.models.attention import (
    GatedPositionalSelfAttention,
    SelfAttention,
    TaskAttention,
    merge_heads,
    split_heads,
)
from dytox.models.base import Output
from dytox.models.decoders import TaskAttentionBlock
from dytox.models.dytox import DyTox
from dytox.models.heads import SingleHead
from dytox.models.transformer import SelfAttentionBlock, TransformerEncoder


def forward(model: DyTox, images: Tensor, draws: Mapping[str, Tensor] | None = None) -> Output:
    """Run algorithm 1, one task token after the other."""
    draws = draws or {}
    assert isinstance(model.encoder, TransformerEncoder)
    assert isinstance(model.tab, TaskAttentionBlock)
    x = model.encoder.tokenizer(images)
    for level, sab in enumerate(model.encoder.sabs):
        assert isinstance(sab, SelfAttentionBlock)
        x = self_attention_block(sab, x, draws["sab_keep"][:, level] if "sab_keep" in draws else None)
    embeddings = []
    for i, token in enumerate(model.task_tokens):
        keep = draws["tab_keep"][:, i] if "tab_keep" in draws else None
        embeddings.append(task_attention_block(model.tab, token, x, keep))  # eq. 7
    stacked = torch.stack(embeddings, dim=1)
    if isinstance(model.heads, SingleHead):
        logits = model.heads(stacked)
    else:
        logits = torch.cat([head(e) for head, e in zip(model.heads.tasks, embeddings, strict=True)], dim=1)
    divergence = None if model.divergence_head is None else model.divergence_head(embeddings[-1])
    return Output(logits, stacked, divergence)


def dropped(branch: Tensor, keep: Tensor | None) -> Tensor:
    """DropPath: `branch` (batch, …) scaled by `keep` (batch,), which is 0 or 1 / (1 - rate)."""
    return branch if keep is None else branch * keep.view(-1, *[1] * (branch.ndim - 1))


def self_attention_block(sab: SelfAttentionBlock, x: Tensor, keep: Tensor | None) -> Tensor:
    """Eq. 1."""
    first, second = (None, None) if keep is None else keep.unbind(1)
    x = x + dropped(self_attention(sab.attn, sab.norm1(x)), first)
    return x + dropped(sab.mlp(sab.norm2(x)), second)


def self_attention(attention: SelfAttention, x: Tensor) -> Tensor:
    """ConViT's GPSA with an attention map for each image, or plain self-attention."""
    q, k = (split_heads(part, attention.heads) for part in attention.qk(x).chunk(2, dim=-1))
    a = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1)  # (batch, heads, N, N)
    if isinstance(attention, GatedPositionalSelfAttention):
        relative = attention.relative.expand(len(x), -1, -1, -1)
        scores = attention.pos_proj(relative) + attention.pos_bias
        positional = scores.permute(0, 3, 1, 2).softmax(dim=-1)
        gate = torch.sigmoid(attention.gate).view(1, -1, 1, 1)
        a = (1 - gate) * a + gate * positional
        a = a / a.sum(dim=-1, keepdim=True)
    return attention.proj(merge_heads(a @ split_heads(attention.v(x), attention.heads)))


def task_attention_block(tab: TaskAttentionBlock, token: Tensor, x: Tensor, keep: Tensor | None) -> Tensor:
    """Eq. 2 to 5 for one token: an embedding (batch, dim)."""
    first, second = (None, None) if keep is None else keep.unbind(1)
    c = token.expand(len(x), -1)
    z = torch.cat([c[:, None], x], dim=1)
    c = c + dropped(task_attention(tab.attn, tab.norm1(z)), first)
    return c + dropped(tab.mlp(tab.norm2(c)), second)


def task_attention(attention: TaskAttention, z: Tensor) -> Tensor:
    """Eq. 3: the first token of z attends to all of z."""
    q, k, v = (
        split_heads(part, attention.heads) for part in (attention.q(z[:, :1]), attention.k(z), attention.v(z))
    )
    a = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return attention.proj(merge_heads(a @ v)).squeeze(1)
