"""The memory itself: exemplars in the order in which they were wanted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from dytox.data.samples import Samples


@dataclass(frozen=True)
class Exemplars:
    """Samples, the best of each class first, and the share of the memory that each belongs to."""

    samples: Samples
    shares: Tensor  # (n,)

    def __len__(self) -> int:
        return len(self.samples)

    @staticmethod
    def empty(size: int) -> Exemplars:
        """No exemplars yet, of images of this side."""
        images = torch.empty(0, 3, size, size, dtype=torch.uint8)
        nothing = torch.empty(0, dtype=torch.int64)
        return Exemplars(Samples(images, nothing), nothing)

    def shrunk(self, per_share: int) -> Exemplars:
        """The first so many of each class in each share: selection order makes it a prefix."""
        kept = self.ranks() < per_share
        return Exemplars(self.samples.take(kept), self.shares[kept])

    def ranks(self) -> Tensor:
        """The place of each exemplar among those of its class and share, from 0 on."""
        seen, ranks = dict[tuple[int, int], int](), []
        for key in zip(self.samples.labels.tolist(), self.shares.tolist(), strict=True):
            ranks.append(seen.get(key, 0))
            seen[key] = ranks[-1] + 1
        return torch.tensor(ranks, dtype=torch.int64)

    def of(self, labels: Collection[int], share: int) -> Samples:
        """The exemplars of these classes in a share."""
        return self.samples.take(self._places(labels) & (self.shares == share))

    def without(self, labels: Collection[int], *, renumber: bool = False) -> Exemplars:
        """The exemplars of all other classes, which may move up."""
        others = ~self._places(labels)
        kept = self.samples.without(labels) if renumber else self.samples.take(others)
        return Exemplars(kept, self.shares[others])

    def _places(self, labels: Collection[int]) -> Tensor:
        return torch.isin(self.samples.labels, torch.tensor(list(labels), dtype=torch.int64))

    def extended(self, samples: Samples, share: int) -> Exemplars:
        """With these samples, best first, added to a share; of files it keeps the bytes."""
        shares = torch.full((len(samples),), share)
        together = Samples.concatenate([self.samples, samples.kept()])
        return Exemplars(together, torch.cat([self.shares, shares]))

    def overlap(self) -> float:
        """How many of the distinct images more than one share holds, in percent."""
        if not len(self):
            return 0.0
        holders: dict[bytes, set[int]] = {}
        for content, share in zip(self.samples.contents(), self.shares.tolist(), strict=True):
            holders.setdefault(content, set()).add(share)
        return 100.0 * sum(len(shares) > 1 for shares in holders.values()) / len(holders)

    def tensors(self) -> dict[str, Tensor]:
        """As plain tensors, for a file."""
        return {**self.samples.tensors(), "shares": self.shares}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor]) -> Exemplars:
        """From what `tensors` gave; ValueError for tensors that are none."""
        samples, shares = Samples.from_tensors(tensors), tensors["shares"]
        if shares.dtype != torch.int64 or shares.shape != samples.labels.shape:
            raise ValueError("its memory is not one share an image")
        return Exemplars(samples, shares)
