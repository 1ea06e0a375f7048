"""From an image to patch tokens: the tokenizer and the stack of self-attention blocks (section 3.1)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from dytox.models.attention import GatedPositionalSelfAttention, SelfAttention, linear
from dytox.models.base import Encoder, Encoding

Attention = Literal["gpsa", "plain"]


class PatchTokenizer(nn.Module):
    """x_0: the image cut into patches, each projected, with a learned positional embedding added."""

    def __init__(self, *, image_size: int, patch_size: int, dim: int) -> None:
        super().__init__()
        self.side = image_size // patch_size
        self.proj = nn.Conv2d(3, dim, kernel_size=patch_size, stride=patch_size)
        self.pos_embed = nn.Parameter(torch.empty(self.side**2, dim))  # the paper: N+1; its code: N
        nn.init.trunc_normal_(self.pos_embed, std=0.02)

    def forward(self, images: Tensor) -> Tensor:
        """Images (batch, 3, height, width) as tokens (batch, patches, dim)."""
        return self.proj(images).flatten(2).transpose(1, 2) + self.pos_embed  # (batch, patches, dim)


class Mlp(nn.Sequential):
    """Two linear layers around a GELU."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__(linear(dim, hidden), nn.GELU(), linear(hidden, dim))


def added(x: Tensor, branch: Tensor, keep: Tensor | None) -> Tensor:
    """x + branch (batch, …); with DropPath the branch times `keep` (batch, …): 0 or 1 / (1 - rate)."""
    if keep is None:
        return x + branch
    return torch.addcmul(x, branch, keep.view(*keep.shape, *[1] * (branch.ndim - keep.ndim)))


class SelfAttentionBlock(nn.Module):
    """SAB (eq. 1): pre-norm self-attention and MLP, each beside a shortcut."""

    def __init__(self, attention: SelfAttention, dim: int, mlp_ratio: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = attention
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio))

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """(batch, patches, dim), and the same out; `keep` is (batch, 2), one a branch."""
        attention_keep, mlp_keep = (None, None) if keep is None else keep.unbind(dim=1)
        x = added(x, self.attn(self.norm1(x)), attention_keep)
        return added(x, self.mlp(self.norm2(x)), mlp_keep)


class TransformerEncoder(Encoder):
    """SAB_L ∘ … ∘ SAB_1 of the tokenizer's x_0: the part that all tasks share."""

    def __init__(
        self,
        *,
        image_size: int,
        patch_size: int,
        dim: int,
        heads: int,
        depth: int,
        attention: Attention,
        mlp_ratio: float,
        locality_strength: float,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"image size {image_size} is not a multiple of patch size {patch_size}")
        if dim % heads:
            raise ValueError(f"dim {dim} is not a multiple of heads {heads}")
        self.dim, self.depth = dim, depth
        self.tokenizer = PatchTokenizer(image_size=image_size, patch_size=patch_size, dim=dim)

        def make_attention() -> SelfAttention:
            if attention == "plain":
                return SelfAttention(dim, heads)
            side = self.tokenizer.side
            return GatedPositionalSelfAttention(dim, heads, side=side, locality_strength=locality_strength)

        self.sabs = nn.ModuleList(SelfAttentionBlock(make_attention(), dim, mlp_ratio) for _ in range(depth))

    def forward(self, images: Tensor, keep: Tensor | None = None) -> Encoding:
        """Images as x_L (batch, patches, dim)."""
        x = self.tokenizer(images)
        for level, sab in enumerate(self.sabs):
            x = sab(x, None if keep is None or not self.training else keep[:, level])
        return Encoding(x)  # (batch, patches, dim)
