"""Pretrained encoders: a plain ViT whose weights come from a file, or a user's own module."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, scaled_dot_product_attention

from dytox.errors import UserError
from dytox.models.attention import SelfAttention, linear, split_heads
from dytox.models.base import Encoder, Encoding
from dytox.models.transformer import SelfAttentionBlock

_EPSILON = 1e-6  # of a ViT's LayerNorms

# timm's names and Hugging Face's -> ours
_RENAMED = (
    (r"^(module|vit)\.", ""),
    (r"^(patch_embed\.proj|embeddings\.patch_embeddings\.projection)\.", "proj."),
    (r"^embeddings\.", ""),
    (r"^position_embeddings$", "pos_embed"),
    (r"^(blocks|encoder\.layer)\.", "sabs."),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"\.attention\.attention\.(query|key|value)\.", r".attn.\1."),
    (r"\.attention\.output\.dense\.", ".attn.proj."),
    (r"\.(mlp\.fc1|intermediate\.dense)\.", ".mlp.0."),
    (r"\.(mlp\.fc2|output\.dense)\.", ".mlp.2."),
    (r"^layernorm\.", "norm."),
)
_LEFT_OUT = re.compile(r"(head|head_dist|classifier|pooler|fc_norm|pre_logits)\.")


class QkvAttention(SelfAttention):
    """As in a ViT: one projection with bias for queries, keys and values."""

    def __init__(self, dim: int, heads: int) -> None:
        nn.Module.__init__(self)
        self.heads = heads
        self.qkv = linear(dim, 3 * dim)
        self.proj = linear(dim, dim)

    def attend(self, x: Tensor) -> Tensor:
        """What each head gathers: (batch, heads, tokens, dim / heads)."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        return scaled_dot_product_attention(q, k, v)


class VisionTransformer(Encoder):
    """A plain ViT (Dosovitskiy 2021): all its tokens, the class token first, which is also its summary."""

    def __init__(
        self, *, image_size: int, patch_size: int, dim: int, heads: int, depth: int, mlp_ratio: float
    ) -> None:
        super().__init__()
        self.dim, self.depth = dim, depth
        self.proj = nn.Conv2d(3, dim, kernel_size=patch_size, stride=patch_size)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + (image_size // patch_size) ** 2, dim))
        self.sabs = nn.ModuleList(
            SelfAttentionBlock(QkvAttention(dim, heads), dim, mlp_ratio) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(dim)
        for part in self.modules():
            if isinstance(part, nn.LayerNorm):
                part.eps = _EPSILON

    def forward(self, images: Tensor, keep: Tensor | None = None) -> Encoding:
        """Images as tokens (batch, 1 + patches, dim)."""
        patches = self.proj(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(patches.shape[0], -1, -1), patches], dim=1) + self.pos_embed
        for level, sab in enumerate(self.sabs):
            x = sab(x, None if keep is None or not self.training else keep[:, level])
        x = self.norm(x)  # (batch, 1 + patches, dim)
        return Encoding(x, summary=x[:, 0])


class OwnEncoder(Encoder):
    """A copy of a module: images -> (batch, dim), (batch, tokens, dim) or (batch, dim, height, width)."""

    def __init__(self, module: nn.Module, dim: int = 0) -> None:
        super().__init__()
        self.module, self.dim = copy.deepcopy(module), dim

    def forward(self, images: Tensor, keep: Tensor | None = None) -> Encoding:
        """Whatever form the module's result has, as tokens (batch, tokens, dim)."""
        found = self.module(images)
        if not isinstance(found, Tensor) or found.ndim not in (2, 3, 4):
            raise UserError(
                "The encoder must give one tensor (batch, dim), (batch, tokens, dim) or a feature map."
            )
        if found.ndim == 4:
            return Encoding.of_maps([found])
        return Encoding(found if found.ndim == 3 else found[:, None])

    @torch.no_grad()
    def measure(self, image_size: int) -> int:
        """The length of its tokens, tried out on an image of this size."""
        training = self.training
        first = next(self.parameters(), torch.zeros(1))
        images = torch.zeros(1, 3, image_size, image_size, device=first.device, dtype=first.dtype)
        try:
            return int(self.eval()(images).tokens.shape[-1])
        finally:
            self.train(training)


@dataclass(frozen=True)
class Weights:
    """A ViT's weights under our names, and what they say about its shape."""

    tensors: dict[str, Tensor]
    image_size: int
    patch_size: int
    dim: int
    depth: int
    mlp_ratio: float

    def at(self, image_size: int) -> dict[str, Tensor]:
        """The weights for images of another side: the positions are interpolated."""
        side = image_size // self.patch_size
        token, grid = self.tensors["pos_embed"].split([1, self.tensors["pos_embed"].shape[1] - 1], dim=1)
        old = self.image_size // self.patch_size
        if side == old:
            return self.tensors
        square = grid.transpose(1, 2).unflatten(2, (old, old))  # (1, dim, old, old)
        square = interpolate(square.float(), size=(side, side), mode="bicubic", antialias=True)
        return {**self.tensors, "pos_embed": torch.cat([token, square.flatten(2).transpose(1, 2)], dim=1)}


def translate_vit(state: Mapping[str, Tensor]) -> Weights:
    """The weights of a plain ViT as timm or Hugging Face save it."""
    tensors = {_rename(name): tensor for name, tensor in state.items()}
    tensors = {name: tensor for name, tensor in tensors.items() if not _LEFT_OUT.match(name)}
    for name in [name for name in tensors if ".attn.query." in name]:
        parts = [tensors.pop(name.replace("query", part)) for part in ("query", "key", "value")]
        tensors[name.replace("query", "qkv")] = torch.cat(parts)
    try:
        dim, _, patch_size, _ = tensors["proj.weight"].shape
        patches = tensors["pos_embed"].shape[1] - 1
        depth = len({name.split(".")[1] for name in tensors if name.startswith("sabs.")})
        mlp_ratio = len(tensors["sabs.0.mlp.0.weight"]) / dim
        shape = (round(patches**0.5) * patch_size, patch_size, dim, depth, mlp_ratio)
        weights = Weights(tensors, *shape)
        with torch.device("meta"):
            expected = VisionTransformer(
                image_size=shape[0], patch_size=patch_size, dim=dim, heads=1, depth=depth, mlp_ratio=mlp_ratio
            ).state_dict()
    except (KeyError, IndexError, ValueError, RuntimeError) as error:
        raise UserError(
            f"The encoder is not a plain ViT as timm or Hugging Face save it ({error})."
        ) from None
    for name in sorted({*expected, *tensors}):
        if name not in tensors or name not in expected or tensors[name].shape != expected[name].shape:
            raise UserError(
                f"The encoder is not a plain ViT: its {name!r} is missing, too much or misshapen."
            )
    return weights


def _rename(name: str) -> str:
    for pattern, replacement in _RENAMED:
        name = re.sub(pattern, replacement, name)
    return name
