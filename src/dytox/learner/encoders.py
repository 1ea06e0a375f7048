"""Pretrained encoders: what they ask of a config, and how they get into a learner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from dytox.config import Config
from dytox.engine.method import Method
from dytox.errors import UserError
from dytox.models.dytox import DyTox
from dytox.models.pretrained import OwnEncoder, Weights, translate
from dytox.runs import files

HEAD = 64  # the length of a ViT's attention heads, which its weights do not tell


def read(path: str | Path) -> Weights:
    """The weights of a ViT in a safetensors file."""
    tensors, _ = files.read_tensors(Path(path))
    try:
        return translate(tensors)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def values(encoder: Weights | nn.Module, *, frozen: bool, size: int | None) -> dict[str, Any]:
    """What a config must say for this encoder; a module is tried out on an image of this size."""
    if isinstance(encoder, Weights):
        return {
            "data": {"image_size": encoder.image_size},
            "model": {
                "encoder": "vit",
                "frozen": frozen,
                "patch_size": encoder.patch_size,
                "dim": encoder.dim,
                "depth": encoder.depth,
                "mlp_ratio": float(encoder.mlp_ratio),
                "heads": max(1, encoder.dim // HEAD),
            },
        }
    if size is None:
        raise UserError("Config key data.image_size: an encoder of your own needs the side of its images.")
    dim = OwnEncoder(encoder).dim(size)
    heads = max(heads for heads in (1, 2, 3, 4, 6, 8, 12) if dim % heads == 0)
    return {"model": {"encoder": "own", "frozen": frozen, "dim": dim, "heads": heads}}


def put(weights: Weights, method: Method, size: int) -> None:
    """A ViT's weights into the method's encoder, whose config must be as they are."""
    given, fixed = method.config.model, values(weights, frozen=False, size=None)["model"]
    for key in ("encoder", "dim", "depth", "patch_size", "mlp_ratio"):
        wanted = getattr(given, key)
        if wanted != fixed[key]:
            raise UserError(
                f"Config key model.{key}: the encoder's file says {fixed[key]!r}, not {wanted!r}; its dim, "
                "depth, patch_size and mlp_ratio cannot be set."
            )
    assert isinstance(method.model, DyTox)
    method.model.encoder.load_state_dict(weights.at(size))


def check(method: Method) -> None:
    """A pretrained encoder is for methods whose network has a place for it, and that keep their network."""
    if method.needs_all_images or not isinstance(method.model, DyTox):
        raise UserError(f"{method.name} cannot take over a pretrained encoder: use dytox or replay.")


def own(module: nn.Module | None, config: Config) -> OwnEncoder:
    """Somebody's module, in the place of the SABs."""
    if module is None:
        raise UserError("its encoder is a module of your own: give it, as in load(path, encoder=module)")
    encoder = OwnEncoder(module)
    assert config.data.image_size is not None
    dim = encoder.dim(config.data.image_size)
    if dim != config.model.dim:
        raise UserError(f"The encoder gives tokens of length {dim}, where model.dim is {config.model.dim}.")
    if config.model.frozen:
        encoder.freeze()
    return encoder
