"""Images that are passed to the Python interface: arrays, tensors, files, Pillow images, folders, datasets.

Arrays and tensors must be uint8 and have the size of the model; files and Pillow images are resized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from PIL import Image
from torch import Tensor

from dytox.data import folder, images
from dytox.data.datasets import Array, as_images
from dytox.data.samples import Samples
from dytox.errors import UserError

OneImage: TypeAlias = str | Path | bytes | Image.Image | Array
Images: TypeAlias = Array | str | Path | Image.Image | Sequence[OneImage]


def read_images(given: Images, size: int, resize: int | None = None) -> Tensor:
    """Read images without labels as uint8 (n, 3, size, size); a folder is searched recursively.

    The short side of files and Pillow images is resized to `resize` (or `size`); the middle is cropped out.
    """
    if isinstance(given, np.ndarray | Tensor):
        return _of_size(as_images(given), size)
    if isinstance(given, str | Path) and Path(given).is_dir():
        given = files_in(Path(given))
    elif isinstance(given, str | Path | bytes | Image.Image):
        given = [given]
    elif not isinstance(given, Sequence):
        raise UserError(
            f"Images must be an array, a tensor, a folder, or a list of files, arrays or Pillow's images, "
            f"not a {type(given).__name__}."
        )
    if not len(given):
        raise UserError("There is no image: give at least one.")
    return torch.stack([_one(each, size, resize) for each in given])


def labelled(
    given: Any, labels: ArrayLike | None, size: int, resize: int | None = None
) -> tuple[Tensor, list[str]]:
    """Read images and the class name of each; without `labels`, `given` is class folders or a dataset."""
    if labels is not None:
        pixels, names = read_images(given, size, resize), named(labels)
    elif isinstance(given, str | Path):
        classes = folder.find_images(Path(given))
        samples = folder.read_folder(classes, size, resize)
        pixels, names = samples.pixels(), [list(classes)[label] for label in samples.labels.tolist()]
    elif isinstance(given, Samples):
        pixels, names = _of_size(given.pixels(), size), named(given.labels)
    else:
        pixels, names = _dataset(given, size, resize)
    if len(names) != len(pixels):
        raise UserError(f"{len(pixels)} images have {len(names)} labels: give each image one.")
    return pixels, names


def named(labels: ArrayLike) -> list[str]:
    """Turn labels, which are strings or integers, into class names."""
    found = np.asarray(labels).reshape(-1)
    if found.size and found.dtype.kind not in "iuUSO":
        raise UserError(f"Labels must be strings or whole numbers, not {found.dtype}.")
    return [_name(each) for each in found.tolist()]


def files_in(root: Path) -> list[Path]:
    """Find image files recursively, sorted by path; hidden files and linked folders are left out."""
    if not root.is_dir():
        raise UserError(f"There is no folder {root}: check its name.")
    found = [path for path in _walk(root) if path.suffix.lower() in images.suffixes()]
    if not found:
        raise UserError(f"There is no image file in {root}.")
    return found


def _walk(root: Path) -> Iterator[Path]:
    for path in folder.visible(root):
        if not path.is_dir():
            yield path
        elif not path.is_symlink():
            yield from _walk(path)


def _dataset(given: Any, size: int, resize: int | None) -> tuple[Tensor, list[str]]:
    """Read a dataset of (image, label) pairs or mappings; the dataset may have names for its labels."""
    if not isinstance(given, Iterable) and not hasattr(given, "__getitem__"):
        raise UserError(
            f"A {type(given).__name__} without labels: give labels, a folder of class folders, or a dataset."
        )
    pixels, names = [], []
    known = _label_names(given)
    for item in given if not hasattr(given, "__len__") else (given[place] for place in range(len(given))):
        try:
            image, label = (item["image"], item["label"]) if isinstance(item, Mapping) else item
        except (KeyError, TypeError, ValueError):
            raise UserError("A dataset must give pairs, or mappings, of image and label.") from None
        pixels.append(_one(image, size, resize))
        names.append(_named(label, known))
    if not pixels:
        raise UserError("The dataset is empty: it must hold at least one image.")
    return torch.stack(pixels), names


def _label_names(dataset: Any) -> Sequence[str] | None:
    """The names of the labels, which datasets of torchvision and Hugging Face have."""
    features = getattr(dataset, "features", None)
    label = features.get("label") if isinstance(features, Mapping) else None
    return getattr(label, "names", None) or getattr(dataset, "classes", None)


def _named(label: Any, known: Sequence[str] | None) -> str:
    """The name of a label; raise for one outside of `known`, such as -1 for Hugging Face's hidden labels."""
    label = _plain(label)
    if not known or not isinstance(label, int):
        return _name(label)
    if not 0 <= label < len(known):
        raise UserError(
            f"Label {label} is none of the dataset's classes, 0 to {len(known) - 1}: leave its images out."
        )
    return known[label]


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, Tensor | np.generic) else label


def _name(label: Any) -> str:
    label = _plain(label)
    if isinstance(label, bytes) or not isinstance(label, str | int):
        raise UserError(f"Label {label!r} is neither a string nor a whole number.")
    return str(label)


def _one(image: Any, size: int, resize: int | None) -> Tensor:
    if isinstance(image, np.ndarray | Tensor):
        return _of_size(as_images(image[None]), size)[0]
    if isinstance(image, str | Path | bytes | Image.Image):
        return images.decode(image, size, images.centre(size, resize or size))
    raise UserError(f"An image must be a file, an array, a tensor or Pillow's, not a {type(image).__name__}.")


def _of_size(pixels: Tensor, size: int) -> Tensor:
    height, width = pixels.shape[2:]
    if (height, width) != (size, size):
        raise UserError(
            f"The images are {width}×{height} pixels and this learner takes {size}×{size}: "
            f"resize them, or create the learner with data.image_size {height}."
        )
    return pixels
