"""The rehearsal memory: exemplars in the order in which they were selected."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from dytox.data.samples import Samples


@dataclass(frozen=True)
class Exemplars:
    """Samples, the best of each class first, and the number of the memory share that each belongs to."""

    samples: Samples
    shares: Tensor  # (n,)

    def __len__(self) -> int:
        return len(self.samples)

    @staticmethod
    def empty(size: int) -> Exemplars:
        """A memory without exemplars, for images of `size` pixels."""
        images = torch.empty(0, 3, size, size, dtype=torch.uint8)
        nothing = torch.empty(0, dtype=torch.int64)
        return Exemplars(Samples(images, nothing), nothing)

    def shrunk(self, per_share: int) -> Exemplars:
        """Keep the first `per_share` exemplars of each class in each share, which are the best ones."""
        kept = self.ranks() < per_share
        return Exemplars(self.samples.take(kept), self.shares[kept])

    def ranks(self) -> Tensor:
        """The rank of each exemplar among those of its class and share, from 0."""
        seen, ranks = dict[tuple[int, int], int](), []
        for key in zip(self.samples.labels.tolist(), self.shares.tolist(), strict=True):
            ranks.append(seen.get(key, 0))
            seen[key] = ranks[-1] + 1
        return torch.tensor(ranks, dtype=torch.int64)

    def of(self, labels: Collection[int], share: int) -> Samples:
        """The exemplars of these classes in a share."""
        return self.samples.take(self._places(labels) & (self.shares == share))

    def without(self, labels: Collection[int], *, renumber: bool = False) -> Exemplars:
        """The exemplars of all other classes; `renumber` closes the gaps in their labels."""
        others = ~self._places(labels)
        kept = self.samples.without(labels) if renumber else self.samples.take(others)
        return Exemplars(kept, self.shares[others])

    def _places(self, labels: Collection[int]) -> Tensor:
        return torch.isin(self.samples.labels, torch.tensor(list(labels), dtype=torch.int64))

    def extended(self, samples: Samples, share: int) -> Exemplars:
        """Add samples, best first, to a share; the bytes of files are copied into memory."""
        shares = torch.full((len(samples),), share)
        together = Samples.concatenate([self.samples, samples.kept()])
        return Exemplars(together, torch.cat([self.shares, shares]))

    def overlap(self) -> float:
        """The percentage of distinct images that are in more than one share."""
        if not len(self):
            return 0.0
        holders: dict[bytes, set[int]] = {}
        for content, share in zip(self.samples.contents(), self.shares.tolist(), strict=True):
            holders.setdefault(content, set()).add(share)
        return 100.0 * sum(len(shares) > 1 for shares in holders.values()) / len(holders)

    def tensors(self) -> dict[str, Tensor]:
        """Tensors to save."""
        return {**self.samples.tensors(), "shares": self.shares}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor]) -> Exemplars:
        """The inverse of `tensors`; ValueError if the tensors do not fit together."""
        samples, shares = Samples.from_tensors(tensors), tensors["shares"]
        if shares.dtype != torch.int64 or shares.shape != samples.labels.shape:
            raise ValueError("its memory is not one share an image")
        return Exemplars(samples, shares)
