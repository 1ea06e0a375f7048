"""The network that a config describes."""

from __future__ import annotations

from dytox.config import Config
from dytox.errors import UserError
from dytox.models.dytox import DyTox


def transformer(
    config: Config,
    *,
    token_expansion: bool = False,
    independent_heads: bool = False,
    divergence: bool = False,
) -> DyTox:
    """The DyTox transformer; by default with one token and one growing head, as the bounds have it."""
    size, model = config.data.image_size, config.model
    assert size is not None, "the image size is known once the data are"
    if size % model.patch_size:
        raise UserError(
            f"Impossible config: data.image_size {size} is not a multiple of "
            f"model.patch_size {model.patch_size}."
        )
    return DyTox(
        image_size=size,
        patch_size=model.patch_size,
        dim=model.dim,
        heads=model.heads,
        depth=model.depth,
        attention=model.attention,
        mlp_ratio=model.mlp_ratio,
        drop_path=model.drop_path,
        locality_strength=model.locality_strength,
        token_expansion=token_expansion,
        independent_heads=independent_heads,
        divergence=divergence,
    )
