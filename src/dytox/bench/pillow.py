"""Augmentation as the paper's code does it: an image at a time, with Pillow. It takes the draws of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from dytox.data.randaugment import FILL, OPERATIONS

Operation = Callable[[Image.Image, float], Image.Image]


def augment(
    images: Tensor, draws: Mapping[str, Tensor], *, pad: int, mean: Sequence[float], std: Sequence[float]
) -> Tensor:
    """uint8 (n, 3, side, side) -> normalised float32 of the same shape."""
    return torch.stack([_one(image, draws, i, pad, mean, std) for i, image in enumerate(images)])


def _one(
    pixels: Tensor,
    draws: Mapping[str, Tensor],
    place: int,
    pad: int,
    mean: Sequence[float],
    std: Sequence[float],
) -> Tensor:
    image, side = Image.fromarray(pixels.permute(1, 2, 0).numpy()), pixels.shape[-1]
    if "offset" in draws:
        top, left = draws["offset"][place].tolist()
        image = ImageOps.expand(image, pad).crop((left, top, left + side, top + side))
    if draws["flip"][place]:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if "operation" in draws:
        rounds = zip(draws["operation"][place].tolist(), draws["argument"][place].tolist(), strict=True)
        for operation, argument in rounds:
            if operation >= 0:
                image = PILLOW[OPERATIONS[operation]](image, argument)
    levels = np.asarray(image, np.float32) / 255
    normed = (levels - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return torch.from_numpy(normed).permute(2, 0, 1)


def _affine(image: Image.Image, *matrix: float) -> Image.Image:
    return image.transform(
        image.size,
        Image.Transform.AFFINE,
        matrix,
        resample=Image.Resampling.BILINEAR,
        fillcolor=(FILL, FILL, FILL),
    )


def _rotate(image: Image.Image, degrees: float) -> Image.Image:
    return image.rotate(degrees, resample=Image.Resampling.BILINEAR, fillcolor=(FILL, FILL, FILL))


def _posterize(image: Image.Image, bits: float) -> Image.Image:
    kept = int(bits)  # of which Pillow refuses none at all, once an image of black
    return ImageOps.posterize(image, kept) if kept else image.point([0] * 768)


def _solarize_add(image: Image.Image, added: float) -> Image.Image:
    table = [min(255, level + int(added)) if level < 128 else level for level in range(256)]
    return image.point(table * 3)


PILLOW: dict[str, Operation] = {
    "AutoContrast": lambda image, _: ImageOps.autocontrast(image),
    "Equalize": lambda image, _: ImageOps.equalize(image),
    "Invert": lambda image, _: ImageOps.invert(image),
    "Posterize": _posterize,
    "Solarize": lambda image, threshold: ImageOps.solarize(image, int(threshold)),
    "SolarizeAdd": _solarize_add,
    "Color": lambda image, factor: ImageEnhance.Color(image).enhance(factor),
    "Contrast": lambda image, factor: ImageEnhance.Contrast(image).enhance(factor),
    "Brightness": lambda image, factor: ImageEnhance.Brightness(image).enhance(factor),
    "Sharpness": lambda image, factor: ImageEnhance.Sharpness(image).enhance(factor),
    "Rotate": _rotate,
    "ShearX": lambda image, shear: _affine(image, 1, shear, 0, 0, 1, 0),
    "ShearY": lambda image, shear: _affine(image, 1, 0, 0, shear, 1, 0),
    "TranslateX": lambda image, share: _affine(image, 1, 0, share * image.width, 0, 1, 0),
    "TranslateY": lambda image, share: _affine(image, 1, 0, 0, 0, 1, share * image.height),
}
