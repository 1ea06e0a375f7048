"""RandAugment (timm's `rand-m9-mstd0.5-inc1`), batched: each image has its own operations and strengths.

Images are uint8 RGB and square. Every operation gives the result of Pillow, except for an occasional
difference of one level from rounding. The result for an image depends only on the image and its own random
numbers: sums are sums of integers, and sines and cosines, which a vectorised kernel may round differently at
another place in the batch, are computed once, together with the random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dytox.config import RandAugmentConfig
from dytox.data.transfer import sent

FILL = 128  # the level of pixels that come from outside of the image
ROUNDING = 2.0**-8  # larger than the float32 error of resampling: 99.9999 is truncated to 100, as in Pillow


def _auto_contrast(images: Tensor, _: Tensor) -> Tensor:
    low = images.amin((2, 3), keepdim=True).float()
    spread = images.amax((2, 3), keepdim=True).float() - low
    plain = spread == 0  # a channel with one level is not changed
    low, spread = low.masked_fill_(plain, 0), spread.masked_fill_(plain, 255)
    return _cut(
        (images - low).mul_(255).div_(spread)
    )  # all are integers, so the floor of the quotient is exact


def _equalize(images: Tensor, _: Tensor) -> Tensor:
    levels = images.flatten(0, 1).flatten(1).long()  # (n*3, pixels)
    pixels = levels.shape[1]
    histogram = torch.zeros(len(levels), 256, dtype=torch.long, device=images.device)
    histogram.scatter_add_(1, levels, histogram.new_ones(()).expand_as(levels))
    last = histogram.gather(1, levels.amax(1, keepdim=True))  # the count of the highest level
    step = (pixels - last) // 255  # (n*3, 1)
    table = (histogram.cumsum(1) - histogram).add_(step // 2).div_(step.clamp(min=1), rounding_mode="floor")
    table = torch.where(step == 0, torch.arange(256, device=images.device), table.clamp_(max=255))
    return table.to(torch.uint8).gather(1, levels).view_as(images)


def _invert(images: Tensor, _: Tensor) -> Tensor:
    return ~images


def _posterize(images: Tensor, bits: Tensor) -> Tensor:
    dropped = 8 - bits.long()
    return images & (255 >> dropped << dropped).to(torch.uint8)


def _solarize(images: Tensor, threshold: Tensor) -> Tensor:
    above = (images >= threshold.short()).view(torch.uint8)  # the threshold may be 256
    return images ^ above.mul_(255)


def _solarize_add(images: Tensor, added: Tensor) -> Tensor:
    below = (images < 128).view(torch.uint8)
    return images + below.mul_(added.to(torch.uint8))  # at most 127 + 110: no overflow


def _color(images: Tensor, factor: Tensor) -> Tensor:
    levels = images.float()
    return _blend(_luma(levels), levels, factor)


def _contrast(images: Tensor, factor: Tensor) -> Tensor:
    levels = images.float()
    pixels = images.shape[2] * images.shape[3]
    total = _luma(levels).long().sum((1, 2, 3), keepdim=True)
    mean = (2 * total + pixels) // (2 * pixels)  # rounded
    return _blend(mean.float(), levels, factor)


def brightened(images: Tensor, factor: Tensor) -> Tensor:
    """Multiply the levels by a factor and truncate as Pillow does."""
    return _cut(images * factor)


def _sharpness(images: Tensor, factor: Tensor) -> Tensor:
    levels = images.float()
    inner = levels[:, :, 1:-1, 1:-1]  # Pillow's SMOOTH leaves the border as it is
    rows = levels[:, :, :-2] + levels[:, :, 1:-1] + levels[:, :, 2:]
    square = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]  # (n, 3, height - 2, width - 2)
    smooth = square.add_(inner * 4).div_(13).add_(0.5).floor_()
    sharpened = images.clone()
    sharpened[:, :, 1:-1, 1:-1] = _blend(smooth, inner, factor)
    return sharpened


def _luma(levels: Tensor) -> Tensor:
    """The grey level of Pillow, (n, 1, height, width): sums of integers below 2^24, exact in float32."""
    red, green, blue = levels.split(1, dim=1)
    return (red * 19595).add_(green, alpha=38470).add_(blue, alpha=7471).add_(0x8000).div_(0x10000).floor_()


def _blend(start: Tensor, levels: Tensor, factor: Tensor) -> Tensor:
    """Blend from `start` (factor 0) to `levels` (factor 1) and beyond, truncated to integers."""
    return _cut((levels - start).mul_(factor).add_(start))


def _cut(levels: Tensor) -> Tensor:
    """Clamp levels to 0…255 in place and truncate them; the detour over int16 is faster."""
    return levels.clamp_(0, 255).short().to(torch.uint8)


class Argument(NamedTuple):
    """The argument of an operation as a function of its magnitude m: base + slope * m."""

    base: float = 0.0
    slope: float = 0.0
    signed: bool = False  # whether the slope's sign is drawn
    whole: bool = False  # whether slope * m is cut to a whole number


# Neither m nor a factor needs clipping here: m is at most 10, so that 1 - 0.09 m is at least 0.1.
ARGUMENTS = {
    "AutoContrast": Argument(),
    "Equalize": Argument(),
    "Invert": Argument(),
    "Posterize": Argument(base=4, slope=-0.4, whole=True),  # bits kept
    "Solarize": Argument(base=256, slope=-25.6, whole=True),  # threshold
    "SolarizeAdd": Argument(slope=11, whole=True),  # levels added
    "Color": Argument(base=1, slope=0.09, signed=True),  # factor
    "Contrast": Argument(base=1, slope=0.09, signed=True),
    "Brightness": Argument(base=1, slope=0.09, signed=True),
    "Sharpness": Argument(base=1, slope=0.09, signed=True),
    "Rotate": Argument(slope=3, signed=True),  # degrees, counterclockwise
    "ShearX": Argument(slope=0.03, signed=True),  # pixels a row
    "ShearY": Argument(slope=0.03, signed=True),
    "TranslateX": Argument(slope=0.045, signed=True),  # share of the side
    "TranslateY": Argument(slope=0.045, signed=True),
}
OPERATIONS = tuple(ARGUMENTS)  # a drawn operation is a place in it; -1: none
PIXEL_OPERATIONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    *(_auto_contrast, _equalize, _invert, _posterize, _solarize, _solarize_add),
    *(_color, _contrast, brightened, _sharpness),
)  # the first of OPERATIONS; the others are geometric and share one resampling
SHIFTS = {  # what is added to an operation's matrix for each unit of its argument
    "ShearX": (0, 1, 1, 0, 0, 0),  # Pillow's origin is a corner: x + s y is x + s (y + 1) from the centre
    "ShearY": (0, 0, 0, 1, 0, 1),
    "TranslateX": (0, 0, 2, 0, 0, 0),  # the side is 2
    "TranslateY": (0, 0, 0, 0, 0, 2),
}


def arguments(operation: Tensor, magnitude: Tensor, sign: Tensor) -> Tensor:
    """The argument of each operation for its magnitude (0…10) and sign (-1 or 1), all of the same shape."""
    base, slope, signed, whole = torch.tensor(tuple(ARGUMENTS.values()))[operation].unbind(-1)
    change = slope * magnitude
    change = torch.where(whole.bool(), change.trunc(), change)
    return base + torch.where(signed.bool(), sign * change, change)


def matrices(operation: Tensor, argument: Tensor) -> Tensor:
    """The affine maps (..., 6) from output to input pixels: x from a x + b y + c, y from d x + e y + f.

    Coordinates go from -1 to 1 between the edges. Operations that are not geometric have the identity.
    """
    degrees = torch.where(operation == OPERATIONS.index("Rotate"), argument.double(), 0.0)
    cos, sin, zero = degrees.deg2rad().cos(), degrees.deg2rad().sin(), torch.zeros_like(degrees)
    rotation = torch.stack((cos, -sin, zero, sin, cos, zero), dim=-1)
    shift = torch.tensor([SHIFTS.get(name, (0,) * 6) for name in (*OPERATIONS, "none")])[operation]
    return (rotation + shift * argument[..., None]).float()


def resample(images: Tensor, places: Tensor) -> Tensor:
    """Sample levels (float32) bilinearly at `places` (n, [x, y], height, width); -1 and 1 are the edges."""
    grid = places.permute(0, 2, 3, 1)  # (n, height, width, [x, y])
    return F.grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)


def warp(images: Tensor, matrix: Tensor) -> Tensor:
    """Apply the affine maps `matrix` (n, 6) to the images; pixels from outside become FILL."""
    side = images.shape[-1]
    column = torch.arange(1 - side, side, 2, device=images.device) / side  # the pixels' centres
    of_x, of_y, shift = matrix.view(-1, 2, 3, 1, 1).unbind(2)  # (n, 2, 1, 1) each
    places = (of_x * column + shift) + of_y * column[:, None]  # (n, 2, height, width)
    levels = _cut(resample(images, places).add_(ROUNDING))
    x, y = places.short().unbind(1)  # cut to whole numbers: 0 within the image
    inside = torch.logical_or(x, y).logical_not_().view(torch.uint8)[:, None]
    return levels.sub_(FILL).mul_(inside).add_(FILL)


def apply(images: Tensor, operation: Tensor, argument: Tensor, matrix: Tensor) -> Tensor:
    """Apply one operation to each image (n, 3, side, side), given by (n,), (n,) and (n, 6)."""
    order = operation.argsort()
    counts: list[int] = torch.bincount(operation + 1, minlength=len(OPERATIONS) + 1).tolist()
    place = sent(order, images.device)
    argument = sent(argument[order], images.device)[:, None, None, None]
    matrix = sent(matrix[order], images.device)
    images = images.index_select(0, place)  # now the images of one operation are neighbours
    done = counts[0]
    parts = [images[:done]]
    for change, count in zip(PIXEL_OPERATIONS, counts[1:], strict=False):
        if count:
            parts.append(change(images[done : done + count], argument[done : done + count]))
            done += count
    if done < len(images):
        parts.append(warp(images[done:], matrix[done:]))
    return torch.cat(parts).index_select(0, sent(order.argsort(), images.device))


class RandAugment:
    """Draws operations for every image and applies them in rounds."""

    def __init__(self, config: RandAugmentConfig) -> None:
        self.config = config

    def draw(self, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """Draw operations, arguments (count, rounds) and matrices (count, rounds, 6) for `count` images."""
        config, shape = self.config, (count, self.config.operations)
        operation = torch.randint(len(OPERATIONS), shape, generator=generator)
        applied = torch.rand(shape, generator=generator) < config.probability
        magnitude = config.magnitude + config.magnitude_std * torch.randn(shape, generator=generator)
        sign = torch.randint(2, shape, generator=generator) * 2 - 1
        argument = arguments(operation, magnitude.clamp_(0, 10), sign)
        operation = torch.where(applied, operation, -1)
        return {"operation": operation, "argument": argument, "matrix": matrices(operation, argument)}

    def __call__(self, images: Tensor, draws: Mapping[str, Tensor]) -> Tensor:
        """Apply all rounds."""
        for step in range(self.config.operations):
            images = apply(images, *(draws[key][:, step] for key in ("operation", "argument", "matrix")))
        return images
