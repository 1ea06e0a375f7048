"""ImageNet-1000 and ImageNet-100 in their unpacked layout: `train/<wnid>/*.JPEG` and `val/<wnid>/*.JPEG`.

For a flat `val/`, a file names the class of each image (`imagenet_val`). Classes are named by their WordNet
ids and sorted by them. Images stay encoded until they are needed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from dytox.config import DataConfig
from dytox.data import folder, imagenet_val, images
from dytox.data.samples import Samples
from dytox.errors import UserError

WNID = re.compile(r"n\d{8}")
CLASSES = 1000


def load_100(config: DataConfig) -> tuple[Samples, Samples, tuple[str, ...]]:
    """Load the hundred classes that PODNet, DER and the paper use."""
    facts = json.loads((files("dytox") / "facts" / "class_orders.json").read_text(encoding="utf-8"))
    return _load(config, facts["imagenet100_wnids"])


def load_1000(config: DataConfig) -> tuple[Samples, Samples, tuple[str, ...]]:
    """Load all classes of the challenge of 2012."""
    train = folder.root(config) / "train"
    found = sorted(name for name in _names(train) if WNID.fullmatch(name))
    if len(found) != CLASSES:
        raise UserError(f"{train} has {len(found)} class folders n01234567, not the {CLASSES:,} of ImageNet.")
    return _load(config, found)


def _load(config: DataConfig, wnids: Sequence[str]) -> tuple[Samples, Samples, tuple[str, ...]]:
    if config.image_size is None:
        raise UserError(
            f"Config key data.image_size: {config.dataset} needs the side of its images, as in 224."
        )
    root = folder.root(config)
    train = _in_folders(root / "train", wnids)
    flat = not any((root / "val" / wnid).is_dir() for wnid in wnids)
    val = _flat(root / "val", wnids) if flat else _in_folders(root / "val", wnids)
    take = folder.read_folder if config.on_demand is False else folder.encoded
    first, second = (take(part, config.image_size, config.resize) for part in (train, val))
    return first, second, tuple(wnids)


def _in_folders(parent: Path, wnids: Sequence[str]) -> dict[str, list[str]]:
    missing = [wnid for wnid in wnids if not (parent / wnid).is_dir()]
    if missing:
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise UserError(f"{parent} has no class folder {missing[0]}{others}: each of {len(wnids)} is needed.")
    found = {wnid: _images(parent / wnid) for wnid in wnids}
    empty = next((wnid for wnid, paths in found.items() if not paths), None)
    if empty is not None:
        raise UserError(f"{parent / empty}: a class folder without images.")
    return found


def _flat(parent: Path, wnids: Sequence[str]) -> dict[str, list[str]]:
    paths = _images(parent)
    if not paths:
        raise UserError(
            f"{parent} has neither class folders n01234567 nor images: unpack the validation set there."
        )
    classes = imagenet_val.classes(parent, [Path(path).stem for path in paths], wnids)
    found: dict[str, list[str]] = {wnid: [] for wnid in wnids}
    for path, wnid in zip(paths, classes, strict=True):
        if wnid in found:  # else it is of a class that is not loaded
            found[wnid].append(path)
    return found


def _images(parent: Path) -> list[str]:
    return [
        os.path.join(parent, name)
        for name in _names(parent)
        if Path(name).suffix.lower() in images.suffixes()
    ]


def _names(parent: Path) -> list[str]:
    """The names in a folder, as strings because there are more than a million."""
    try:
        return sorted(name for name in os.listdir(parent) if not name.startswith("."))
    except OSError as error:
        raise UserError(
            f"{parent} cannot be read ({error.strerror}): --data names the folder above it."
        ) from None
