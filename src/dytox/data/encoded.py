"""Images that stay encoded until they are needed: paths, the bytes of files, or rows of a table.

Pixels are decoded batch by batch in `decoding`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from dytox.data.images import MAX_BYTES
from dytox.errors import UserError
from dytox.machine import read_regular

FINGERPRINTED = 64  # files whose content goes into a fingerprint; of the others, only the names do


class Row(Protocol):
    """An image in a table, as in a Hugging Face dataset."""

    @property
    def name(self) -> str:
        """What an error calls it."""

    def read(self) -> bytes:
        """The bytes of its file."""


EncodedSource: TypeAlias = str | bytes | Row  # a string is the path of a file


@dataclass(frozen=True)
class Encoded:
    """Encoded images of any size that are decoded to squares of `size` pixels.

    Without augmentation the short side is resized to `resize` pixels and the middle is cropped out.
    """

    sources: tuple[EncodedSource, ...]
    size: int
    resize: int

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, places: Tensor | slice) -> Encoded:
        """The images at these places, or those where a mask is true."""
        if isinstance(places, slice):
            return replace(self, sources=self.sources[places])
        chosen = places.nonzero().squeeze(1) if places.dtype == torch.bool else places
        return replace(self, sources=tuple(self.sources[place] for place in chosen.tolist()))

    def contents(self) -> list[bytes]:
        """The bytes of every image's file."""
        return [read_encoded(source) for source in self.sources]

    def kept(self) -> Encoded:
        """A copy that holds the bytes in memory and needs the files no longer."""
        return replace(self, sources=tuple(self.contents()))

    def fingerprint(self) -> bytes:
        """A hash of the images that does not depend on their folder.

        It covers the names of all files, and the content of at most `FINGERPRINTED`.
        """
        digest = hashlib.blake2b("\0".join(map(_short_name, self.sources)).encode("utf-8", "replace"))
        for place in range(0, len(self), len(self) // FINGERPRINTED + 1):
            digest.update(read_encoded(self.sources[place]))
        return digest.digest()

    def tensors(self) -> dict[str, Tensor]:
        """Tensors to save: the concatenated bytes of the files, where each one ends, and the two sizes."""
        contents = self.contents()
        ends = torch.tensor([len(each) for each in contents], dtype=torch.int64).cumsum(0)
        joined = torch.from_numpy(np.frombuffer(bytearray().join(contents), dtype=np.uint8))
        return {"files": joined, "ends": ends, "sides": torch.tensor([self.size, self.resize])}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor]) -> Encoded:
        """The inverse of `tensors`; ValueError if the tensors do not fit together."""
        files, ends, sides = (tensors[name] for name in ("files", "ends", "sides"))
        types = (files.dtype, ends.dtype, sides.dtype) == (torch.uint8, torch.int64, torch.int64)
        sound = types and files.ndim == ends.ndim == 1 and sides.shape == (2,)
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])[: len(ends)] if sound else ends
        if not sound or bool((starts > ends).any()) or ends[-1:].sum() != len(files):
            raise ValueError("the files in its memory are not whole")
        size, resize = sides.tolist()
        if not 0 < size <= resize:
            raise ValueError(f"the images in its memory cannot be {size} of {resize} pixels")
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        data = files.numpy()
        return Encoded(tuple(data[start:end].tobytes() for start, end in pairs), size, resize)

    @staticmethod
    def concatenate(parts: Sequence[Encoded]) -> Encoded:
        """All images of the parts, which must have the same sizes."""
        first = parts[0]
        assert all((part.size, part.resize) == (first.size, first.resize) for part in parts)
        return replace(first, sources=tuple(source for part in parts for source in part.sources))


def read_encoded(source: EncodedSource) -> bytes:
    """The bytes of an image's file."""
    if isinstance(source, bytes):
        return source
    if not isinstance(source, str):
        return source.read()
    try:
        return read_regular(source, MAX_BYTES)
    except OSError as error:
        raise UserError(f"{source} cannot be read: {error.strerror}.") from None


def file_name(source: EncodedSource) -> str:
    """The name of an image in error messages."""
    if isinstance(source, bytes):
        return "An image in memory"
    return source if isinstance(source, str) else source.name


def _short_name(source: EncodedSource) -> str:
    """The name of the file without its folder, so that a dataset may be moved."""
    return (
        hashlib.blake2b(source).hexdigest()
        if isinstance(source, bytes)
        else os.path.basename(file_name(source))
    )
