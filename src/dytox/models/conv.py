"""A small convolutional encoder for small images, made to learn quickly on CPUs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, max_pool2d

from dytox.models.base import Encoder, Encoding
from dytox.models.batchnorm import BatchNorm2d

ConvSize = Literal["tiny", "small", "medium"]


@dataclass(frozen=True)
class _Shape:
    """Channels after the stem and of each stage; the stem merges squares of `patch` pixels a side."""

    stem: int
    channels: tuple[int, ...]
    patch: int


_SHAPES: dict[ConvSize, _Shape] = {
    "tiny": _Shape(32, (64, 128), patch=1),  # images of 8 pixels: 16 tokens, 11 million multiplications
    "small": _Shape(32, (64, 128, 256), patch=2),  # images of 32 pixels: 16 tokens, 71 million
    "medium": _Shape(64, (96, 192, 384), patch=2),  # images of 32 pixels: 16 tokens, 163 million
}


class Layer(nn.Module):
    """GELU(BatchNorm(convolution)); without the GELU if not `activated`."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        size: int = 3,
        stride: int = 1,
        padding: int = 1,
        activated: bool = True,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride=stride, padding=padding, bias=False)
        self.norm = BatchNorm2d(outputs)
        self.activated = activated

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x))
        return gelu(x) if self.activated else x


class Stage(nn.Module):
    """A layer that widens the map, then x + layer(layer(x)); a later stage halves the side before."""

    def __init__(self, inputs: int, outputs: int, *, halved: bool) -> None:
        super().__init__()
        self.halved = halved
        self.widen = Layer(inputs, outputs)
        self.inner, self.outer = Layer(outputs, outputs), Layer(outputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.widen(max_pool2d(x, 2) if self.halved else x)
        return x + self.outer(self.inner(x))


class ConvEncoder(Encoder):
    """Images as one token for each place of the last map.

    The stem merges squares of pixels, and the side halves between two stages. All maps are channels-last,
    which convolutions on CPUs are fastest with. Without `last_activation` features may be negative.
    """

    def __init__(self, size: ConvSize = "small", *, last_activation: bool = True) -> None:
        super().__init__()
        shape = _SHAPES[size]
        self.dim = shape.channels[-1]
        self.stem = Layer(3, shape.stem, size=shape.patch, stride=shape.patch, padding=0)
        widths = (shape.stem, *shape.channels)
        stages = [
            Stage(inputs, outputs, halved=place > 0)
            for place, (inputs, outputs) in enumerate(pairwise(widths))
        ]
        stages[-1].outer.activated = last_activation
        self.stages = nn.ModuleList(stages)

    def forward(self, images: Tensor, keep: Tensor | None = None) -> Encoding:
        x, maps = self.stem(images.contiguous(memory_format=torch.channels_last)), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return Encoding.of_maps(maps)
