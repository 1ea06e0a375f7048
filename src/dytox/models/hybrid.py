"""A ResNet in the place of the SABs (the paper's appendix, after Dosovitskiy's hybrid)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

from dytox.models.batchnorm import BatchNorm2d
from dytox.models.resnet import SHAPES, Name, ResNet, Stem

STAGES = 3


class HybridEncoder(nn.Module):
    """ResNet18 without its fourth stage, a pointwise convolution, BatchNorm and ReLU: a token a place.

    Smaller networks have three stages, all of which stay.
    """

    def __init__(self, dim: int, *, network: Name = "resnet18", stem: Stem = "small") -> None:
        super().__init__()
        whole = ResNet(network, stem=stem)
        self.stem, self.stages = whole.stem, whole.stages[:STAGES]
        self.proj = nn.Conv2d(SHAPES[network].channels[STAGES - 1], dim, kernel_size=1)
        self.norm = BatchNorm2d(dim)

    def forward(self, images: Tensor, keep: Tensor | None = None) -> Tensor:
        """Images as tokens (batch, places, dim); it has no branch to drop."""
        x = self.stem(images)
        for stage in self.stages:
            x = stage(x)
        x = relu(self.norm(self.proj(x)))  # (batch, dim, height, width)
        return x.flatten(2).transpose(1, 2)
