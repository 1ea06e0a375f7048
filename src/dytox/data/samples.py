"""Images with their labels: what a dataset gives, a task learns from and a memory holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Samples:
    """uint8 RGB images (n, 3, height, width) and int64 labels (n,)."""

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        assert self.images.dtype == torch.uint8, self.images.dtype
        assert self.images.ndim == 4, self.images.shape
        assert self.images.shape[1] == 3, self.images.shape
        assert self.labels.dtype == torch.int64, self.labels.dtype
        assert self.labels.shape == self.images.shape[:1], (self.labels.shape, self.images.shape)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: Tensor) -> Samples:
        """The samples at these places, in this order; or those where a mask is true."""
        return Samples(self.images[indices], self.labels[indices])

    def between(self, first: int, last: int) -> Samples:
        """The samples whose label is at least `first` and below `last`."""
        return self.take(((self.labels >= first) & (self.labels < last)).nonzero().squeeze(1))

    def without(self, labels: Collection[int]) -> Samples:
        """The samples of all other classes, which move up."""
        gone = torch.tensor(sorted(labels), dtype=torch.int64)
        kept = self.take(~torch.isin(self.labels, gone))
        return Samples(kept.images, kept.labels - torch.bucketize(kept.labels, gone))

    def balanced(self) -> Samples:
        """Every class as often as the largest: those of fewer samples are repeated from their first on."""
        counts = torch.bincount(self.labels).tolist()
        most = max(counts, default=0)
        extra = []
        for label, count in enumerate(counts):
            places = (self.labels == label).nonzero().squeeze(1)
            extra.append(places.repeat(most // max(1, count))[: most - count])
        again = torch.cat(extra) if extra else torch.empty(0, dtype=torch.int64)
        return Samples.concatenate([self, self.take(again)]) if len(again) else self

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor]) -> Samples:
        """`images` and `labels` of a file; ValueError for tensors that are none."""
        try:
            return Samples(tensors["images"], tensors["labels"])
        except AssertionError:
            raise ValueError("its images and labels do not fit each other") from None

    @staticmethod
    def concatenate(parts: Sequence[Samples]) -> Samples:
        """All samples of the parts, one part after the other."""
        return Samples(torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts]))


@dataclass(frozen=True)
class Dataset:
    """A training and a test set with the names of their classes: label i is `class_names[i]`."""

    name: str
    train: Samples
    test: Samples
    class_names: tuple[str, ...]
