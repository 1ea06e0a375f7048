"""The challenge's `meta.mat`: which WordNet id each of its class numbers is.

A file of MATLAB (level 5) with a table `synsets`, of which two columns are read; of the format no more than
that needs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dytox.errors import UserError
from dytox.machine import read_regular

Element = tuple[int, bytes]  # a type, and its data

MAX_BYTES = 1 << 24  # of the file, and of what it unpacks to; the published one has 135 kB
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


def wnids(path: Path) -> dict[str, str]:
    """The WordNet id of each number."""
    try:
        rows = next(
            _rows(data)
            for kind, data in _elements(read_regular(path, MAX_BYTES)[_HEADER:])
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
            yield from _elements(zlib.decompressobj().decompress(content, MAX_BYTES))
            place += 8 + size
        else:
            yield kind, content
            place += 8 + size + -size % 8


def _rows(matrix: bytes) -> list[dict[str, bytes]]:
    """Of a table: each column's cell, a matrix again, by the column's name."""
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
