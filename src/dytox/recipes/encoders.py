"""What a pretrained encoder asks of a config: which images it takes, and that they are varied little."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# the side of the images that each was trained with
SIDES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
DEFAULT = "efficientnet-lite0"

# A frozen encoder is computed once for each image and its mirror image, so nothing else varies.
FEW_VIEWS = {"pad": 0, "resized_crop": None, "brightness": 0.0, "randaugment": None}


def values(config: Mapping[str, Any], *, frozen: bool) -> dict[str, Any]:
    """The values for the encoder that a config names, or none if it is not pretrained by its name.

    `config` is what all other layers say. Images of the side that a recipe gives stay as they are and are
    enlarged by the network.
    """
    side, given = SIDES.get(config["model"]["encoder"]), config["data"]["image_size"]
    if side is None:
        return {}
    data: dict[str, Any] = {"mean": [127 / 255] * 3, "std": [128 / 255] * 3}  # (x - 127) / 128
    model: dict[str, Any] = {"frozen": frozen, "dim": 1280, "heads": 20}  # heads of 64, where tokens attend
    if given is None:
        data["image_size"] = side
    elif given < side:
        model["input_size"] = side
    return {"data": data, "model": model, **({"augment": FEW_VIEWS} if frozen else {})}
