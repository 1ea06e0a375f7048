"""FOLDER/<class>/*.jpg as it comes from people: what cannot be used is passed over and named."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from dytox.data import folder, images
from dytox.data.names import check_names, tidy
from dytox.errors import UserError


@dataclass(frozen=True)
class ImageFolder:
    """The image files of each class, and a sentence for each that is passed over."""

    root: Path
    classes: dict[str, list[Path]]
    skipped: list[str]

    @property
    def images(self) -> int:
        """How many files there are."""
        return sum(map(len, self.classes.values()))


@dataclass(frozen=True)
class Pictures:
    """Images (n, 3, size, size) with file and class of each, and a sentence for each passed over."""

    images: Tensor
    paths: list[Path]
    names: list[str]
    skipped: list[str]

    def fingerprint(self) -> str:
        """Equal for equal images with equal names."""
        digest = hashlib.blake2b("\0".join(self.names).encode(), digest_size=16)
        digest.update(self.images.numpy().data)
        return digest.hexdigest()


def find_classes(root: Path) -> ImageFolder:
    """The classes of a folder. Links that lead out of it are passed over, hidden folders not even named."""
    if not root.is_dir():
        raise UserError(f"There is no folder {root}: name one that holds a folder for each class.")
    classes: dict[str, list[Path]] = {}
    skipped: list[str] = []
    home = Path(os.path.realpath(root))
    found = folder.find_images(root)
    check_names(found)
    for name, paths in found.items():
        inside = []
        for path in paths:
            if Path(os.path.realpath(path)).is_relative_to(home):
                inside.append(path)
            else:
                skipped.append(f"{path} is a link that leads out of {root}.")
        if inside:
            classes[tidy(name)] = inside
    if not classes:
        raise UserError(f"Nothing in {root} can be used, {_first(skipped)}")
    return ImageFolder(root, classes, skipped)


def read_pictures(source: ImageFolder, size: int, resize: int | None = None) -> Pictures:
    """All images that can be read, at one size; at least one."""
    paths = [path for group in source.classes.values() for path in group]
    names = [name for name, group in source.classes.items() for _ in group]
    decoded, errors = images.decode_many(paths, size, images.centre(size, resize or size))
    skipped = [*source.skipped, *(str(error) for error in errors.values())]
    if len(errors) == len(paths):
        raise UserError(f"No image in {source.root} can be read, {_first(skipped)}")
    read = [place for place in range(len(paths)) if place not in errors]
    return Pictures(decoded, [paths[place] for place in read], [names[place] for place in read], skipped)


def _first(sentences: Sequence[str]) -> str:
    return f"for one: {sentences[0]}"
