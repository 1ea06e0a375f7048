"""Names of the authors' code -> names of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from dytox.errors import UserError

_RENAMED = (
    (r"^module\.", ""),
    (r"^patch_embed\.proj\.", "encoder.tokenizer.proj."),
    (r"^pos_embed$", "encoder.tokenizer.pos_embed"),
    (r"^sabs\.", "encoder.sabs."),
    (r"\.attn\.gating_param$", ".attn.gate"),
    (r"\.attn\.pos_proj\.bias$", ".attn.pos_bias"),
    (r"^tabs\.0\.", "tab."),
    (r"\.mlp\.fc1\.", ".mlp.0."),
    (r"\.mlp\.fc2\.", ".mlp.2."),
    (r"^head\.(\d+)\.head\.", r"heads.tasks.\1.linear."),
    (r"^head\.(\d+)\.norm\.", r"heads.tasks.\1.norm."),
    (r"^head_div\.head\.", "divergence_head.linear."),
    (r"^head_div\.norm\.", "divergence_head.norm."),
)


@dataclass(frozen=True)
class OriginalShape:
    """What the weights themselves say about the architecture."""

    patch_size: int
    dim: int
    depth: int
    mlp_ratio: float
    increments: tuple[int, ...]
    divergence: bool


def rename(name: str) -> str:
    """One name of the authors' code in ours."""
    for pattern, replacement in _RENAMED:
        name = re.sub(pattern, replacement, name)
    return name


def translate_original(state: Mapping[str, Tensor]) -> tuple[OriginalShape, dict[str, Tensor]]:
    """The architecture and the weights under our names."""
    weights = {rename(name): tensor for name, tensor in state.items() if "rel_indices" not in name}
    try:
        weights["encoder.tokenizer.pos_embed"] = weights["encoder.tokenizer.pos_embed"].squeeze(0)
        for name in [name for name in weights if name.startswith("task_tokens.")]:
            weights[name] = weights[name].reshape(1, -1)  # (1, 1, dim) there
        dim, _, patch_size, _ = weights["encoder.tokenizer.proj.weight"].shape
        tasks = sum(name.startswith("task_tokens.") for name in weights)
        shape = OriginalShape(
            patch_size=patch_size,
            dim=dim,
            depth=len({name.split(".")[2] for name in weights if name.startswith("encoder.sabs.")}),
            mlp_ratio=len(weights["tab.mlp.0.weight"]) / dim,
            increments=tuple(len(weights[f"heads.tasks.{i}.linear.bias"]) for i in range(tasks)),
            divergence="divergence_head.linear.weight" in weights,
        )
    except KeyError as error:
        raise UserError(f"This is not a state dict of the authors' DyTox: it has no {error}.") from None
    return shape, weights
