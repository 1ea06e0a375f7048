"""Images that are decoded when they are needed: the right window, and the same pixels whoever decodes."""

from __future__ import annotations

import io
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from dytox.config import AugmentConfig, DataConfig, PhaseConfig
from dytox.data import datasets, images
from dytox.data.augment import Augmentation, draw_crops, windows
from dytox.data.decoding import Decoder, Request, pixels
from dytox.data.encoded import Encoded
from dytox.data.exemplars import Exemplars
from dytox.data.loader import Batch, Loader
from dytox.data.samples import Samples
from dytox.engine.distributed import World
from dytox.errors import UserError
from dytox.randomness import Position

HERE = Position(task=1, phase=2, epoch=3)


@pytest.fixture(scope="module")
def samples(imagenet: Path) -> Samples:
    return datasets.load(
        DataConfig(dataset="imagenet100", root=str(imagenet), image_size=16, resize=18)
    ).train


def loader(samples: Samples, workers: int = 0, rows=None, *, repeats: int = 1, crop: bool = True) -> Loader:
    augment = AugmentConfig(resized_crop=[0.08, 1.0] if crop else None)
    return Loader(
        samples,
        PhaseConfig(batch=50, repeats=repeats),
        Augmentation(augment, mean=[0.5] * 3, std=[0.5] * 3),
        seed=0,
        mixup=0.8,
        device=torch.device("cpu"),
        workers=workers,
        **({} if rows is None else {"rows": rows}),
    )


def epoch(this: Loader, step: int = 0) -> list[Batch]:
    """The batches from a step on, as the loop takes them."""
    position = replace(HERE, step=step)
    batches = this.epoch(position)
    decoded = this.pixels(batches, position)
    return [
        this.batch(batches[at], replace(position, step=at), "train", lambda source, count: {}, next(decoded))
        for at in range(step, len(batches))
    ]


def assert_equal(found: list[Batch], expected: list[Batch]) -> None:
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)


def test_processes_that_decode_change_nothing_nor_does_being_cut_off(samples: Samples) -> None:
    plain = epoch(loader(samples))
    assert [len(batch.labels) for batch in plain] == [50, 70]  # 120 images
    ahead = loader(samples, workers=2)
    assert_equal(epoch(ahead), plain)
    next(ahead.pixels(ahead.epoch(HERE), HERE))  # cut off in the middle of an epoch
    assert_equal(epoch(ahead, step=1), plain[1:])
    ahead.close()
    position = replace(HERE, step=1)
    alone = loader(samples)
    batch = alone.batch(alone.epoch(HERE)[1], position, "train", lambda source, count: {})
    assert_equal([batch], plain[1:])


@pytest.mark.parametrize("crop", [True, False])
def test_the_rows_of_two_processes_are_the_global_batch(samples: Samples, crop: bool) -> None:
    whole = epoch(loader(samples, repeats=3, crop=crop))
    parts = [epoch(loader(samples, rows=World(rank, 2).rows, repeats=3, crop=crop)) for rank in range(2)]
    for batch, first, second in zip(whole, *parts, strict=True):
        assert torch.equal(torch.cat([first.images, second.images]), batch.images)
        assert torch.equal(torch.cat([first.labels, second.labels]), batch.labels)
        assert abs(len(first.labels) - len(second.labels)) <= 2


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def noise(height: int, width: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def as_tensor(image: Image.Image) -> torch.Tensor:
    return torch.tensor(np.array(image)).permute(2, 0, 1)


def close_to(expected: Image.Image) -> torch.Tensor:
    """Torch's resize is Pillow's up to the rounding of its weights."""
    return as_tensor(expected).int()


def test_evaluation_sees_the_inner_224_of_256() -> None:
    """Of 40×30 pixels 7 of 8: a side of 30 · 7 / 8, so 26, from (40 - 26) / 2 and (30 - 26) / 2 on."""
    picture = noise(30, 40)
    found = pixels(Encoded((encoded(picture),), 7, 8))[0]
    expected = picture.crop((7, 2, 33, 28)).resize((7, 7), Image.Resampling.BICUBIC)
    assert (found - close_to(expected)).abs().max() <= 2


@pytest.mark.parametrize("orientation", [1, 3, 5, 6, 8])
def test_a_random_window_is_one_of_the_upright_image(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(noise(30, 44), exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    crops = draw_crops(torch.Generator().manual_seed(1), 1)
    top, left, h, w = windows(crops, upright.height, upright.width, area=[0.1, 0.9])[0].tolist()
    expected = upright.crop((left, top, left + w, top + h)).resize((8, 8), Image.Resampling.BICUBIC)
    request = Request(Encoded((data,), 8, 8), crops, [0.1, 0.9])
    assert (next(Decoder(0, 1).stream([request]))[0] - close_to(expected)).abs().max() <= 2


def test_a_stream_that_waits_holds_no_thread() -> None:
    before = threading.active_count()
    picture = Encoded((encoded(noise(20, 20)),), 16, 16)
    stream = Decoder(0, 1).stream([Request(picture), Request(picture)])
    next(stream)
    assert threading.active_count() == before


def test_a_window_of_a_large_jpeg_is_decoded_small_and_looks_as_in_full() -> None:
    ramp = np.linspace(0, 255, 900, dtype=np.uint8)
    flat = np.tile(ramp, (600, 1))
    picture = Image.fromarray(np.stack([flat, 255 - flat, np.full_like(flat, 40)], axis=2))
    box = (100, 50, 700, 550)
    full = as_tensor(picture.crop(box).resize((32, 32), Image.Resampling.BICUBIC)).int()
    decoded = []
    found = images.decode(encoded(picture, "JPEG", quality=95), 32, lambda *size: decoded.append(size) or box)
    assert decoded == [(900, 600)]
    assert (found.int() - full).abs().max() <= 4


def test_windows_of_wide_and_tall_images() -> None:
    crops = draw_crops(torch.Generator().manual_seed(0), 2000)
    top, left, h, w = windows(crops, 60, 100, area=[0.08, 1.0]).unbind(1)
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + h <= 60).all()
    assert (left + w <= 100).all()
    assert (left + w == 100).any()  # up to the edge
    share = h * w / 6000
    assert share.min() == pytest.approx(0.08, abs=0.01)
    assert share.max() > 0.75
    assert (w / h).min() > 0.7
    assert (w / h).max() < 1.45
    # nothing with the whole area fits into a strip: 13 = round(10 · 4/3) in the middle of 100, and upright
    assert windows(crops[:1], 10, 100, area=[1.0, 1.0]).tolist() == [[0, 43, 10, 13]]
    assert windows(crops[:1], 100, 10, area=[1.0, 1.0]).tolist() == [[43, 0, 13, 10]]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_file_is_named(samples: Samples, tmp_path: Path, workers: int) -> None:
    broken = tmp_path / "broken.JPEG"
    broken.write_bytes(Path(samples.images.sources[0]).read_bytes()[:300])
    sources = (*samples.images.sources[:40], str(broken))
    request = Request(replace(samples.images, sources=sources))
    with pytest.raises(UserError, match=f"^{broken} cannot be read as an image"):
        list(Decoder(workers, 41).stream([request]))


def test_a_memory_keeps_the_bytes_of_files_without_loss(samples: Samples, tmp_path: Path) -> None:
    paths = [tmp_path / Path(path).name for path in samples.images.sources[:5]]
    contents = [Path(path).read_bytes() for path in samples.images.sources[:5]]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    held = Samples(Encoded(tuple(map(str, paths)), 16, 18), torch.tensor([0, 0, 1, 1, 2]))
    before = held.pixels()
    memory = Exemplars.empty(16).extended(held, 0).extended(held.take(torch.tensor([1])), 1)
    for path in paths:
        path.unlink()
    tensors = memory.tensors()
    assert set(tensors) == {"files", "ends", "sides", "labels", "shares"}
    assert tensors["files"].numpy().tobytes() == b"".join([*contents, contents[1]])
    again = Exemplars.from_tensors(tensors)
    assert again.samples.contents() == [*contents, contents[1]]
    assert torch.equal(again.samples.pixels()[:5], before)
    assert again.overlap() == pytest.approx(20)  # one of five
    assert again.shrunk(1).samples.contents() == [contents[0], contents[2], contents[4], contents[1]]
    mixed = Samples.concatenate([again.samples, Samples(before, held.labels)])
    assert torch.equal(mixed.images[-5:], before)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ends", torch.tensor([3, 2, 9])),
        ("ends", torch.tensor([3, 8])),
        ("ends", torch.tensor([-1, 9])),
        ("sides", torch.tensor([16, 8])),
        ("sides", torch.tensor([16])),
        ("files", torch.zeros(9)),
        ("labels", torch.tensor([0])),
    ],
)
def test_a_memory_of_files_that_is_none(name: str, value: torch.Tensor) -> None:
    good = {
        "files": torch.zeros(9, dtype=torch.uint8),
        "ends": torch.tensor([3, 9]),
        "sides": torch.tensor([8, 8]),
        "labels": torch.tensor([0, 1]),
    }
    assert [len(each) for each in Samples.from_tensors(good).contents()] == [3, 6]
    with pytest.raises(ValueError, match=r"memory|labels"):
        Samples.from_tensors({**good, name: value})


SMALL_SHARED_MEMORY = """
import sys, torch
from pathlib import Path
from dytox.data.decoding import Decoder, Request
from dytox.data.encoded import Encoded

files = tuple(str(path) for path in sorted(Path(sys.argv[1]).glob("*.png"))) * 8
request = Request(Encoded(files, 256, 256))
decoder = Decoder(2, 64)
decoder._loader.num_workers == 2 or sys.exit("no processes")
print(sum(int(batch.long().sum()) for batch in decoder.stream([request] * 4)))
decoder.close()
"""


def test_processes_that_decode_need_no_shared_memory() -> None:
    """A chunk is 3 MB, and /dev/shm here has 1: tensors would have to go through it."""
    mounted = "mount -t tmpfs -o size=1m tmpfs /dev/shm && exec"
    separate = ["unshare", "--mount", "sh", "-c", f'{mounted} "$@"', "sh"]
    if subprocess.run([*separate, "true"], capture_output=True).returncode:
        pytest.skip("a mount of one's own needs root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # not in /dev/shm
        for number in range(8):
            Image.new("RGB", (256, 256), (number, 0, 1)).save(Path(folder) / f"{number}.png")
        command = [*separate, sys.executable, "-c", SMALL_SHARED_MEMORY, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{4 * 8 * 256 * 256 * (sum(range(8)) + 8)}\n", done.stderr


def test_a_process_that_dies_ends_it_with_a_sentence(samples: Samples) -> None:
    decoder = Decoder(1, 16)
    stream = decoder.stream(Request(samples.images[:16]) for _ in itertools.count())
    next(stream)
    (worker,) = multiprocessing.active_children()
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(UserError, match="A process that decodes images has died"):
        for _ in stream:
            pass
    decoder.close()
