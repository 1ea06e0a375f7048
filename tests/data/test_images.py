from __future__ import annotations

import io
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile, ImageOps

from dytox.data import images
from dytox.data.encoded import read_encoded
from dytox.errors import UserError


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def noise(height: int, width: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def pixel(image: Image.Image, kind: str = "PNG", **options: object) -> list[int]:
    """The first pixel of an image of one colour, after decoding."""
    decoded = images.decode(encoded(image, kind, **options), 4)
    assert decoded.dtype == torch.uint8
    assert decoded.shape == (3, 4, 4)
    assert (decoded == decoded[:, :1, :1]).all()
    return decoded[:, 0, 0].tolist()


def test_an_image_of_the_right_size_is_not_changed() -> None:
    picture = noise(7, 7)
    assert torch.equal(images.decode(encoded(picture), 7), torch.tensor(np.array(picture)).permute(2, 0, 1))


@pytest.mark.parametrize(("height", "width"), [(6, 10), (10, 6), (6, 11)])
def test_the_middle_is_kept(height: int, width: int) -> None:
    picture = noise(height, width)
    top, left = (height - 6) // 2, (width - 6) // 2
    middle = torch.tensor(np.array(picture)[top : top + 6, left : left + 6]).permute(2, 0, 1)
    assert torch.equal(images.decode(encoded(picture), 6), middle)


def test_a_thin_image_does_not_take_gigabytes() -> None:
    assert images.decode(encoded(Image.new("RGB", (200_000, 1), "red")), 512)[:, 0, 0].tolist() == [255, 0, 0]


def test_shrinking_averages_instead_of_skipping() -> None:
    lines = np.zeros((64, 64, 3), dtype=np.uint8)
    lines[::2] = 255
    assert (images.decode(encoded(Image.fromarray(lines)), 8).float() - 127.5).abs().max() < 8


def test_a_large_jpeg_is_decoded_as_in_full() -> None:
    ramp = np.linspace(0, 255, 900, dtype=np.uint8)
    picture = Image.fromarray(
        np.stack([np.tile(ramp, (900, 1)), np.tile(ramp, (900, 1)).T, np.full((900, 900), 40, np.uint8)], 2)
    )
    full = np.array(picture.resize((32, 32), Image.Resampling.BICUBIC)).transpose(2, 0, 1)
    found = images.decode(encoded(picture, "JPEG", quality=95), 32)
    assert np.abs(found.numpy().astype(int) - full).max() <= 4


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_is_turned_upright(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(noise(8, 8), exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert torch.equal(images.decode(data, 8), torch.tensor(np.array(upright)).permute(2, 0, 1))


def test_a_photo_taken_upright_is_turned_clockwise() -> None:
    stored = Image.new("RGB", (8, 8), "blue")
    stored.paste("red", (0, 0, 4, 8))  # red on the left: above, once turned
    exif = Image.Exif()
    exif[0x0112] = 6
    decoded = images.decode(encoded(stored, exif=exif), 8)
    assert decoded[:, 0, 7].tolist() == [255, 0, 0]
    assert decoded[:, 7, 0].tolist() == [0, 0, 255]


def test_damaged_exif_does_not_spoil_a_good_image() -> None:
    data = encoded(Image.new("RGB", (8, 8), "red"), "PNG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert images.decode(data, 4)[:, 0, 0].tolist() == [255, 0, 0]


def test_every_kind_of_colour_becomes_rgb() -> None:
    size = (9, 5)
    assert pixel(Image.new("L", size, 77)) == [77, 77, 77]
    assert pixel(Image.new("1", size, 1)) == [255, 255, 255]
    assert pixel(Image.new("RGB", size, (1, 2, 3)).convert("P", palette=Image.Palette.ADAPTIVE)) == [1, 2, 3]
    assert pixel(Image.new("CMYK", size, (0, 255, 255, 0)), "TIFF") == [255, 0, 0]
    assert pixel(Image.new("YCbCr", size, (128, 128, 128)), "TIFF") == [128, 128, 128]


def test_sixteen_bits_are_scaled_not_cut_off() -> None:
    for value, expected in ((0, 0), (300, 1), (32768, 128), (65535, 255)):
        grey = Image.fromarray(np.full((5, 9), value, dtype=np.uint16))
        assert pixel(grey) == [expected] * 3
        assert pixel(grey, "TIFF") == [expected] * 3
        assert pixel(Image.fromarray(np.full((5, 9), value, dtype=np.int32)), "TIFF") == [expected] * 3


def test_floats_are_taken_as_shares_or_bytes() -> None:
    for value, expected in ((0.5, 128), (1.0, 255), (200.0, 200), (float("nan"), 0), (-3.0, 0)):
        assert pixel(Image.fromarray(np.full((5, 9), value, dtype=np.float32)), "TIFF") == [expected] * 3


def test_transparency_lies_over_white() -> None:
    size = (9, 5)
    assert pixel(Image.new("RGBA", size, (255, 0, 0, 0))) == [255, 255, 255]
    assert pixel(Image.new("RGBA", size, (0, 0, 0, 51))) == [204, 204, 204]
    assert pixel(Image.new("LA", size, (10, 255))) == [10, 10, 10]
    assert pixel(Image.new("L", size, 0), transparency=0) == [255, 255, 255]
    assert pixel(Image.new("P", size, 0), "GIF", transparency=0) == [255, 255, 255]


def test_an_animation_is_its_first_frame() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime")]
    for kind in ("GIF", "PNG", "WEBP"):
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
        assert images.decode(data, 8)[0].min() > 240
        assert images.decode(data, 8)[1].max() < 16


def test_the_content_counts_and_not_the_suffix(tmp_path: Path) -> None:
    path = tmp_path / "really-a-png.jpg"
    path.write_bytes(encoded(Image.new("RGB", (8, 8), "red")))
    assert images.decode(str(path), 8)[:, 0, 0].tolist() == [255, 0, 0]
    assert images.short_side(path) == 8


def bomb() -> bytes:
    """A PNG that says it has 40,000 x 40,000 pixels."""
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0), b"IDAT")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"this is no picture", "not an image that can be read"),
        (b"", "not an image that can be read"),
        (encoded(noise(64, 64))[:-2000], "be read as an image"),
        (encoded(noise(64, 64), "JPEG")[:-2000], "read as an image .*truncated"),
        (bomb(), "too many pixels"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "not an image"),
    ],
    ids=["text", "empty", "png", "jpeg", "bomb", "postscript"],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "broken.jpg"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"broken\.jpg .*{words}"):
        images.decode(path, 8)
    with pytest.raises(UserError, match="The image data"):
        images.decode(content, 8)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no image file .*gone\.png"):
        images.decode(tmp_path / "gone.png", 8)
    with pytest.raises(UserError, match=r"cannot be read as an image .*directory"):
        images.decode(tmp_path, 8)
    assert images.short_side(tmp_path / "gone.png") is None


def test_a_very_large_photo_brings_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60)  # 64 pixels: Pillow warns, but goes on
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert images.decode(encoded(noise(8, 8)), 4).shape == (3, 4, 4)


def test_many_files_come_in_order_and_the_broken_ones_by_index(tmp_path: Path) -> None:
    paths = [tmp_path / f"{index}.png" for index in range(20)]
    for index, path in enumerate(paths):
        path.write_bytes(b"?" if index in (3, 7) else encoded(Image.new("L", (5, 5), index)))
    decoded, errors = images.decode_many(paths, 4)
    assert decoded[:, 0, 0, 0].tolist() == [index for index in range(20) if index not in (3, 7)]
    assert list(errors) == [3, 7]
    assert "7.png" in str(errors[7])


def test_more_images_than_memory_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="10 images of 100000000x100000000 pixels need 300000000 GB"):
        images.decode_many([tmp_path / "a.png"] * 10, 10**8)


def test_suffixes_are_those_of_images() -> None:
    assert {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".gif", ".ppm"} <= images.suffixes()
    assert not {".txt", ".pdf", ".eps", ".h5", ".mpg"} & images.suffixes()


def sixteen_bit_png(path: Path, side: int) -> int:
    """Write a black 16-bit PNG, `side` pixels wide and high; the size of the file is much smaller."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packed, row = zlib.compressobj(9), bytes(1 + 2 * side)
    data = b"".join(packed.compress(row) for _ in range(side)) + packed.flush()
    header = struct.pack(">IIBBBBB", side, side, 16, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", data), chunk(b"IEND", b"")]
    return path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def test_a_small_file_of_many_sixteen_bit_pixels_takes_little_memory(tmp_path: Path) -> None:
    """As floats, four times over, its 25 million pixels took 800 MB."""
    assert sixteen_bit_png(tmp_path / "a.png", 5000) < 100_000
    script = (
        "import resource, sys\nfrom dytox.data import images\n"
        "images.decode(sys.argv[2], 8)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "images.decode(sys.argv[1], 32)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    sixteen_bit_png(tmp_path / "b.png", 10)
    command = [sys.executable, "-c", script, str(tmp_path / "a.png"), str(tmp_path / "b.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 250  # 50 MB as 16 bits, 75 as RGB


def test_what_would_have_too_many_pixels_is_refused_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sixteen_bit_png(tmp_path / "a.png", 200)
    monkeypatch.setattr(images, "MAX_PIXELS", 100 * 100)
    with monkeypatch.context() as loading:
        loading.setattr(ImageFile.ImageFile, "load", lambda _: pytest.fail("it was decoded"))
        with pytest.raises(UserError, match="too many pixels"):
            images.decode(tmp_path / "a.png", 32)
    Image.new("RGB", (200, 200), "red").save(tmp_path / "a.jpg")
    assert images.decode(tmp_path / "a.jpg", 32)[0].min() > 250  # a JPEG is decoded at a part of its size


def test_bands_are_converted_as_the_whole_is(monkeypatch: pytest.MonkeyPatch) -> None:
    source = np.random.default_rng(0)
    pictures = [
        Image.fromarray(source.integers(0, 256, (37, 29, 4), dtype=np.uint8)),
        Image.fromarray(source.integers(0, 65536, (37, 29), dtype=np.uint16)),
        Image.fromarray(source.random((37, 29), dtype=np.float32) * np.linspace(0, 1, 29, dtype=np.float32)),
    ]
    for picture in pictures:
        whole = images.decode(picture, 16)
        with monkeypatch.context() as narrow:
            narrow.setattr(images, "BAND", 64)
            assert torch.equal(images.decode(picture, 16), whole)


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_only_regular_files_are_opened_and_nothing_waits(tmp_path: Path, kind: str, linked: bool) -> None:
    path = tmp_path / "a.png"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    else:
        path.symlink_to("/dev/zero")
    if linked:
        (tmp_path / "b.png").symlink_to(path)
        path = tmp_path / "b.png"

    def too_late(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(10)
    try:
        with pytest.raises(UserError, match=re.escape(f"{path} cannot be read as an image")):
            images.decode(path, 8)
        assert images.short_side(path) is None
        with pytest.raises(UserError, match=re.escape(f"{path} cannot be read")):
            read_encoded(str(path))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
