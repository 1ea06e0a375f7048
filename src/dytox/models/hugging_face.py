"""Vision models of Hugging Face's `transformers` as encoders, from a repository or a local folder.

Read are `config.json`, `preprocessor_config.json` and safetensors files; no code of a repository is run. The
architecture becomes part of dytox's config, so that a saved model needs neither the repository nor a network.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from dytox.errors import UserError
from dytox.models.base import Encoder, Encoding

# model_type -> the class of its configuration and of the model
KINDS = {
    "vit": ("ViTConfig", "ViTModel"),
    "dinov2": ("Dinov2Config", "Dinov2Model"),
    "convnext": ("ConvNextConfig", "ConvNextModel"),
    "clip_vision_model": ("CLIPVisionConfig", "CLIPVisionModel"),
    "siglip_vision_model": ("SiglipVisionConfig", "SiglipVisionModel"),
    "resnet": ("ResNetConfig", "ResNetModel"),
}
TOWERS = {"clip": "clip_vision_model", "siglip": "siglip_vision_model"}  # of image and text: the image half
LEFT_OUT = ("architectures", "transformers_version", "torch_dtype", "dtype", "id2label", "label2id")
PREFIX = "hf:"
CROPPED_BELOW = 384  # ConvNeXt's preprocessor crops images below this size only


@dataclass(frozen=True)
class Description:
    """What a repository says about its model: how it is built, and which images it takes."""

    architecture: dict[str, Any]
    image_size: int
    resize: int | None  # of the short side, before the centre crop
    mean: list[float]
    std: list[float]

    def model(self, name: str) -> dict[str, Any]:
        """What the section `model` of a config must say for the model of this name."""
        dim = width(self.architecture)
        heads = max(heads for heads in (1, 2, 3, 4, 6, 8, 12) if dim % heads == 0)  # where tokens attend
        sizes = {"dim": dim, "heads": heads}
        return {"encoder": "hf", "weights": name, "architecture": self.architecture, **sizes}

    def data(self) -> dict[str, Any]:
        """What the section `data` must say, besides the side of the images."""
        return {"resize": self.resize, "mean": self.mean, "std": self.std}


class HuggingFaceEncoder(Encoder):
    """A model of `transformers`: its last hidden states are tokens, its pooled output the summary."""

    def __init__(self, architecture: Mapping[str, Any]) -> None:
        super().__init__()
        kind = str(architecture.get("model_type"))
        settings = {key: value for key, value in architecture.items() if key != "model_type"}
        make_config, make_model = _classes(kind)
        config = make_config(**settings)
        self.kind = kind
        self.dim = width(config.to_dict())
        self.module = make_model(config, **({"add_pooling_layer": False} if kind == "vit" else {}))
        self.resizes = "interpolate_pos_encoding" in inspect.signature(self.module.forward).parameters
        self.side = getattr(config, "image_size", None)

    def forward(self, images: Tensor, keep: Tensor | None = None) -> Encoding:
        """The encoding of images of any side that is a multiple of the model's patch."""
        other = self.resizes and images.shape[-1] != self.side
        found = self.module(images, **({"interpolate_pos_encoding": True} if other else {}))
        states = found.last_hidden_state  # (batch, tokens, dim) or (batch, dim, height, width)
        if states.ndim == 4:
            return Encoding(states.flatten(2).transpose(1, 2), (states,), found.pooler_output.flatten(1))
        return Encoding(states, summary=states[:, 0] if self.kind == "vit" else found.pooler_output)


def width(architecture: Mapping[str, Any]) -> int:
    """The length of the tokens of a model, as its configuration says it."""
    return int(
        architecture["hidden_sizes"][-1] if "hidden_sizes" in architecture else architecture["hidden_size"]
    )


def describe(name: str) -> Description:
    """The model of `hf:REPO` or of a local folder, as its own files describe it."""
    folder = _folder(name)
    config, preprocessor = _json(folder, "config.json"), _json(folder, "preprocessor_config.json")
    kind = config.get("model_type")
    if kind in TOWERS:
        kind, config = TOWERS[kind], config.get("vision_config", {})
    if kind not in KINDS:
        raise UserError(
            f"{name} holds a {kind!r} model, which is not an encoder that is known here: "
            f"these are {', '.join([*KINDS, *TOWERS])}."
        )
    settings = {key: value for key, value in config.items() if key not in (*LEFT_OUT, "model_type")}
    make_config, _ = _classes(kind)
    architecture = {
        key: value for key, value in make_config(**settings).to_dict().items() if key not in LEFT_OUT
    }
    size, resize = _sides(name, preprocessor)
    normalised = preprocessor.get("do_normalize", True)
    return Description(
        architecture={**architecture, "model_type": kind},
        image_size=size,
        resize=resize,
        mean=[float(each) for each in preprocessor.get("image_mean", [0.5] * 3)] if normalised else [0.0] * 3,
        std=[float(each) for each in preprocessor.get("image_std", [0.5] * 3)] if normalised else [1.0] * 3,
    )


def load(encoder: HuggingFaceEncoder, name: str) -> None:
    """The weights of `hf:REPO` or of a local folder, from its safetensors files."""
    _, make_model = _classes(encoder.kind)
    extra = {"add_pooling_layer": False} if encoder.kind == "vit" else {}
    try:
        found = make_model.from_pretrained(
            _folder(name), use_safetensors=True, trust_remote_code=False, **extra
        )
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"The weights of {name} cannot be read: {reason}.") from None
    encoder.module.load_state_dict(found.float().state_dict())


def _classes(kind: str) -> tuple[Any, Any]:
    if kind not in KINDS:
        raise UserError(f"Config key model.architecture: {kind!r} is none of {', '.join(KINDS)}.")
    try:
        import transformers  # slow to import
    except ImportError:
        raise UserError(
            "Encoders of Hugging Face need more packages: pip install 'dytox[encoders]'."
        ) from None
    talk: Any = transformers.utils.logging
    talk.set_verbosity_error()
    talk.disable_progress_bar()
    config, model = KINDS[kind]
    return getattr(transformers, config), getattr(transformers, model)


def _folder(name: str) -> Path:
    """Where the files are; those of a repository are downloaded, code and pickles left out."""
    if not name.startswith(PREFIX):
        return Path(name).expanduser()
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(
            "Encoders of Hugging Face need more packages: pip install 'dytox[encoders]'."
        ) from None
    wanted = ["config.json", "preprocessor_config.json", "*.safetensors", "*.safetensors.index.json"]
    try:
        return Path(snapshot_download(name.removeprefix(PREFIX), allow_patterns=wanted))
    except Exception as error:  # whatever goes wrong between here and there
        reason = (
            str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
        )
        raise UserError(f"{name} cannot be downloaded: {reason}.") from None


def _json(folder: Path, file: str) -> dict[str, Any]:
    try:
        content = json.loads((folder / file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{folder} has no {file}: an encoder is a folder as `save_pretrained` writes it, with the "
            "preprocessor's file beside the model's."
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / file} cannot be read: {error}.") from None
    if not isinstance(content, dict):
        raise UserError(f"{folder / file} does not describe a model.")
    return content


def _sides(name: str, preprocessor: Mapping[str, Any]) -> tuple[int, int | None]:
    """The side of the images, and what the short side is resized to before the centre crop."""
    size = _side(name, preprocessor.get("size", 224))
    if preprocessor.get("do_center_crop") and "crop_size" in preprocessor:
        crop = _side(name, preprocessor["crop_size"])
        return crop, size if size > crop else None
    if "crop_pct" in preprocessor and size < CROPPED_BELOW:
        return size, int(size / float(preprocessor["crop_pct"]))
    return size, None


def _side(name: str, size: Any) -> int:
    sides = set(size.values()) if isinstance(size, Mapping) else {size}
    if len(sides) != 1 or type(next(iter(sides))) is not int:
        raise UserError(f"The preprocessor of {name} asks for images of {size}: only squares are possible.")
    return int(sides.pop())
