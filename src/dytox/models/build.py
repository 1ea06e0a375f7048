"""The network that a config describes."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from dytox.config import Config, ModelConfig
from dytox.errors import UserError
from dytox.models.base import ContinualModel
from dytox.models.class_means import ClassMeans
from dytox.models.classifiers import Classifier
from dytox.models.convnet import AnyClassifier, ConvNet
from dytox.models.dytox import DyTox
from dytox.models.hybrid import HybridEncoder
from dytox.models.paths import PathNet
from dytox.models.pretrained import VisionTransformer
from dytox.models.resnet import SHAPES, Name, ResNet


def network(config: Config) -> ContinualModel:
    """What the config names, with one growing linear head: for methods that do not mind which it is."""
    if config.model.network == "transformer":
        return transformer(config)
    return convnet(config, lambda dim: Classifier(dim, bias=False))


def convnet(
    config: Config, head: Callable[[int], AnyClassifier], means: Callable[[int], ClassMeans] | None = None
) -> ConvNet[AnyClassifier]:
    """A residual network with a growing head, and class means where they are asked for."""
    backbone = resnet(config)
    return ConvNet(backbone, head(backbone.dim), None if means is None else means(backbone.dim))


def resnet(config: Config) -> ResNet:
    """The residual network, without a head."""
    return ResNet(_resnet_name(config), stem=config.model.stem, last_relu=config.model.last_relu)


def path_net(config: Config, *, places: int, tasks_per_path: int) -> PathNet:
    """Levels of parallel modules, whose features are as wide as those of the residual network named."""
    width = SHAPES[_resnet_name(config)].channels[-1] // 8  # features are eight times as wide
    large = config.model.stem == "large"
    return PathNet(width, places=places, tasks_per_path=tasks_per_path, large_stem=large)


def _resnet_name(config: Config) -> Name:
    name = config.model.network
    if name == "transformer":
        raise UserError(
            f"Impossible config: {config.method.name} works on a residual network, so model.network must be "
            "resnet8, resnet18 or resnet32, not transformer."
        )
    return name


def transformer(
    config: Config,
    *,
    token_expansion: bool = False,
    independent_heads: bool = False,
    divergence: bool = False,
) -> DyTox:
    """The DyTox transformer; by default with one token and one growing head, as the bounds have it."""
    size, model = config.data.image_size, config.model
    if model.network != "transformer":
        raise UserError(
            f"Impossible config: {config.method.name} works on the transformer, so model.network must be "
            f"transformer, not {model.network}."
        )
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
        decoder=model.decoder,
        encoder=_encoder(size, model),
    )


def _encoder(size: int, model: ModelConfig) -> nn.Module | None:
    """What takes the place of the SABs, if anything; a module of one's own is put there later."""
    if model.encoder == "dytox":
        return None
    if model.encoder == "own":
        return nn.Identity()
    if model.encoder == "hybrid":
        return HybridEncoder(model.dim, network=model.hybrid, stem=model.stem)
    encoder = VisionTransformer(
        image_size=size,
        patch_size=model.patch_size,
        dim=model.dim,
        heads=model.heads,
        depth=model.depth,
        mlp_ratio=model.mlp_ratio,
    )
    if model.frozen:
        encoder.freeze()
    return encoder
