"""Decoding of image files to uint8 RGB of one size.

Every format that Pillow decodes itself is read, by its content and not by its suffix. The image is turned
upright (EXIF), an animation gives its first frame, and transparency is put over white. 16-bit grey is scaled
to 8 bits; so are 32-bit integers, as which Pillow reads some 16-bit files. Floats are taken as 0 to 1 if none
is above 1, else as 0 to 255. A window of the image is resized to the requested size, by default the largest
square in the middle: a resize of the short side and a centre crop in one step.
"""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.nn import functional

from dytox.errors import UserError
from dytox.machine import cores, open_regular

ImageSource: TypeAlias = str | Path | bytes | Image.Image
Box: TypeAlias = tuple[int, int, int, int]  # left, top, right, bottom
Window: TypeAlias = Callable[[int, int], Box]  # takes the width and height of an image

MAX_BYTES = 1 << 30  # of an image file
MAX_PIXELS = 100_000_000  # to be decoded; a JPEG with more is decoded at a fraction of its size
LARGE = 16_000_000  # pixels from which on only one image at a time is decoded
BAND = 1 << 20  # pixels that are converted to RGB at a time
_LARGE = threading.Lock()

# Formats that Pillow only recognises, or renders by running another program (Ghostscript) on the file.
_NOT_READ = {"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"}

_EXIF_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_REDUCIBLE = (
    "JPEG",
    "MPO",
)  # can be decoded at a part of their size; to know their EXIF they are not decoded
_ASIDE = {_UPRIGHT[orientation] for orientation in (5, 6, 7, 8)}  # width and height change places


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in Image.ID if name not in _NOT_READ)  # the common ones come first


@cache
def suffixes() -> frozenset[str]:
    """The suffixes of image files, in lower case and with their dot."""
    readable = set(_formats())
    return frozenset(suffix for suffix, name in Image.registered_extensions().items() if name in readable)


def centre(inner: int, outer: int) -> Window:
    """The square in the middle that has `inner` pixels after the short side was resized to `outer`."""

    def window(width: int, height: int) -> Box:
        side = max(1, round(min(width, height) * inner / outer))
        left, top = (width - side) // 2, (height - side) // 2
        return left, top, left + side, top + side

    return window


WHOLE = centre(1, 1)  # the largest square


def decode(source: ImageSource, size: int, window: Window = WHOLE, *, name: str | None = None) -> Tensor:
    """Decode an image file, its bytes or a Pillow image to uint8 RGB (3, size, size).

    Errors name the image by `name`, or else by the name of the file.
    """
    with quiet():
        return decode_aloud(source, size, window, name=name)


def decode_many(
    paths: Sequence[ImageSource], size: int, window: Window = WHOLE
) -> tuple[Tensor, dict[int, UserError]]:
    """Decode files to (n, 3, size, size) in order, and collect the errors of the others by their index."""
    try:
        images = torch.empty((len(paths), 3, size, size), dtype=torch.uint8)
    except RuntimeError:
        needed = len(paths) * 3 * size * size / 1e9
        raise UserError(
            f"{len(paths)} images of {size}x{size} pixels need {needed:.0f} GB of memory, which this machine "
            "does not have: choose a smaller data.image_size or fewer images."
        ) from None

    def fill(index: int) -> UserError | None:
        try:
            images[index] = decode_aloud(paths[index], size, window)
        except UserError as error:
            return error
        return None

    with quiet(), ThreadPoolExecutor(min(8, cores())) as pool:
        outcomes = list(pool.map(fill, range(len(paths))))
    errors = {index: error for index, error in enumerate(outcomes) if error is not None}
    if errors:
        images = images[[index for index in range(len(paths)) if index not in errors]]
    return images, errors


def short_side(source: Path | str | bytes) -> int | None:
    """The shorter side of an image file in pixels, from its header; None if it cannot be read."""
    try:
        with quiet(), _opened(source) as stream, Image.open(stream, formats=_formats()) as image:
            return min(image.size)
    except Exception:  # Pillow can raise anything for a damaged file; `decode` reports it
        return None


def resize(images: Tensor, size: int) -> Tensor:
    """Resize uint8 images (n, 3, height, width) to (n, 3, size, size)."""
    if images.shape[-2:] == (size, size):
        return images
    return functional.interpolate(images, size=(size, size), mode="bicubic", antialias=True)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings about what Pillow repairs or raises an error for; not to be used inside threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def decode_aloud(
    source: ImageSource, size: int, window: Window = WHOLE, *, name: str | None = None
) -> Tensor:
    """As `decode`, but with warnings: threads share them, so the caller uses `quiet` once for all threads."""
    if name is None:
        name = str(source) if isinstance(source, str | Path) else "The image data"
    try:
        if isinstance(source, Image.Image):
            return _seen(source, size, window)
        with _opened(source) as stream, Image.open(stream, formats=_formats()) as image:
            return _seen(image, size, window)
    except FileNotFoundError:
        raise UserError(f"There is no image file {name}: check its name.") from None
    except Image.DecompressionBombError:
        raise UserError(f"{name} has too many pixels to be decoded safely: make it smaller.") from None
    except UnidentifiedImageError:
        raise UserError(f"{name} is not an image that can be read: replace or remove it.") from None
    except Exception as error:  # Pillow can raise anything for a damaged file
        reason = str(getattr(error, "strerror", None) or error or type(error).__name__).rstrip(".")
        raise UserError(f"{name} cannot be read as an image ({reason}): replace or remove it.") from None


def _opened(source: Path | str | bytes) -> BinaryIO:
    return io.BytesIO(source) if isinstance(source, bytes) else open_regular(source, MAX_BYTES)


def _seen(image: Image.Image, size: int, window: Window) -> Tensor:
    """The window of the upright image, resized; a JPEG is decoded at the smallest sufficient size."""
    original, box = image.size, None
    if image.format in _REDUCIBLE:
        box = window(*_upright(original, _turn(image)))
        reduced = min(box[2] - box[0], box[3] - box[1]) // (2 * size)
        if reduced > 1:
            image.draft(None, (image.width // reduced, image.height // reduced))
    pixels = image.width * image.height
    if pixels > MAX_PIXELS:
        raise Image.DecompressionBombError
    with _LARGE if pixels > LARGE else nullcontext():
        image.load()
        turn = _turn(image)
        turned = image if turn is None else image.transpose(turn)
        width, height = _upright(original, turn)
        x, y = (
            turned.width / width,
            turned.height / height,
        )  # below 1 if a JPEG was decoded at a part of its size
        left, top, right, bottom = box or window(width, height)
        scaled = round(left * x), round(top * y), round(right * x), round(bottom * y)
        inside = torch.from_numpy(_rgb(turned, scaled)).permute(2, 0, 1)
        return resize(inside[None], size)[0].contiguous()  # two and a half times as fast as Pillow's


def _upright(size: tuple[int, int], turn: Image.Transpose | None) -> tuple[int, int]:
    """Width and height after the turn."""
    return (size[1], size[0]) if turn in _ASIDE else size


def _turn(image: Image.Image) -> Image.Transpose | None:
    try:
        return _UPRIGHT.get(image.getexif().get(_EXIF_ORIENTATION, 1))
    except Exception:  # a good image with damaged EXIF data is taken as upright
        return None


def _rgb(image: Image.Image, box: Box) -> NDArray[np.uint8]:
    """The box of an image as (height, width, 3), converted band by band: several forms of a whole image that
    has few bytes in its file could take gigabytes."""
    left, top, right, bottom = box
    found = np.empty((bottom - top, right - left, 3), dtype=np.uint8)
    rows = max(1, BAND // (right - left))
    bands = [(start, min(start + rows, bottom)) for start in range(top, bottom, rows)]
    scale = 1
    if image.mode == "F":
        parts = (image.crop((left, start, right, end)) for start, end in bands)
        scale = 255 if max(float(np.nan_to_num(np.asarray(part)).max()) for part in parts) <= 1 else 1
    for start, end in bands:
        found[start - top : end - top] = _band(image.crop((left, start, right, end)), scale)
    return found


def _band(image: Image.Image, scale: int) -> NDArray[np.uint8]:
    """Some rows of an image as RGB; `scale` is what floats are multiplied by."""
    if image.mode.startswith("I"):
        sixteen = np.asarray(image).astype(np.float64).clip(0, 65535)
        image = Image.fromarray((sixteen / 257).round().astype(np.uint8))
    elif image.mode == "F":
        values = np.nan_to_num(np.asarray(image).astype(np.float64))
        image = Image.fromarray((values * scale).clip(0, 255).round().astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
