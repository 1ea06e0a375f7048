"""How fast large images are loaded, beside Pillow's bare decoding of the same files.

Photographs of ImageNet's size are made; no dataset is needed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from dytox.bench.timing import interleaved
from dytox.data.augment import draw_crops, windows
from dytox.data.decoding import Decoder, Request
from dytox.data.encoded import Encoded

AREA = (0.08, 1.0)  # of a resized crop
BATCH = 64
CPU = torch.device("cpu")


def of_loading(
    repeats: int,
    say: Callable[[str], None],
    *,
    images: int = 256,
    width: int = 500,
    height: int = 375,
    size: int = 224,
    workers: Sequence[int] = (1, 2),
) -> dict[str, Any]:
    """So many made photographs, cropped at random to `size`: by Pillow in one process, and by our workers.

    `decoding` is a file to RGB pixels and nothing else; `plain` crops and resizes what was decoded whole.
    """
    say("loading large images: Pillow and ours in turn")
    with tempfile.TemporaryDirectory() as folder:
        paths = [_photo(Path(folder) / f"{number}.jpg", number, width, height) for number in range(images)]
        crops = draw_crops(torch.Generator().manual_seed(0), images)
        request = Request(Encoded(tuple(map(str, paths)), size, size), crops, AREA)
        ways = {"decoding": lambda: _decode(paths), "plain": lambda: _crop(paths, crops, size)}
        with ExitStack() as stack:
            ours = {str(count): stack.enter_context(_streaming(count, request)) for count in workers}
            found = interleaved({**ways, **ours}, repeats, CPU)
        kilobytes = sum(path.stat().st_size for path in paths) / images / 1000
    share = {count: found["decoding"].median / found[count].median / int(count) for count in ours}
    return {
        "images": images,
        "width": width,
        "height": height,
        "kilobytes": kilobytes,  # of a file, on average
        "size": size,  # in pixels, of what the network sees
        "decoding": found["decoding"].rate(images),
        "plain": found["plain"].rate(images),
        "ours": {count: found[count].rate(images) for count in ours},  # by the number of workers
        "share_of_decoding": share,  # images a second of each worker, beside bare decoding's
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


@contextmanager
def _streaming(workers: int, request: Request) -> Iterator[Callable[[], None]]:
    decoder = Decoder(workers, BATCH)

    def stream() -> None:
        batches = (request[start : start + BATCH] for start in range(0, len(request), BATCH))
        for _ in decoder.stream(batches):
            pass

    with closing(decoder):
        yield stream


def _photo(path: Path, number: int, width: int, height: int) -> Path:
    """Smooth shapes with grain: a file of about the size of ImageNet's, 110 kB at 500×375 pixels."""
    source = np.random.default_rng(number)
    coarse = Image.fromarray(source.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32)
    grain = source.normal(0, 14, (height, width, 1))
    Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(path, quality=93)
    return path
