"""Datasets by name or from arrays; a dataset without a test set is split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dytox import importing
from dytox.config import DataConfig
from dytox.data import cifar100, digits, folder, hugging_face, imagenet
from dytox.data.images import resize
from dytox.data.samples import Dataset, Samples
from dytox.errors import UserError, unknown
from dytox.randomness import Position, generator

Array: TypeAlias = Tensor | NDArray[Any]
DatasetLoader: TypeAlias = Callable[[DataConfig], tuple[Samples, Samples | None, tuple[str, ...]]]

# Each returns a training set, a test set or None, and the names of the classes.
LOADERS: dict[str, DatasetLoader] = {
    "cifar100": cifar100.load,
    "digits": digits.load,
    "folder": folder.load,
    "huggingface": hugging_face.load,
    "imagenet100": imagenet.load_100,
    "imagenet1000": imagenet.load_1000,
}
MOST_HELD_OUT = 20  # images of a class, because they are stored in the model directory
WITHOUT_FILES = ("cifar100", "digits")  # they are loaded as pixels, not as image files


def loader(config: DataConfig) -> DatasetLoader:
    """What loads the dataset that the config names; refused are a name that is none and keys it ignores."""
    if importing.is_place(config.dataset):
        return partial(_load_custom, importing.load(config.dataset, f"Dataset {config.dataset!r}"))
    named = "huggingface" if config.dataset.startswith(hugging_face.DATASET_PREFIX) else config.dataset
    if named not in LOADERS:
        raise unknown("dataset", config.dataset, LOADERS)
    _refuse_unread(config, named)
    return LOADERS[named]


def _load_custom(function: Any, config: DataConfig) -> tuple[Samples, Samples | None, tuple[str, ...]]:
    """The dataset that a user's function makes of the section `data`; it returns what `from_arrays` does."""
    found = function(config) if callable(function) else function
    if not isinstance(found, Dataset):
        raise UserError(
            f"The dataset {config.dataset} must be a function that returns a Dataset, as "
            f"dytox.data.datasets.from_arrays does, not {type(found).__name__}."
        )
    return found.train, found.test, tuple(found.class_names)


def load(config: DataConfig) -> Dataset:
    """The dataset that the config names, at its image size and with its test set."""
    train, test, class_names = loader(config)(config)
    if test is None:
        train, test = split_dataset(train, config.test_share, class_names)
    if config.validation_share > 0:
        train, test = split_dataset(train, config.validation_share, class_names)
    if config.image_size is not None:
        train, test = (_resized(part, config.image_size) for part in (train, test))
    return _complete(Dataset(config.dataset, train, test, class_names))


def from_arrays(
    train_images: Array,
    train_labels: Array | Sequence[int],
    test_images: Array,
    test_labels: Array | Sequence[int],
    class_names: Sequence[str] | None = None,
) -> Dataset:
    """Make a dataset of uint8 images and labels from 0; by default a class is named by its label."""
    train = Samples(as_images(train_images), _as_labels(train_labels, len(train_images)))
    test = Samples(as_images(test_images), _as_labels(test_labels, len(test_images)))
    sides = ["x".join(map(str, part.pixels().shape[2:])) for part in (train, test)]
    if sides[0] != sides[1]:
        raise UserError(
            f"Training images of {sides[0]} and test images of {sides[1]} pixels: make them one size."
        )
    highest = max(int(train.labels.max()), int(test.labels.max()))
    known = len(train) if class_names is None else len(class_names)
    if highest >= known:
        what = "training images" if class_names is None else "class names"
        raise UserError(f"Label {highest} is too high for {known} {what}: count the classes from 0.")
    names = map(str, range(highest + 1)) if class_names is None else class_names
    return _complete(Dataset("arrays", train, test, tuple(names)))


def as_images(array: Array) -> Tensor:
    """Copy uint8 images (n, H, W), (n, H, W, 3) or (n, 3, H, W) into a new tensor (n, 3, H, W)."""
    if not isinstance(array, np.ndarray | Tensor):
        raise UserError(f"Images must be one numpy array or torch tensor, not a {type(array).__name__}.")
    dtype = str(array.dtype).removeprefix("torch.")
    if dtype != "uint8":
        raise UserError(f"Images must be uint8 (0 to 255), not {dtype}.")
    images = torch.from_numpy(array.copy()) if isinstance(array, np.ndarray) else array.detach().cpu().clone()
    if images.ndim == 3:
        images = images.unsqueeze(1).expand(-1, 3, -1, -1)
    elif images.ndim == 4 and images.shape[1] != 3 and images.shape[3] == 3:
        images = images.permute(0, 3, 1, 2)
    if images.ndim != 4 or images.shape[1] != 3 or 0 in images.shape:
        raise UserError(
            f"Images must have the shape (n, H, W), (n, H, W, 3) or (n, 3, H, W), not {tuple(array.shape)}."
        )
    return images.contiguous()


def split_dataset(samples: Samples, share: float, class_names: Sequence[str]) -> tuple[Samples, Samples]:
    """Split off `share` of every class, at least one image of each; the split is always the same."""
    first, second = [], []
    for label, name in enumerate(class_names):
        members = (samples.labels == label).nonzero().squeeze(1)
        if len(members) < 2:
            raise UserError(
                f"Class {name!r} has {'one image' if len(members) else 'no image'} only to learn from, "
                "but a share of each class is kept for testing: give it at least two."
            )
        shuffled = members[torch.randperm(len(members), generator=generator(0, Position(), f"split {label}"))]
        size = min(max(int(len(members) * share + 0.5), 1), len(members) - 1)
        second.append(shuffled[:size])
        first.append(shuffled[size:])
    places = [torch.cat(part).sort().values for part in (first, second)]
    return samples.take(places[0]), samples.take(places[1])


def hold_out(samples: Samples, share: float, already: Samples) -> tuple[Samples, Samples]:
    """Split samples into those to learn and those to hold out: `share` of each class, rounded down.

    The split is always the same. With those in `already`, a class has at most MOST_HELD_OUT held-out images.
    """
    if not 0 <= share < 1:
        raise UserError(f"The share to hold out must be at least 0 and below 1, not {share}.")
    nothing = torch.empty(0, dtype=torch.int64)
    learned, held_out = [nothing], [nothing]
    for label in samples.labels.unique().tolist():
        members = (samples.labels == label).nonzero().squeeze(1)
        shuffled = members[
            torch.randperm(len(members), generator=generator(0, Position(), f"held out {label}"))
        ]
        room = max(0, MOST_HELD_OUT - int((already.labels == label).sum()))
        count = min(int(len(members) * share + 1e-9), room, len(members) - 1)
        held_out.append(shuffled[:count])
        learned.append(shuffled[count:])
    first, second = (torch.cat(part).sort().values for part in (learned, held_out))
    return samples.take(first), samples.take(second)


def _refuse_unread(config: DataConfig, named: str) -> None:
    """Raise if the config has a key that this dataset does not use."""
    if named in WITHOUT_FILES and (config.resize is not None or config.on_demand):
        key = "on_demand" if config.on_demand else "resize"
        raise UserError(f"data.{key} is for image files, and {named} has none: leave it out.")
    if named != "huggingface" and config.label is not None:
        raise UserError(f"data.label is for Hugging Face datasets, and {named} is none: leave it out.")
    if config.root is not None and (named == "digits" or named != config.dataset):
        raise UserError(
            f"data.root (--data) is for datasets that lie in a folder, and {config.dataset} does not: "
            "leave it out, or say with data.dataset what the folder holds."
        )


def _as_labels(labels: Array | Sequence[int], count: int) -> Tensor:
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise UserError(f"Labels must be whole numbers in one dimension, not {array.dtype} {array.shape}.")
    if len(array) != count:
        raise UserError(f"{count} images have {len(array)} labels: give each image one.")
    if array.min() < 0:
        raise UserError(f"Labels must count from 0, not {array.min()}.")
    return torch.tensor(array.astype(np.int64))


def _resized(samples: Samples, size: int) -> Samples:
    if isinstance(samples.images, Tensor):
        return Samples(resize(samples.images, size), samples.labels)
    return samples  # encoded images are decoded at their size


def _complete(dataset: Dataset) -> Dataset:
    for kind, samples in (("training", dataset.train), ("test", dataset.test)):
        counts = torch.bincount(samples.labels, minlength=len(dataset.class_names))
        missing = [dataset.class_names[label] for label in (counts == 0).nonzero().flatten().tolist()]
        if missing:
            others = f" and {len(missing) - 1} other classes" if len(missing) > 1 else ""
            raise UserError(f"Class {missing[0]!r}{others} of {dataset.name}: no {kind} image, add some.")
    return dataset
