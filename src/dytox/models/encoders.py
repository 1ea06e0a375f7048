"""The encoders that `model.encoder` can name, in the table `ENCODERS`, and how their weights are loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from dytox.config import Config, ModelConfig
from dytox.errors import UserError, unknown
from dytox.models import efficientnet, hugging_face
from dytox.models.base import Encoder
from dytox.models.conv import ConvEncoder, ConvSize
from dytox.models.efficientnet import EfficientNetLite
from dytox.models.hugging_face import HuggingFaceEncoder
from dytox.models.pretrained import OwnEncoder, VisionTransformer, Weights, translate_vit
from dytox.models.resnet import HybridEncoder, Name, ResNet
from dytox.models.transformer import TransformerEncoder

SAVED = "(saved with the model)"  # in the place of model.weights: they are loaded with all other weights
INSTEAD = (
    "an encoder is a name such as efficientnet-lite0, hf:REPO or a folder of Hugging Face, a plain ViT in a "
    "safetensors file (safetensors.torch.save_file writes one), or in Python a module, encoder=module"
)
OTHER_FILES = {  # what a file that is no safetensors file may be, and how it begins
    "a file of torch.save (it can hold code)": (b"PK\x03\x04", b"\x80\x02", b"\x80\x04"),
    "a Keras or HDF5 file": (b"\x89HDF",),
    "an ONNX model": (b"\x08",),
}
HEAD = 64  # the length of a ViT's attention heads, which its weights do not tell


@dataclass(frozen=True)
class Entry:
    """An encoder by name: how it is built from a config, and what else methods ask about it."""

    build: Callable[[Config], Encoder]
    convolutional: bool = False  # whether its encodings have a map for each stage
    residual: bool = False  # whether it is a ResNet, whose blocks can be pruned
    load: Callable[[Encoder, Config, Path], None] | None = None  # the weights of a file
    load_own: Callable[[Encoder], None] | None = None  # the pretrained weights that its name stands for


def build_encoder(config: Config, *, pretrained: bool = True) -> Encoder:
    """Build the encoder of a config.

    Pretrained weights are those that `model.weights` names, or those that the encoder's name stands for. They
    are not read if `pretrained` is false, or if the weights of a saved model are loaded afterwards. A frozen
    encoder without pretrained weights is refused, because it would stay random.
    """
    model, entry = config.model, entry_of(config.model)
    encoder = entry.build(config)
    encoder.side = model.input_size
    if pretrained and model.weights != SAVED:
        _read_weights(encoder, entry, config)
    if model.frozen and model.encoder != "own":  # an own module is frozen when it is put in
        encoder.freeze()
    return encoder


def _read_weights(encoder: Encoder, entry: Entry, config: Config) -> None:
    model = config.model
    if model.weights is None and entry.load_own is not None:
        entry.load_own(encoder)
    elif model.weights is None:
        if model.frozen and model.encoder != "own":
            raise UserError(
                "Impossible config: model.frozen without a pretrained encoder (model.weights): it would stay "
                "random for ever."
            )
    elif entry.load is None:
        raise UserError(
            f"Config key model.encoder: {model.encoder} takes no weights from a file, and model.weights is "
            f"{model.weights!r}."
        )
    else:
        entry.load(encoder, config, Path(model.weights).expanduser())


def from_saved_state(config: Config) -> Config:
    """The config with which a network is built whose weights are loaded afterwards: no file is read."""
    return config.model_copy(update={"model": config.model.model_copy(update={"weights": SAVED})})


def entry_of(model: ModelConfig) -> Entry:
    """The entry of the encoder that a config names."""
    if model.encoder not in ENCODERS:
        raise unknown("encoder", model.encoder, ENCODERS)
    return ENCODERS[model.encoder]


def refuse_encoder(method: str, works_on: str, model: ModelConfig) -> None:
    """Raise if a method that works on "convolutional" or "residual" encoders alone has another one."""
    entry_of(model)
    fitting = [name for name, entry in ENCODERS.items() if not works_on or getattr(entry, works_on)]
    if model.encoder not in fitting:
        raise UserError(
            f"Impossible config: {method} works on {works_on} encoders, so model.encoder must be "
            f"{', '.join(fitting[:-1])} or {fitting[-1]}, not {model.encoder}."
        )


def _size(config: Config, *, patches: bool = True) -> int:
    """The image size, known once the data are, which must be a multiple of the patch size."""
    size, patch = config.model.input_size or config.data.image_size, config.model.patch_size
    assert size is not None, "the image size is known once the data are"
    if patches and size % patch:
        raise UserError(
            f"Impossible config: data.image_size {size} is not a multiple of model.patch_size {patch}."
        )
    return size


def _sabs(config: Config) -> Encoder:
    model = config.model
    return TransformerEncoder(
        image_size=_size(config),
        patch_size=model.patch_size,
        dim=model.dim,
        heads=model.heads,
        depth=model.depth,
        attention=model.attention,
        mlp_ratio=model.mlp_ratio,
        locality_strength=model.locality_strength,
    )


def _hybrid(config: Config) -> Encoder:
    return HybridEncoder(config.model.dim, network=config.model.hybrid, stem=config.model.stem)


def _resnet(name: Name, config: Config) -> Encoder:
    return ResNet(name, stem=config.model.stem, last_relu=config.model.last_relu)


def _conv(size: ConvSize, config: Config) -> Encoder:
    return ConvEncoder(size, last_activation=config.model.last_relu)


def _vit(config: Config) -> Encoder:
    model = config.model
    return VisionTransformer(
        image_size=_size(config),
        patch_size=model.patch_size,
        dim=model.dim,
        heads=model.heads,
        depth=model.depth,
        mlp_ratio=model.mlp_ratio,
    )


def _efficientnet(name: str, config: Config) -> Encoder:
    return EfficientNetLite(name)


def _load_efficientnet(name: str, encoder: Encoder) -> None:
    encoder.load_state_dict(efficientnet.pretrained(name).state_dict())


def _hugging_face(config: Config) -> Encoder:
    if config.model.architecture is None:
        raise UserError("Config key model.architecture: choose a model of Hugging Face with --encoder.")
    return HuggingFaceEncoder(config.model.architecture)


def _load_hugging_face(encoder: Encoder, config: Config, path: Path) -> None:
    assert isinstance(encoder, HuggingFaceEncoder)
    hugging_face.load(encoder, str(config.model.weights))


def _own(config: Config) -> Encoder:
    """A placeholder: the module itself is put in its place by `ContinualModel.put_encoder`."""
    return OwnEncoder(nn.Identity(), config.model.dim)


def own_encoder(module: nn.Module | None, config: Config) -> OwnEncoder:
    """A user's module as an encoder of this config."""
    if module is None:
        raise UserError(
            "its encoder is a custom module, which is not saved: pass it, as in load(path, encoder=module)"
        )
    encoder = OwnEncoder(module, config.model.dim)
    dim = encoder.measure(_size(config, patches=False))
    if dim != config.model.dim:
        raise UserError(f"The encoder gives tokens of length {dim}, where model.dim is {config.model.dim}.")
    if config.model.frozen:
        encoder.freeze()
    return encoder


def read_vit(path: Path) -> Weights:
    """The weights of a plain ViT in a safetensors file; any other file is refused, named for what it is."""
    try:
        with path.open("rb") as file:
            beginning = file.read(8)
        tensors = load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: model.weights names the file of a pretrained encoder.") from None
    except (SafetensorError, OSError) as error:
        for kind, magic in OTHER_FILES.items():
            if beginning.startswith(magic):
                raise UserError(f"{path} is {kind}, which is not read: {INSTEAD}.") from None
        raise UserError(f"{path} is not a safetensors file ({error}): {INSTEAD}.") from None
    if any(name.endswith("running_mean") for name in tensors):
        raise UserError(f"{path} holds a convolutional network with BatchNorm, not a plain ViT: {INSTEAD}.")
    try:
        return translate_vit(tensors)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _load_vit(encoder: Encoder, config: Config, path: Path) -> None:
    weights, given = read_vit(path), config.model.model_dump()
    sizes = vit_values(weights)
    for key, size in sizes.items():
        if given[key] != size:
            settings = " ".join(f"--set model.{name}={value}" for name, value in sizes.items())
            raise UserError(
                f"Config key model.{key}: the encoder's file says {size!r}, not {given[key]!r}; set its "
                f"sizes with {settings}, and model.heads to its number of heads."
            )
    encoder.load_state_dict(weights.at(_size(config)))


def vit_values(weights: Weights) -> dict[str, Any]:
    """What the section `model` of a config must say for these weights, the number of heads left out."""
    return {
        "encoder": "vit",
        "patch_size": weights.patch_size,
        "dim": weights.dim,
        "depth": weights.depth,
        "mlp_ratio": float(weights.mlp_ratio),
    }


def config_values(encoder: Path | nn.Module, *, frozen: bool, size: int | None) -> dict[str, Any]:
    """What a config must say for the file of a ViT, or for a module, tried out on an image of this size."""
    if isinstance(encoder, Path):
        weights = read_vit(encoder)
        model = {**vit_values(weights), "heads": max(1, weights.dim // HEAD), "weights": str(encoder)}
        return {"data": {"image_size": weights.image_size}, "model": {**model, "frozen": frozen}}
    if size is None:
        raise UserError("Config key data.image_size: an encoder of your own needs the side of its images.")
    dim = OwnEncoder(encoder).measure(size)
    heads = max(heads for heads in (1, 2, 3, 4, 6, 8, 12) if dim % heads == 0)
    return {"model": {"encoder": "own", "frozen": frozen, "dim": dim, "heads": heads}}


ENCODERS: dict[str, Entry] = {
    "dytox": Entry(_sabs),
    "conv-tiny": Entry(partial(_conv, "tiny"), convolutional=True),
    "conv-small": Entry(partial(_conv, "small"), convolutional=True),
    "conv-medium": Entry(partial(_conv, "medium"), convolutional=True),
    "hybrid": Entry(_hybrid, convolutional=True),
    "resnet8": Entry(partial(_resnet, "resnet8"), convolutional=True, residual=True),
    "resnet18": Entry(partial(_resnet, "resnet18"), convolutional=True, residual=True),
    "resnet32": Entry(partial(_resnet, "resnet32"), convolutional=True, residual=True),
    "vit": Entry(_vit, load=_load_vit),
    "own": Entry(_own),
    "hf": Entry(_hugging_face, load=_load_hugging_face),
    **{
        name: Entry(
            partial(_efficientnet, name), convolutional=True, load_own=partial(_load_efficientnet, name)
        )
        for name in efficientnet.SIZES
    },
}
