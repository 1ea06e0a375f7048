"""Nearest mean of exemplars: a class is where its mean feature is (iCaRL)."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize


class ClassMeans(nn.Module):
    """The normalised mean feature of each class: buffers, which a method sets and a file keeps."""

    means: Tensor  # (classes, dim)

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(0, dim))

    def expand(self, classes: int) -> None:
        """Room for the means of new classes."""
        self.means = torch.cat([self.means, self.means.new_zeros(classes, self.means.shape[1])])

    def forget(self, places: Collection[int]) -> None:
        """Without these classes."""
        left = [place for place in range(len(self.means)) if place not in places]
        self.means = self.means[left]

    def place(self, means: Tensor) -> None:
        """Puts the means of all classes in their places."""
        assert means.shape == self.means.shape, (means.shape, self.means.shape)
        self.means.copy_(means)

    def forward(self, features: Tensor) -> Tensor:
        """-‖f / ‖f‖ - mean‖² for features (batch, dim): (batch, classes), each on its own, bit by bit."""
        return -(normalize(features)[:, None] - self.means).square().sum(dim=2)
