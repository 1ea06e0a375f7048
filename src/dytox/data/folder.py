"""A folder of images as a dataset: one folder a class.

Either `root/train/<class>/*` with `root/val/<class>/*` (or `root/test`, if there is no `val`), or
`root/<class>/*`, of which a share of each class becomes the test set. Images are the files whose suffix is
that of an image format; hidden files and folders are passed over. Classes and files come in the order of
their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import torch

from dytox.config import DataConfig
from dytox.data import images
from dytox.data.samples import Samples
from dytox.errors import UserError

Classes = Mapping[str, Sequence[Path]]  # the images of each class, both in order


def load(config: DataConfig) -> tuple[Samples, Samples | None, tuple[str, ...]]:
    """The training set, the test set if the folder has one, and the names of the classes."""
    root = _root(config)
    if not _subfolders(root / "train"):
        train, test = find(root), None
    else:
        train = find(root / "train")
        test_folder = next((root / name for name in ("val", "test") if (root / name).is_dir()), None)
        test = find(test_folder) if test_folder else None
    if len(train) < 2:
        raise UserError(f"{root} has one class only ({next(iter(train))}): at least two are needed.")
    if test is not None:
        _same_classes(train, test, root)
    size = config.image_size or default_size(train)
    return read(train, size), None if test is None else read(test, size), tuple(train)


def find(folder: Path) -> dict[str, list[Path]]:
    """The image files of each class folder; every class has at least one."""
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
    """The side of the images if the config names none: 32 if half of them are smaller than 64, else 64."""
    paths = [path for group in classes.values() for path in group]
    some = paths[:: len(paths) // 256 + 1]  # at most 256, spread evenly
    sides = [side for side in map(images.short_side, some) if side is not None]
    return 32 if not sides or median(sides) < 64 else 64


def read(classes: Classes, size: int) -> Samples:
    """All images, labelled in the order of the classes; files that cannot be read are named in one error."""
    paths = [path for group in classes.values() for path in group]
    labels = [label for label, group in enumerate(classes.values()) for _ in group]
    decoded, errors = images.decode_many(paths, size)
    if len(errors) == 1:
        raise next(iter(errors.values()))
    if errors:
        names = _listed(str(paths[index]) for index in errors)
        raise UserError(f"{len(errors)} files cannot be read as images ({names}): replace or remove them.")
    return Samples(decoded, torch.tensor(labels, dtype=torch.int64))


def _root(config: DataConfig) -> Path:
    if config.root is None:
        raise UserError("The dataset 'folder' needs a folder of images: name it with --data.")
    root = Path(config.root).expanduser()
    if not root.is_dir():
        raise UserError(f"There is no folder {root}: name the folder of images with --data.")
    return root


def visible(folder: Path) -> list[Path]:
    """What is in a folder, hidden things aside, in the order of their names."""
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
