"""Hugging Face datasets, by name (`data.dataset: hf:NAME`) or from a folder (`huggingface`, with --data).

A folder holds what `save_to_disk` wrote, or files that `load_dataset` reads: parquet, arrow, class folders.
Images come from the column of type Image, labels from the column of type ClassLabel. The training set is the
split `train`, the test set is `test` or else `validation`. Images stay encoded until they are needed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dytox.config import DataConfig
from dytox.data import folder, images
from dytox.data.encoded import Encoded
from dytox.data.samples import Samples
from dytox.errors import UserError
from dytox.machine import read_regular

DATASET_PREFIX = "hf:"
TESTS = ("test", "validation", "valid", "val")


@dataclass(frozen=True, slots=True)
class TableRow:
    """An image in a table on disk."""

    table: Any
    column: str
    place: int
    title: str

    @property
    def name(self) -> str:
        """The name of the image in error messages."""
        return f"Row {self.place} of {self.title}"

    def read(self) -> bytes:
        """The bytes of its file."""
        cell = self.table[self.place][self.column] or {}
        data, path = cell.get("bytes"), cell.get("path")
        if data is not None:
            return bytes(data)
        if path is None:
            raise UserError(f"{self.name} has no image: remove it.")
        try:
            return read_regular(path, images.MAX_BYTES)
        except OSError as error:
            raise UserError(f"{self.name} cannot be read ({path}: {error.strerror}).") from None


def load(config: DataConfig) -> tuple[Samples, Samples | None, tuple[str, ...]]:
    """Load the training set, the test set if there is one, and the names of the classes."""
    splits, title = _splits(config)
    if "train" not in splits:
        raise UserError(f"{title} has no split 'train', only {', '.join(sorted(splits))}.")
    train = splits["train"]
    image, label = _columns(train.features, config.label, title)
    rows, labels = _rows(train, image, f"{title} (train)"), _labels(train, label)
    if labels is None:
        raise UserError(f"{title} has images without a class (-1 or none): choose a dataset with labels.")
    size = config.image_size or _default_size(rows)
    tests = [(name, _labels(splits[name], label)) for name in TESTS if name in splits]
    test = next(((name, found) for name, found in tests if found is not None), None)
    names = tuple(str(name) for name in train.features[label].names)
    learned = _samples(rows, labels, size, config)
    if test is None:
        return learned, None, names
    tested = _rows(splits[test[0]], image, f"{title} ({test[0]})")
    return learned, _samples(tested, test[1], size, config), names


def _rows(table: Any, image: str, title: str) -> tuple[TableRow, ...]:
    from datasets import Image

    if image not in table.features:
        raise UserError(f"{title} has no column {image!r}, which the split 'train' has.")
    plain = table.select_columns([image]).with_format(None).cast_column(image, Image(decode=False))
    return tuple(TableRow(plain, image, place, title) for place in range(len(plain)))


def _labels(table: Any, label: str) -> Tensor | None:
    """The labels of a split; None if some are missing, as in datasets whose test labels are secret."""
    if label not in table.features:
        return None
    labels = table.with_format(None)[label][:]
    hidden = any(each is None or each < 0 for each in labels)
    return None if hidden else torch.tensor(labels, dtype=torch.int64)


def _samples(rows: tuple[TableRow, ...], labels: Tensor, size: int, config: DataConfig) -> Samples:
    samples = Samples(Encoded(rows, size, config.resize or size), labels)
    return samples if config.on_demand is not False else Samples(samples.pixels(), labels)


def _splits(config: DataConfig) -> tuple[Mapping[str, Any], str]:
    try:
        import datasets
    except ImportError:
        raise UserError("Hugging Face datasets need the extra `hub`: pip install 'dytox[hub]'.") from None
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    named = config.dataset.startswith(DATASET_PREFIX)
    source = config.dataset.removeprefix(DATASET_PREFIX) if named else str(folder.root(config))
    saved = any((Path(source) / name).is_file() for name in ("dataset_dict.json", "state.json"))
    try:
        found = datasets.load_from_disk(source) if saved else datasets.load_dataset(source)
    except Exception as error:  # of the library, of the network, or of any file format
        reason = (
            str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
        )
        raise UserError(f"The dataset {source} cannot be loaded ({reason}): check its name.") from None
    return found if isinstance(found, Mapping) else {"train": found}, source


def _columns(features: Mapping[str, Any], wanted: str | None, title: str) -> tuple[str, str]:
    """Find the columns of the image and of its class by their types."""
    from datasets import ClassLabel, Image

    pictures = [name for name, kind in features.items() if isinstance(kind, Image)]
    labels = [name for name, kind in features.items() if isinstance(kind, ClassLabel)]
    if not pictures or not labels:
        missing = "image" if not pictures else "class (ClassLabel)"
        raise UserError(f"{title} has no column of type {missing}, only {', '.join(features)}.")
    if len(pictures) > 1 and "image" not in pictures:
        raise UserError(
            f"{title} has several columns of images ({', '.join(pictures)}): name one of them 'image'."
        )
    if wanted is not None and wanted not in labels:
        raise UserError(f"data.label {wanted!r}: the columns of classes in {title} are {', '.join(labels)}.")
    if wanted is None and len(labels) > 1 and "label" not in labels:
        raise UserError(
            f"{title} has several columns of classes ({', '.join(labels)}): choose one with data.label."
        )
    label = wanted or ("label" if "label" in labels else labels[0])
    return "image" if "image" in pictures else pictures[0], label


def _default_size(rows: tuple[TableRow, ...]) -> int:
    """Choose the image size as for folders of images."""
    sides = [images.short_side(row.read()) for row in rows[:: len(rows) // 256 + 1]]
    return folder.side_for([side for side in sides if side is not None])
