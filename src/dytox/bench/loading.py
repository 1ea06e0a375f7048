"""How fast large images are loaded, beside Pillow's bare decoding of the same files.

Photographs of ImageNet's size are made; no dataset is needed. All ways are measured in turn, several times.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from dytox.data.augment import draw_crops, windows
from dytox.data.decoding import Decoder, Request
from dytox.data.encoded import Encoded

AREA = (0.08, 1.0)  # of a resized crop
BATCH = 64


@dataclass(frozen=True)
class Speed:
    """Images a second: the median over the repeats, and the slowest and the fastest."""

    median: float
    least: float
    most: float


@dataclass(frozen=True)
class Loading:
    """One measurement; `ours` by the number of worker processes, each of which has a core of its own."""

    images: int
    width: int
    height: int
    kilobytes: float  # of a file, on average
    size: int  # in pixels, of what the network sees
    pillow_decode: Speed  # a file to RGB pixels, and nothing else; one core
    pillow_crop: Speed  # decoded whole, cropped at random, resized, image by image; one core
    ours: dict[int, Speed]

    def to_json(self) -> dict[str, Any]:
        """As programs read it, with images/s per core and their share of bare decoding."""
        per_core = {workers: speed.median / workers for workers, speed in self.ours.items()}
        shares = {workers: speed / self.pillow_decode.median for workers, speed in per_core.items()}
        return {**asdict(self), "per_core": per_core, "share_of_decoding": shares}


def measure(
    *,
    images: int = 256,
    width: int = 500,
    height: int = 375,
    size: int = 224,
    workers: Sequence[int] = (1, 2),
    repeats: int = 3,
) -> Loading:
    """So many made photographs of this size, cropped at random to `size`."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [_photo(Path(folder) / f"{number}.jpg", number, width, height) for number in range(images)]
        crops = draw_crops(torch.Generator().manual_seed(0), images)
        request = Request(Encoded(tuple(map(str, paths)), size, size), crops, AREA)
        decoders = {count: Decoder(count, BATCH) for count in workers}
        ways: dict[Any, Callable[[], None]] = {
            "decode": lambda: _decode(paths),
            "crop": lambda: _crop(paths, crops, size),
            **{count: _streaming(decoder, request) for count, decoder in decoders.items()},
        }
        found = _in_turn(ways, images, repeats)
        for decoder in decoders.values():
            decoder.close()
        kilobytes = sum(path.stat().st_size for path in paths) / images / 1000
    ours = {count: found[count] for count in workers}
    return Loading(images, width, height, kilobytes, size, found["decode"], found["crop"], ours)


def _in_turn(ways: dict[Any, Callable[[], None]], images: int, repeats: int) -> dict[Any, Speed]:
    seconds: dict[Any, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats + 1):  # the first warms up: processes start, files come into the cache
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            if repeat:
                seconds[name].append(time.perf_counter() - began)
    return {
        name: Speed(images / statistics.median(each), images / max(each), images / min(each))
        for name, each in seconds.items()
    }


def _decode(paths: Sequence[Path]) -> None:
    for path in paths:
        with Image.open(path) as image:
            image.convert("RGB")


def _crop(paths: Sequence[Path], crops: torch.Tensor, size: int) -> None:
    for path, crop in zip(paths, crops, strict=True):
        with Image.open(path) as image:
            pixels = image.convert("RGB")
        top, left, h, w = windows(crop[None], pixels.height, pixels.width, area=AREA)[0].tolist()
        window = pixels.crop((int(left), int(top), int(left + w), int(top + h)))
        torch.from_numpy(np.array(window.resize((size, size), Image.Resampling.BICUBIC))).permute(2, 0, 1)


def _streaming(decoder: Decoder, request: Request) -> Callable[[], None]:
    def stream() -> None:
        batches = (request[start : start + BATCH] for start in range(0, len(request), BATCH))
        for _ in decoder.stream(batches):
            pass

    return stream


def _photo(path: Path, number: int, width: int, height: int) -> Path:
    """Smooth shapes with grain: a file of about the size of ImageNet's, 110 kB at 500×375 pixels."""
    source = np.random.default_rng(number)
    coarse = Image.fromarray(source.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32)
    grain = source.normal(0, 14, (height, width, 1))
    Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(path, quality=93)
    return path
