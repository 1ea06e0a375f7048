"""How training images are varied: crop, flip, brightness, RandAugment, normalise, each image on its own.

A batch is varied at once, on the device it is on. All random numbers are drawn beforehand, on the CPU and for
the whole global batch; a process takes its rows of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dytox.config import AugmentConfig
from dytox.data.randaugment import RandAugment, brightened, resample
from dytox.data.transfer import sent

ASPECTS = (3 / 4, 4 / 3)  # width / height of a resized crop
ATTEMPTS = 10  # windows drawn for a resized crop, of which the first that fits is taken


class Augmentation:
    """Varies training images, each on its own, in one batch on the device the images are on."""

    def __init__(self, config: AugmentConfig, *, mean: Sequence[float], std: Sequence[float]) -> None:
        self.config = config
        self.mean, self.std = tuple(mean), tuple(std)
        self.randaugment = None if config.randaugment is None else RandAugment(config.randaugment)

    def draw(self, generator: torch.Generator, count: int, size: int | None) -> dict[str, Tensor]:
        """All random numbers for `count` images of side `size`; every tensor's first dimension is `count`.

        Without a size the images were cropped when they were decoded (`draw_crops`).
        """
        config = self.config
        draws = {"flip": torch.rand(count, generator=generator) < config.flip}
        if config.resized_crop is not None:
            if size is not None:
                crops = draw_crops(generator, count)
                draws["window"] = windows(crops, size, size, area=config.resized_crop).float()
        elif config.pad:
            draws["offset"] = torch.randint(2 * config.pad + 1, (count, 2), generator=generator)
        if config.brightness:
            spread = torch.rand(count, generator=generator) * 2 - 1
            draws["brightness"] = 1 + config.brightness * spread
        if self.randaugment is not None:
            draws |= self.randaugment.draw(generator, count)
        return draws

    def __call__(self, images: Tensor, draws: Mapping[str, Tensor]) -> Tensor:
        """uint8 (n, 3, side, side) -> normalised float32 of the same shape."""
        assert images.dtype == torch.uint8, images.dtype
        assert images.shape[2] == images.shape[3], images.shape
        if len(images):
            with torch.inference_mode():  # a tenth faster; the result below is an ordinary tensor again
                images = self._vary(images, draws)
        return normalise(images, self.mean, self.std)

    def _vary(self, images: Tensor, draws: Mapping[str, Tensor]) -> Tensor:
        if "window" in draws:
            images = resized_crop(images, sent(draws["window"], images.device))
        elif "offset" in draws:
            images = padded_crop(images, sent(draws["offset"], images.device), pad=self.config.pad)
        images = flip(images, sent(draws["flip"], images.device))
        if self.config.brightness:
            images = brightened(images, sent(draws["brightness"], images.device)[:, None, None, None])
        return images if self.randaugment is None else self.randaugment(images, draws)


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """uint8 (n, 3, height, width) -> float32: scaled to 0...1, less the mean, divided by the deviation."""
    centre, spread = (sent(torch.tensor(each), images.device).view(3, 1, 1) for each in (mean, std))
    return images.float().div_(255).sub_(centre).div_(spread)


def padded_crop(images: Tensor, offset: Tensor, *, pad: int) -> Tensor:
    """A window of the image's size from each image padded with black; `offset` (n, 2): its top and left."""
    n, channels, side, _ = images.shape
    padded = F.pad(images, (pad, pad, pad, pad))
    width = side + 2 * pad
    first = (offset[:, 0] * width + offset[:, 1]).view(n, 1, 1)
    row = torch.arange(side, device=images.device) * width
    plane = torch.arange(n * channels, device=images.device).view(n, channels, 1) * width**2
    runs = padded.flatten().unfold(0, side, 1)  # (pixels, side): the run of pixels that starts at each
    return runs.index_select(0, (plane + first + row).flatten()).view_as(images)


def draw_crops(generator: torch.Generator, count: int) -> Tensor:
    """The random numbers of resized crops, (count, attempts, 4), whatever the images' sizes."""
    drawn = torch.rand(4, count, ATTEMPTS, generator=generator, dtype=torch.float64)
    return drawn.permute(1, 2, 0)


def windows(crops: Tensor, height: int, width: int, *, area: Sequence[float]) -> Tensor:
    """Top, left, height, width (count, 4) of windows with a random share of the area and a random aspect.

    Should no attempt fit, it is the largest window in the middle with an aspect within the range.
    """
    share, shape, down, across = np.moveaxis(crops.numpy(), -1, 0)  # (count, attempts); for one image faster
    pixels = height * width * (area[0] + (area[1] - area[0]) * share)
    aspect = np.exp(log(ASPECTS[0]) + (log(ASPECTS[1]) - log(ASPECTS[0])) * shape)
    w = np.maximum(np.sqrt(pixels * aspect).round(), 1)
    h = np.maximum(np.sqrt(pixels / aspect).round(), 1)
    drawn = np.stack((np.floor((height - h + 1) * down), np.floor((width - w + 1) * across), h, w), axis=-1)
    fits = (w <= width) & (h <= height)
    first = drawn[np.arange(len(crops)), fits.argmax(axis=1)]
    most = (min(height, round(width / ASPECTS[0])), min(width, round(height * ASPECTS[1])))
    middle = np.array([(height - most[0]) // 2, (width - most[1]) // 2, *most], dtype=np.float64)
    return torch.from_numpy(np.where(fits.any(axis=1, keepdims=True), first, middle))


def resized_crop(images: Tensor, window: Tensor) -> Tensor:
    """Each image's window, brought back to the image's size; `window` (n, 4): top, left, height, width."""
    side = images.shape[-1]
    top, left, height, width = window[:, :, None].unbind(1)  # (n, 1) each
    centres = (torch.arange(side, device=images.device) + 0.5) / side
    y = torch.clamp(top + centres * height, top + 0.5, top + height - 0.5)  # nothing from beyond the window
    x = torch.clamp(left + centres * width, left + 0.5, left + width - 0.5)
    shape = (len(images), side, side)
    x, y = x * 2 / side - 1, y * 2 / side - 1
    places = torch.stack((x[:, None, :].expand(shape), y[:, :, None].expand(shape)), dim=1)
    return resample(images, places).round_().short().to(torch.uint8)  # over int16 it is faster


def flip(images: Tensor, flipped: Tensor) -> Tensor:
    """The images, mirrored left to right where `flipped` (n,) says so."""
    place = torch.arange(len(images), device=images.device) + len(images) * flipped
    return torch.cat((images, images.flip(-1))).index_select(0, place)
