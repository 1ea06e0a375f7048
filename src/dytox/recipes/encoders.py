"""What a pretrained encoder asks of a config: which images it takes, and that they are varied little."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

DEFAULT = "efficientnet-lite0"  # installed with the package
NONE = "none"  # no pretrained encoder

# A frozen encoder is computed once for each image and its mirror image, so nothing else varies.
FEW_VIEWS = {"pad": 0, "resized_crop": None, "brightness": 0.0, "randaugment": None}


class Asked(NamedTuple):
    """What an encoder asks for: values of the section `model`, the side of its images, values of `data`."""

    model: dict[str, Any]
    side: int
    data: dict[str, Any]

    def values(self, image_size: int | None, *, frozen: bool) -> dict[str, Any]:
        """As a config says it. Smaller images that a recipe gives stay so; the network enlarges them."""
        model, data = {**self.model, "frozen": frozen}, dict(self.data)
        if image_size is not None and image_size < self.side:
            model["input_size"] = self.side
        else:
            data["image_size"] = self.side
        return {"model": model, "data": data, **({"augment": FEW_VIEWS} if frozen else {})}


def by_name(name: object) -> Asked | None:
    """What an encoder asks for that is pretrained whenever it is named; None for all others."""
    from dytox.models import efficientnet

    if name not in efficientnet.SIZES:
        return None
    data = {"mean": [efficientnet.MEAN] * 3, "std": [efficientnet.STD] * 3}
    model = {"encoder": name, "dim": efficientnet.FEATURES, "heads": 20}  # heads of 64, where tokens attend
    return Asked(model, efficientnet.SIZES[str(name)].image_size, data)


def find(encoder: str) -> Asked:
    """What `--encoder` asks for: a name, `hf:REPO`, a folder of Hugging Face, or the file of a ViT."""
    from dytox.errors import unknown
    from dytox.models import efficientnet, hugging_face
    from dytox.models.encoders import config_values

    named = by_name(encoder)
    if named is not None:
        return named
    path = Path(encoder).expanduser()
    if encoder.startswith(hugging_face.PREFIX) or path.is_dir():
        about = hugging_face.describe(encoder)
        return Asked(about.model(encoder), about.image_size, about.data())
    if not path.suffix and not path.exists():
        raise unknown("encoder", encoder, [*efficientnet.SIZES, NONE])
    values = config_values(path, frozen=True, size=None)
    return Asked(values["model"], values["data"]["image_size"], {})


def chosen(said: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The pretrained encoder that a config names, and the values that it asks for; "" and {} without one.

    `said` is the merged values of all layers; the encoder is frozen unless they set `model.frozen` to false.
    """
    model, data = said.get("model"), said.get("data")
    asked = by_name(model.get("encoder")) if isinstance(model, Mapping) else None
    if asked is None or not isinstance(model, Mapping) or not isinstance(data, Mapping):
        return "", {}
    size = data.get("image_size")
    return str(model["encoder"]), asked.values(size, frozen=bool(model.get("frozen", True)))
