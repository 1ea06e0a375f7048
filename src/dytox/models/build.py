"""The networks that methods build from a config: an encoder, what it is read by, and heads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dytox.config import Config
from dytox.errors import UserError
from dytox.models.base import ContinualModel
from dytox.models.dytox import DyTox
from dytox.models.encoders import build_encoder, refuse_encoder
from dytox.models.extractors import ExtractorNet
from dytox.models.linear_heads import ClassMeans, LinearHead
from dytox.models.paths import PathNet
from dytox.models.pooled import AnyHead, PooledNet
from dytox.models.resnet import SHAPES


def network(config: Config) -> ContinualModel:
    """The network that a config describes, with one growing linear head: for methods that accept any."""
    if config.model.decoder == "pool":
        return pooled(config, lambda dim: LinearHead(dim, bias=False))
    return token_network(config)


def pooled(
    config: Config, head: Callable[[int], AnyHead], means: Callable[[int], ClassMeans] | None = None
) -> PooledNet[AnyHead]:
    """An encoder with a growing head on its pooled features, and class means if a method asks for them."""
    if config.model.decoder != "pool":
        raise UserError(
            f"Impossible config: {config.method.name} predicts from pooled features, so model.decoder must "
            f"be pool, not {config.model.decoder}."
        )
    encoder = build_encoder(config)
    class_means = None if means is None else means(encoder.dim)
    return PooledNet(encoder, head(encoder.dim), class_means, config.model.drop_path)


def token_network(
    config: Config,
    *,
    token_expansion: bool = False,
    independent_heads: bool = False,
    divergence: bool = False,
) -> DyTox:
    """An encoder with DyTox's decoder; by default with one token and one growing head, as the bounds have."""
    model = config.model
    if model.decoder == "pool":
        raise UserError(
            f"Impossible config: {config.method.name} has task tokens, so model.decoder must be tab, "
            "tab-per-task, film or adapters, not pool."
        )
    encoder = build_encoder(config)
    if encoder.dim % model.heads:
        raise UserError(
            f"Impossible config: the tokens of the encoder {model.encoder} have length {encoder.dim}, which "
            f"is not a multiple of model.heads {model.heads}."
        )
    return DyTox(
        image_size=config.data.image_size or 0,
        heads=model.heads,
        depth=model.depth,
        mlp_ratio=model.mlp_ratio,
        drop_path=model.drop_path,
        token_expansion=token_expansion,
        independent_heads=independent_heads,
        divergence=divergence,
        decoder=model.decoder,
        encoder=encoder,
    )


def extractor_network(config: Config, *, masked: bool = False) -> ExtractorNet:
    """An encoder for each task, all of them kept; with masks on the channels of the newest if `masked`."""
    name, model = config.method.name, config.model
    if model.frozen or model.encoder == "own":
        raise UserError(
            f"Impossible config: {name} trains a copy of the encoder for each task, so model.frozen must be "
            "false and model.encoder not own."
        )
    if masked:
        refuse_encoder(f"{name} with masks", "residual", model)
    again = partial(build_encoder, config, pretrained=False)
    return ExtractorNet(partial(build_encoder, config), masked=masked, again=again)


def path_net(config: Config, *, places: int, tasks_per_path: int) -> PathNet:
    """Levels of parallel modules, whose features are as wide as those of the ResNet that the config names."""
    refuse_encoder(config.method.name, "residual", config.model)
    widths = {str(name): shape.channels[-1] for name, shape in SHAPES.items()}
    width = widths[config.model.encoder] // 8  # features are eight times as wide
    large = config.model.stem == "large"
    return PathNet(width, places=places, tasks_per_path=tasks_per_path, large_stem=large)
