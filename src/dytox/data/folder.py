"""A folder of images as a dataset: one folder a class.

Either `root/train/<class>/*` with `root/val/<class>/*` (or `root/test`, if there is no `val`), or
`root/<class>/*`, from which a share of each class becomes the test set. Images are the files with the suffix
of an image format; hidden files and folders are ignored. Classes and files are sorted by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from dytox.config import DataConfig
from dytox.data import images
from dytox.data.encoded import Encoded
from dytox.data.samples import Samples
from dytox.errors import UserError

Classes = Mapping[str, Sequence[Path | str]]  # the images of each class, both in order


def load(config: DataConfig) -> tuple[Samples, Samples | None, tuple[str, ...]]:
    """Load the training set, the test set if the folder has one, and the names of the classes."""
    source = root(config)
    if not _subfolders(source / "train"):
        train, test = find_images(source), None
    else:
        train = find_images(source / "train")
        test_folder = next((source / name for name in ("val", "test") if (source / name).is_dir()), None)
        test = find_images(test_folder) if test_folder else None
    if len(train) < 2:
        raise UserError(f"{source} has one class only ({next(iter(train))}): at least two are needed.")
    if test is not None:
        _same_classes(train, test, source)
    size = config.image_size or default_size(train)
    take = encoded if config.on_demand else read_folder
    tested = None if test is None else take(test, size, config.resize)
    return take(train, size, config.resize), tested, tuple(train)


def find_images(folder: Path) -> dict[str, list[Path]]:
    """Find the image files of each class folder; raise if a class has none."""
    classes = {
        path.name: [file for file in visible(path) if file.suffix.lower() in images.suffixes()]
        for path in _subfolders(folder)
    }
    if not classes:
        raise UserError(f"{folder} has no class folders: put the images into {folder}/<class>/.")
    empty = [name for name, paths in classes.items() if not paths]
    if empty:
        raise UserError(f"{_listed(str(folder / name) for name in empty)}: a class folder without images.")
    return classes


def default_size(classes: Classes) -> int:
    """Choose the image size for a config that does not set it, from the sides of at most 256 files."""
    paths = [path for group in classes.values() for path in group]
    some = paths[:: len(paths) // 256 + 1]  # at most 256, spread evenly
    return side_for([side for side in map(images.short_side, some) if side is not None])


def side_for(sides: Sequence[int]) -> int:
    """Choose the image size from the shorter sides of images: 32 if half of them are below 64, else 64."""
    return 32 if not sides or median(sides) < 64 else 64


def encoded(classes: Classes, size: int, resize: int | None = None) -> Samples:
    """The files with their labels, by the order of the classes; no file is read yet."""
    paths = tuple(str(path) for group in classes.values() for path in group)
    return Samples(Encoded(paths, size, resize or size), _labels(classes))


def read_folder(classes: Classes, size: int, resize: int | None = None) -> Samples:
    """Decode all images, labelled by the order of the classes; one error names all unreadable files."""
    paths = [path for group in classes.values() for path in group]
    decoded, errors = images.decode_many(paths, size, images.centre(size, resize or size))
    if len(errors) == 1:
        raise next(iter(errors.values()))
    if errors:
        names = _listed(str(paths[index]) for index in errors)
        raise UserError(f"{len(errors)} files cannot be read as images ({names}): replace or remove them.")
    return Samples(decoded, _labels(classes))


def _labels(classes: Classes) -> Tensor:
    counts = torch.tensor([len(group) for group in classes.values()])
    return torch.arange(len(counts)).repeat_interleave(counts)


def root(config: DataConfig) -> Path:
    """The folder that the config names; raise if it does not exist."""
    if config.root is None:
        raise UserError(f"The dataset {config.dataset!r} needs a folder of images: name it with --data.")
    path = Path(config.root).expanduser()
    if not path.is_dir():
        raise UserError(f"There is no folder {path}: name the folder of images with --data.")
    return path


def visible(folder: Path) -> list[Path]:
    """The files and folders in a folder, sorted by name; hidden ones are left out."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror}.") from None


def _subfolders(folder: Path) -> list[Path]:
    return [path for path in visible(folder) if path.is_dir()] if folder.is_dir() else []


def _same_classes(train: Classes, test: Classes, root: Path) -> None:
    new = [name for name in test if name not in train]
    if new:
        raise UserError(f"{root} has classes to test ({_listed(new)}) that {root / 'train'} does not have.")
    untested = [name for name in train if name not in test]
    if untested:
        raise UserError(f"{root} has no test images for some classes ({_listed(untested)}): add them.")


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
