"""Augmentation of training images: crop, flip, brightness, RandAugment, then normalisation.

A batch is augmented as a whole on its device, each image with its own random numbers. These are drawn
beforehand on the CPU for the whole global batch, and each process takes its own rows of them.
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
ATTEMPTS = 10  # windows drawn for a resized crop; the first one that fits is used


class Augmentation:
    """Augments and normalises a batch of training images on the device that they are on."""

    def __init__(self, config: AugmentConfig, *, mean: Sequence[float], std: Sequence[float]) -> None:
        self.config = config
        self.mean, self.std = tuple(mean), tuple(std)
        self.randaugment = None if config.randaugment is None else RandAugment(config.randaugment)

    def draw(self, generator: torch.Generator, count: int, size: int | None) -> dict[str, Tensor]:
        """Draw all random numbers for `count` images of `size` pixels; the first dimension is `count`.

        `size` is None for images that were cropped when they were decoded (`draw_crops`).
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
        """Augment uint8 images (n, 3, side, side); the result is normalised float32 of the same shape."""
        assert images.dtype == torch.uint8, images.dtype
        assert images.shape[2] == images.shape[3], images.shape
        if len(images):
            with torch.inference_mode():  # a tenth faster; normalise() returns an ordinary tensor
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
    """Scale uint8 images (n, 3, height, width) to 0…1 float32, subtract `mean` and divide by `std`."""
    centre, spread = (sent(torch.tensor(each), images.device).view(3, 1, 1) for each in (mean, std))
    return images.float().div_(255).sub_(centre).div_(spread)


def padded_crop(images: Tensor, offset: Tensor, *, pad: int) -> Tensor:
    """Pad each image with black and cut out a window of its original size at `offset` (n, [top, left])."""
    n, channels, side, _ = images.shape
    padded = F.pad(images, (pad, pad, pad, pad))
    width = side + 2 * pad
    first = (offset[:, 0] * width + offset[:, 1]).view(n, 1, 1)
    row = torch.arange(side, device=images.device) * width
    plane = torch.arange(n * channels, device=images.device).view(n, channels, 1) * width**2
    runs = padded.flatten().unfold(0, side, 1)  # (pixels, side): the `side` pixels that start at each place
    return runs.index_select(0, (plane + first + row).flatten()).view_as(images)


def draw_crops(generator: torch.Generator, count: int) -> Tensor:
    """Draw the random numbers of resized crops, (count, attempts, 4); they fit images of any size."""
    drawn = torch.rand(4, count, ATTEMPTS, generator=generator, dtype=torch.float64)
    return drawn.permute(1, 2, 0)


def windows(crops: Tensor, height: int, width: int, *, area: Sequence[float]) -> Tensor:
    """Turn random numbers into windows (count, [top, left, height, width]) of an image of this size.

    A window covers a random share of the image, within `area`, with a random aspect ratio. If no attempt
    fits, the window is the largest one in the middle with an allowed aspect ratio.
    """
    share, shape, down, across = np.moveaxis(
        crops.numpy(), -1, 0
    )  # (count, attempts); numpy is faster than torch for one image
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
    """Resize the window (n, [top, left, height, width]) of each image to the size of the image."""
    side = images.shape[-1]
    top, left, height, width = window[:, :, None].unbind(1)  # (n, 1) each
    centres = (torch.arange(side, device=images.device) + 0.5) / side
    y = torch.clamp(
        top + centres * height, top + 0.5, top + height - 0.5
    )  # never sample outside of the window
    x = torch.clamp(left + centres * width, left + 0.5, left + width - 0.5)
    shape = (len(images), side, side)
    x, y = x * 2 / side - 1, y * 2 / side - 1
    places = torch.stack((x[:, None, :].expand(shape), y[:, :, None].expand(shape)), dim=1)
    return resample(images, places).round_().short().to(torch.uint8)  # the detour over int16 is faster


def flip(images: Tensor, flipped: Tensor) -> Tensor:
    """Mirror the images for which `flipped` (n,) is true from left to right."""
    place = torch.arange(len(images), device=images.device) + len(images) * flipped
    return torch.cat((images, images.flip(-1))).index_select(0, place)
