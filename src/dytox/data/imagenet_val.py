"""Which class each image of a flat ImageNet `val/` is of.

Read is the first that is there, in `val/`, in the folder above, or in a development kit unpacked beside it:

- `LOC_val_solution.csv`, Kaggle's: `ILSVRC2012_val_00000001,n01751748 111 108 230 366`;
- `val_map.txt` or `val.txt`: the image, then its WordNet id or its place (from 0) in the order of these;
- `ILSVRC2012_validation_ground_truth.txt`, the challenge's own: a number (from 1) for each image, whose
  WordNet ids are in `map_clsloc.txt` (`n02119789 1 kit_fox`) or else `meta.mat` beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dytox.data import imagenet_meta
from dytox.errors import UserError
from dytox.machine import read_regular

Reader = Callable[
    [Path, Sequence[str], Sequence[str]], dict[str, str]
]  # file, images, classes -> of each image

MAX_BYTES = 1 << 26  # of a file that names the classes; the largest has 3 MB
NUMBERS = "map_clsloc.txt"


def classes(folder: Path, stems: Sequence[str], wnids: Sequence[str]) -> list[str]:
    """The WordNet id of each of these images of a flat folder."""
    places = [
        folder,
        folder.parent,
        *sorted(folder.parent.glob("*devkit*")),
        *sorted(folder.parent.glob("*devkit*/data")),
    ]
    for pattern, reader in READERS.items():
        for path in (path for place in places for path in sorted(place.glob(pattern))):
            found = reader(path, stems, wnids)
            strange = next((stem for stem in stems if stem not in found), None)
            if strange is not None:
                raise UserError(f"{path} does not say the class of {strange}, which is in {folder}.")
            return [found[stem] for stem in stems]
    raise UserError(
        f"{folder} has images, but no class folders: put {' or '.join(READERS)} beside it, "
        "which say the class of each."
    )


def _solution(path: Path, stems: Sequence[str], wnids: Sequence[str]) -> dict[str, str]:
    return {Path(image).stem: label for image, label, *_ in _lines(path, 2) if image != "ImageId"}


def _map(path: Path, stems: Sequence[str], wnids: Sequence[str]) -> dict[str, str]:
    found = {}
    for image, label, *_ in _lines(path, 2):
        if label.isdecimal():  # beyond the classes: of ImageNet, but not among these
            label = wnids[int(label)] if int(label) < len(wnids) else "another"
        found[Path(image).stem] = label
    return found


def _ground_truth(path: Path, stems: Sequence[str], wnids: Sequence[str]) -> dict[str, str]:
    kit = path.parent
    if (kit / NUMBERS).is_file():
        numbers, named = kit / NUMBERS, {number: wnid for wnid, number, *_ in _lines(kit / NUMBERS, 2)}
    elif (kit / "meta.mat").is_file():
        numbers, named = kit / "meta.mat", imagenet_meta.wnids(kit / "meta.mat")
    else:
        raise UserError(
            f"{path} numbers the classes: put meta.mat or {NUMBERS} beside it, where the numbers stand."
        )
    labels = [label for label, *_ in _lines(path, 1)]
    if len(labels) != len(stems):
        raise UserError(
            f"{path} is about {len(labels)} images, but there are {len(stems)}: unpack all of them."
        )
    unknown = next((label for label in labels if label not in named), None)
    if unknown is not None:
        raise UserError(f"{path} has the class {unknown}, which {numbers} does not have.")
    return {stem: named[label] for stem, label in zip(sorted(stems), labels, strict=True)}


def _lines(path: Path, least: int) -> Iterator[list[str]]:
    """The words of every line, at least so many."""
    try:
        lines = read_regular(path, MAX_BYTES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path} cannot be read as text: replace it.") from None
    for number, line in enumerate(lines, 1):
        words = re.split(r"[,\s]+", line.strip())
        if words == [""]:
            continue
        if len(words) < least:
            raise UserError(f"Line {number} of {path} is {line!r}, without a class.")
        yield words


READERS: dict[str, Reader] = {
    "LOC_val_solution.csv": _solution,
    "val_map.txt": _map,
    "val.txt": _map,
    "ILSVRC*validation_ground_truth.txt": _ground_truth,
}
