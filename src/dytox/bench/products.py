"""What the model computes, counted, and how fast the machine multiplies matrices of the same shapes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from dytox.config import Config


def patches(config: Config) -> int:
    """N, the patch tokens of an image."""
    assert config.data.image_size is not None
    return (config.data.image_size // config.model.patch_size) ** 2


def shapes(config: Config, batch: int) -> list[tuple[int, int, int]]:
    """(rows, inputs, outputs) of the linear layers of one SAB: queries and keys, values, projection, MLP."""
    rows, dim = batch * patches(config), config.model.dim
    hidden = int(dim * config.model.mlp_ratio)
    return [
        (rows, dim, 2 * dim),
        (rows, dim, dim),
        (rows, dim, dim),
        (rows, dim, hidden),
        (rows, hidden, dim),
    ]


def peak(
    config: Config, batch: int, device: torch.device, dtype: torch.dtype
) -> tuple[Callable[[], None], float]:
    """The products of one SAB alone, and how many operations they are."""
    factors = [
        (
            torch.randn(rows, inner, device=device, dtype=dtype),
            torch.randn(inner, outer, device=device, dtype=dtype),
        )
        for rows, inner, outer in shapes(config, batch)
    ]
    results = [left @ right for left, right in factors]

    def multiply() -> None:
        for (left, right), result in zip(factors, results, strict=True):
            torch.mm(left, right, out=result)

    return multiply, float(sum(2 * rows * inner * outer for rows, inner, outer in shapes(config, batch)))


def operations(config: Config, tasks: int, classes: int = 100) -> float:
    """Floating-point operations of a forward pass for one image, in products of matrices alone."""
    return sum(by_part(config, tasks, classes))


def by_part(config: Config, tasks: int, classes: int = 100) -> tuple[float, float, float]:
    """The operations of the tokenizer, of the SABs, of the TAB and the heads.

    A SAB's linear layers are (4 + 2 r) N d² for the MLP's ratio r, its attentions 3 N² d; the TAB's keys and
    values 2 N d²; a task adds (1 + 2 r) d² + 2 N d, whatever the number of its classes up to their head.
    """
    n, d, ratio, depth = patches(config), config.model.dim, config.model.mlp_ratio, config.model.depth
    tokenizer = n * 3 * config.model.patch_size**2 * d
    encoder = depth * ((4 + 2 * ratio) * n * d**2 + 3 * n**2 * d)
    decoder = 2 * n * d**2 + tasks * ((1 + 2 * ratio) * d**2 + 2 * n * d)
    return 2.0 * tokenizer, 2.0 * encoder, 2.0 * (decoder + classes * d)
