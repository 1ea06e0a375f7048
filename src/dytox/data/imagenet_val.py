"""The class of each image in a flat ImageNet `val/`.

The first of these files that exists is read, from `val/`, the folder above it or an unpacked development kit:

- `LOC_val_solution.csv` of Kaggle: `ILSVRC2012_val_00000001,n01751748 111 108 230 366`;
- `val_map.txt` or `val.txt`: the image, then its WordNet id or its position (from 0) in their sorted order;
- `ILSVRC2012_validation_ground_truth.txt` of the challenge: a class number (from 1) for each image; the
  WordNet ids of these numbers are in `map_clsloc.txt` (`n02119789 1 kit_fox`) or else `meta.mat` beside it.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from dytox.errors import UserError
from dytox.machine import read_regular

Reader = Callable[
    [Path, Sequence[str], Sequence[str]], dict[str, str]
]  # file, images, classes -> of each image

_MAX_BYTES = 1 << 26  # of a file that names the classes; the largest has 3 MB
NUMBERS = "map_clsloc.txt"

Element = tuple[int, bytes]  # a type, and its data

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_STRUCT, _TEXT = 2, 4  # kinds of matrices
_NUMBERS = {
    1: "i1",
    2: "u1",
    3: "<i2",
    4: "<u2",
    5: "<i4",
    6: "<u4",
    7: "<f4",
    9: "<f8",
    12: "<i8",
    13: "<u8",
}


def classes(folder: Path, stems: Sequence[str], wnids: Sequence[str]) -> list[str]:
    """The WordNet id of each image of a flat folder; `stems` are the file names without suffix."""
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
        if label.isdecimal():  # a higher number is a class that is not loaded
            label = wnids[int(label)] if int(label) < len(wnids) else "another"
        found[Path(image).stem] = label
    return found


def _ground_truth(path: Path, stems: Sequence[str], wnids: Sequence[str]) -> dict[str, str]:
    kit = path.parent
    if (kit / NUMBERS).is_file():
        numbers, named = kit / NUMBERS, {number: wnid for wnid, number, *_ in _lines(kit / NUMBERS, 2)}
    elif (kit / "meta.mat").is_file():
        numbers, named = kit / "meta.mat", _numbered_wnids(kit / "meta.mat")
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
    """The words of every line that is not empty; raise if one has less than `least`."""
    try:
        lines = read_regular(path, _MAX_BYTES).decode("utf-8").splitlines()
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


# --- meta.mat


def _numbered_wnids(path: Path) -> dict[str, str]:
    """Read the WordNet id of each class number from `meta.mat`, a MATLAB file (level 5).

    It has a table `synsets`, of which two columns are read; no more of the format is supported.
    """
    try:
        rows = next(
            _rows(data)
            for kind, data in _elements(read_regular(path, _MAX_BYTES)[_HEADER:])
            if kind == _MATRIX
        )
        return {str(_number(row["ILSVRC2012_ID"])): _text(row["WNID"]) for row in rows}
    except (OSError, ValueError, LookupError, struct.error, zlib.error, StopIteration):
        raise UserError(f"{path} cannot be read as ImageNet's meta.mat: replace it.") from None


def _elements(data: bytes) -> Iterator[Element]:
    place = 0
    while place + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, place)
        if kind >> 16:  # a small element: type, size and data in 8 bytes
            yield kind & 0xFFFF, data[place + 4 : place + 4 + (kind >> 16)]
            place += 8
            continue
        content = data[place + 8 : place + 8 + size]
        if kind == _COMPRESSED:
            yield from _elements(zlib.decompressobj().decompress(content, _MAX_BYTES))
            place += 8 + size
        else:
            yield kind, content
            place += 8 + size + -size % 8


def _rows(matrix: bytes) -> list[dict[str, bytes]]:
    """The rows of a table: the cell of each column, which is a matrix again, by the name of the column."""
    (_, flags), _, _, (_, length), (_, names), *cells = _elements(matrix)
    if flags[0] != _STRUCT:
        raise ValueError("not a table")
    width = int.from_bytes(length, "little")
    columns = [names[at : at + width].rstrip(b"\0").decode() for at in range(0, len(names), width)]
    contents = [data for _, data in cells]
    starts = range(0, len(contents), len(columns))
    return [dict(zip(columns, contents[start : start + len(columns)], strict=True)) for start in starts]


def _number(matrix: bytes) -> int:
    _, _, _, (kind, data) = _elements(matrix)
    return int(np.frombuffer(data, dtype=_NUMBERS[kind])[0])


def _text(matrix: bytes) -> str:
    (_, flags), _, _, (kind, data) = _elements(matrix)
    if flags[0] != _TEXT:
        raise ValueError("not text")
    return data.decode("utf-16-le" if kind == 4 else "utf-8")
