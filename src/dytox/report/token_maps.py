"""Attention of the task tokens over test images: dark where a token does not attend."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass
from html import escape

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from dytox.report import style
from dytox.report.record import Record

SIDE = 96  # largest side of an image, in pixels
COARSE = 48  # smaller images are enlarged without smoothing
TOKENS = 64  # at most this many tokens are shown, evenly spaced
DARKEST = 0.85  # opacity of the shade where the attention is zero

Map = NDArray[np.float64]


@dataclass(frozen=True)
class AttentionImage:
    """A test image with its class, its predicted class and the attention of each token."""

    image: Image.Image
    name: str
    taken_for: str | None
    numbers: list[int]  # of the tokens, from 1
    maps: Map  # (tokens, side, side), each with a maximum of 1

    @property
    def caption(self) -> str:
        """The class, and the predicted class where it is another one."""
        wrong = self.taken_for not in (None, self.name)
        return f"{self.name}, taken for {self.taken_for}" if wrong else self.name


def attention_images(record: Record) -> list[AttentionImage]:
    """Return the test images that the run kept; an empty list where its method has no such attention."""
    found = record.evaluation
    attention, images = found.get("attention"), found.get("images")
    if attention is None or images is None or math.isqrt(attention.shape[-1]) ** 2 != attention.shape[-1]:
        return []
    side, tokens = math.isqrt(attention.shape[-1]), attention.shape[1]
    chosen = np.unique(np.linspace(0, tokens - 1, min(tokens, TOKENS)).astype(int)).tolist()
    maps = attention[:, chosen].double().numpy().reshape(len(images), len(chosen), side, side)
    maps = maps / np.maximum(maps.max(axis=(2, 3), keepdims=True), 1e-12)
    pixels = images.permute(0, 2, 3, 1).contiguous().numpy()
    taken: list[str | None] = [None] * len(pixels)
    if "image_places" in found:
        taken = [record.class_name(int(label)) for label in found["top_classes"][found["image_places"], 0]]
    names = [record.class_name(int(label)) for label in found["image_labels"]]
    return [
        AttentionImage(_small(Image.fromarray(picture)), name, wrong, [number + 1 for number in chosen], each)
        for picture, name, wrong, each in zip(pixels, names, taken, maps, strict=True)
    ]


def shade(attention: Map) -> Image.Image:
    """Return a black image, more opaque where the attention is smaller: one pixel per patch."""
    looked = np.clip(np.nan_to_num(attention), 0, 1) ** 0.7  # dark greys are hard to tell apart
    alpha = Image.fromarray((255 * DARKEST * (1 - looked)).astype(np.uint8))
    return Image.merge("LA", (Image.new("L", alpha.size), alpha))


def image_strip(image: AttentionImage, name: str) -> str:
    """Return HTML of the image, and of the same image under each token's shade with the token's number."""
    coarse = ' style="image-rendering:pixelated"' if image.image.width < COARSE else ""
    whole = f'<image id="{name}" width="1" height="1"{coarse} href="{_data_uri(image.image)}"/>'
    cells = []
    for number, attention in zip(image.numbers, image.maps, strict=True):
        over = f'<image width="1" height="1" href="{_data_uri(shade(attention))}"/>'
        cells.append(f'{_SVG}<use href="#{name}"/>{over}<text x=".06" y=".94">{number}</text></svg>')
    tokens = f'<div class="tokens">{"".join(cells)}</div>'
    return f'<div><h3>{escape(image.caption)}</h3><div class="strip">{_SVG}{whole}</svg>{tokens}</div></div>'


def attention_sheet(images: list[AttentionImage]) -> Figure:
    """Draw a row for each image and a column for each token."""
    tokens, step = len(images[0].numbers), SIDE + 8
    sheet = Image.new("RGB", (step * (tokens + 1), step * len(images)), style.LIGHT["surface"])
    for row, image in enumerate(images):
        for column, attention in enumerate([None, *image.maps]):
            sheet.paste(_under(image, attention), (column * step, row * step))
    with style.styled():
        drawn = style.figure(max(420, 66 * (tokens + 1) + 130), 66 * len(images) + 60)
        axes = drawn.add_subplot()
        axes.imshow(np.asarray(sheet), interpolation="antialiased")
        axes.grid(False)
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        middles = [place * step + SIDE / 2 for place in range(max(tokens + 1, len(images)))]
        heads = [f"token {number}" if tokens <= 10 else str(number) for number in images[0].numbers]
        axes.set_xticks(middles[: tokens + 1], ["image", *heads])
        axes.set_yticks(middles[: len(images)], [image.name for image in images])
    return drawn


def _under(image: AttentionImage, attention: Map | None) -> Image.Image:
    size = (SIDE, SIDE)
    base = image.image.resize(size, Image.Resampling.NEAREST).convert("RGBA")
    if attention is not None:
        base.alpha_composite(shade(attention).resize(size, Image.Resampling.BILINEAR).convert("RGBA"))
    return base.convert("RGB")


def _small(image: Image.Image) -> Image.Image:
    if max(image.size) > SIDE:
        image.thumbnail((SIDE, SIDE))
    return image


def _data_uri(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


_SVG = '<svg viewBox="0 0 1 1">'
