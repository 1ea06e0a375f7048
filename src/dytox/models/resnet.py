"""Residual networks (He et al., 2016), whose BatchNorm sees the global batch, and the hybrid encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, relu

from dytox.models.base import Encoder, Encoding
from dytox.models.batchnorm import BatchNorm2d

Stem = Literal["small", "large"]
Name = Literal["resnet8", "resnet18", "resnet32"]


@dataclass(frozen=True)
class Shape:
    """Channels and blocks of each stage; whether a shortcut that changes shape is a convolution."""

    channels: tuple[int, ...]
    blocks: tuple[int, ...]
    projected: bool


SHAPES: dict[Name, Shape] = {
    "resnet8": Shape((16, 32, 64), (1, 1, 1), projected=False),
    "resnet18": Shape((64, 128, 256, 512), (2, 2, 2, 2), projected=True),
    "resnet32": Shape((16, 32, 64), (5, 5, 5), projected=False),
}


class Padded(nn.Module):
    """A shortcut without weights: every second pixel, and zeros for the channels that are new."""

    def __init__(self, added: int, stride: int) -> None:
        super().__init__()
        self.added, self.stride = added, stride

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width), with more channels out."""
        before = self.added // 2
        return pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.added - before))


def convolution(inputs: int, outputs: int, *, size: int = 3, stride: int = 1) -> nn.Conv2d:
    """Without a bias, as a BatchNorm follows."""
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


class Block(nn.Module):
    """y = relu(x + bn(conv(relu(bn(conv(x)))))); the last of a network may leave the outer relu out."""

    def __init__(
        self, inputs: int, outputs: int, *, stride: int = 1, projected: bool = True, last_relu: bool = True
    ) -> None:
        super().__init__()
        self.conv1 = convolution(inputs, outputs, stride=stride)
        self.bn1 = BatchNorm2d(outputs)
        self.conv2 = convolution(outputs, outputs)
        self.bn2 = BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if projected and (stride > 1 or inputs != outputs):
            conv = convolution(inputs, outputs, size=1, stride=stride)
            self.shortcut = nn.Sequential(conv, BatchNorm2d(outputs))
        elif stride > 1 or inputs != outputs:
            self.shortcut = Padded(outputs - inputs, stride)
        self.last_relu = last_relu

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width), with the block's channels out."""
        inner = self.bn2(self.conv2(relu(self.bn1(self.conv1(x)))))
        summed = inner + self.shortcut(x)
        return relu(summed) if self.last_relu else summed


class ResNet(Encoder):
    """A residual network without its classifier, with the map at the end of each stage.

    `stem`: small, a 3×3 convolution for images of about 32 pixels; large, 7×7 with stride 2 and a max-pool.
    Without `last_relu` features, and the last map, may be negative.
    """

    def __init__(self, name: Name, *, stem: Stem = "small", last_relu: bool = True) -> None:
        super().__init__()
        shape = SHAPES[name]
        first, self.dim = shape.channels[0], shape.channels[-1]
        large = stem == "large"
        self.stem = nn.Sequential(
            convolution(3, first, size=7 if large else 3, stride=2 if large else 1),
            BatchNorm2d(first),
            nn.ReLU(),
            *([nn.MaxPool2d(3, stride=2, padding=1)] if large else []),
        )
        self.stages = nn.ModuleList()
        inputs = first
        for place, (outputs, count) in enumerate(zip(shape.channels, shape.blocks, strict=True)):
            blocks = []
            for each in range(count):
                stride = 2 if place and not each else 1
                blocks.append(Block(inputs, outputs, stride=stride, projected=shape.projected))
                inputs = outputs
            self.stages.append(nn.Sequential(*blocks))
        blocks[-1].last_relu = last_relu
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        """He's initialisation; every block starts as its shortcut, as its last BatchNorm gives zeros."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, Block):
                nn.init.zeros_(module.bn2.weight)

    def forward(self, images: Tensor, keep: Tensor | None = None) -> Encoding:
        """The maps of all stages; the places of the last are its tokens."""
        x, maps = self.stem(images.contiguous(memory_format=torch.channels_last)), []  # faster on CPUs
        for stage in self.stages:
            x = stage(x)
            maps.append(x)  # (batch, channels, height, width)
        return Encoding.of_maps(maps)


HYBRID_STAGES = 3


class HybridEncoder(Encoder):
    """ResNet18 without its fourth stage, a pointwise convolution, BatchNorm and ReLU: a token for each place.

    Smaller networks have three stages, all of which stay. (The paper's appendix, after Dosovitskiy's hybrid.)
    """

    def __init__(self, dim: int, *, network: Name = "resnet18", stem: Stem = "small") -> None:
        super().__init__()
        self.dim = dim
        whole = ResNet(network, stem=stem)
        self.stem, self.stages = whole.stem, whole.stages[:HYBRID_STAGES]
        self.proj = nn.Conv2d(SHAPES[network].channels[HYBRID_STAGES - 1], dim, kernel_size=1)
        self.norm = BatchNorm2d(dim)

    def forward(self, images: Tensor, keep: Tensor | None = None) -> Encoding:
        """The maps of all stages and of the convolution, whose places are the tokens."""
        x, maps = self.stem(images), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return Encoding.of_maps([*maps, relu(self.norm(self.proj(x)))])
