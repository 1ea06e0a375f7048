"""Images with their labels: the content of datasets, tasks and the memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from dytox.data import decoding
from dytox.data.encoded import Encoded

Stored: TypeAlias = Tensor | Encoded


@dataclass(frozen=True)
class Samples:
    """Images and int64 labels (n,). The images are uint8 RGB (n, 3, height, width), or still encoded."""

    images: Stored
    labels: Tensor

    def __post_init__(self) -> None:
        if isinstance(self.images, Tensor):
            assert self.images.dtype == torch.uint8, self.images.dtype
            assert self.images.ndim == 4, self.images.shape
            assert self.images.shape[1] == 3, self.images.shape
        assert self.labels.dtype == torch.int64, self.labels.dtype
        assert self.labels.shape == (len(self.images),), (self.labels.shape, len(self.images))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def size(self) -> int:
        """The width and height of the images in pixels."""
        return self.images.shape[-1] if isinstance(self.images, Tensor) else self.images.size

    def pixels(self) -> Tensor:
        """All images, decoded to uint8 RGB (n, 3, height, width); may need much memory."""
        return self.images if isinstance(self.images, Tensor) else decoding.pixels(self.images)

    def contents(self) -> list[bytes]:
        """The bytes of each image: its pixels, or its file if it is encoded."""
        if isinstance(self.images, Encoded):
            return self.images.contents()
        return [image.numpy().tobytes() for image in self.images.contiguous()]

    def kept(self) -> Samples:
        """A copy that does not need any file."""
        return replace(self, images=self.images.kept()) if isinstance(self.images, Encoded) else self

    def take(self, indices: Tensor) -> Samples:
        """The samples at these indices, in this order, or those where a mask is true."""
        return Samples(self.images[indices], self.labels[indices])

    def relabelled(self, labels: Tensor) -> Samples:
        """The same images with other labels."""
        return replace(self, labels=labels)

    def between(self, first: int, last: int) -> Samples:
        """The samples whose label is at least `first` and below `last`."""
        return self.take(((self.labels >= first) & (self.labels < last)).nonzero().squeeze(1))

    def without(self, labels: Collection[int]) -> Samples:
        """The samples of all other classes, with labels renumbered to close the gaps."""
        gone = torch.tensor(sorted(labels), dtype=torch.int64)
        kept = self.take(~torch.isin(self.labels, gone))
        return kept.relabelled(kept.labels - torch.bucketize(kept.labels, gone))

    def balanced(self) -> Samples:
        """Give every class as many samples as the largest one, by repeating samples from the first one on."""
        counts = torch.bincount(self.labels).tolist()
        most = max(counts, default=0)
        extra = []
        for label, count in enumerate(counts):
            places = (self.labels == label).nonzero().squeeze(1)
            extra.append(places.repeat(most // max(1, count))[: most - count])
        again = torch.cat(extra) if extra else torch.empty(0, dtype=torch.int64)
        return Samples.concatenate([self, self.take(again)]) if len(again) else self

    def tensors(self) -> dict[str, Tensor]:
        """Tensors to save, without loss."""
        images = {"images": self.images} if isinstance(self.images, Tensor) else self.images.tensors()
        return {**images, "labels": self.labels}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor]) -> Samples:
        """The inverse of `tensors`; ValueError if the tensors do not fit together."""
        images = tensors["images"] if "images" in tensors else Encoded.from_tensors(tensors)
        try:
            return Samples(images, tensors["labels"])
        except AssertionError:
            raise ValueError("its images and labels do not fit each other") from None

    @staticmethod
    def concatenate(parts: Sequence[Samples]) -> Samples:
        """Concatenate samples; the result is encoded if all parts that have samples are."""
        labels = torch.cat([part.labels for part in parts])
        images = [part.images for part in parts if len(part)] or [parts[0].images]
        encoded = [each for each in images if isinstance(each, Encoded)]
        if len(encoded) == len(images):
            return Samples(Encoded.concatenate(encoded), labels)
        return Samples(torch.cat([part.pixels() for part in parts]), labels)


@dataclass(frozen=True)
class Dataset:
    """A training and a test set with the names of their classes: label i is `class_names[i]`."""

    name: str
    train: Samples
    test: Samples
    class_names: tuple[str, ...]
