"""Batches as a function of position: which images, varied how, mixed with which.

Everything random is drawn for the whole global batch, of which a process takes its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dytox.config import PhaseConfig
from dytox.data.augment import Augmentation
from dytox.data.samples import Samples
from dytox.randomness import Position, generator, seed_of


@dataclass(frozen=True)
class Batch:
    """One process's rows of a global batch. Without MixUp a sample is its own partner."""

    images: Tensor  # (rows, 3, height, width), normalised
    labels: Tensor  # (rows,)
    partners: Tensor  # (rows,): the label that was mixed in
    shares: Tensor  # (rows,): the share of the own label
    draws: Mapping[str, Tensor] = field(default_factory=dict)  # the model's random numbers
    phase: str = ""

    @staticmethod
    def plain(images: Tensor, labels: Tensor, *, phase: str = "") -> Batch:
        """Images as they are."""
        return Batch(images, labels, labels, torch.ones(len(labels)), phase=phase)

    def targets(self, classes: int, *, smoothing: float = 0.0) -> Tensor:
        """Soft targets (rows, classes), with `smoothing` of their mass spread evenly."""
        share = self.shares.to(self.images)[:, None]
        mixture = share * one_hot(self.labels, classes) + (1 - share) * one_hot(self.partners, classes)
        return mixture * (1 - smoothing) + smoothing / classes


def epoch_order(count: int, repeats: int, source: torch.Generator) -> Tensor:
    """All places in a random order; with repeats, each drawn place so many times, `count` in all."""
    return torch.randperm(count, generator=source).repeat_interleave(repeats)[:count]


def split(order: Tensor, size: int) -> list[Tensor]:
    """Batches of `size`; a tail shorter than half a batch joins the batch before it."""
    parts = list(order.split(size))
    if len(parts) > 1 and len(parts[-1]) * 2 < size:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def mixed(batch: Batch, share: float) -> Batch:
    """MixUp: x = λ x_1 + (1 - λ) x_2 of neighbours (2j, 2j + 1); an odd last row stays as it is."""
    rows = len(batch.labels)
    partner = torch.arange(rows, device=batch.labels.device) ^ 1
    if rows % 2:
        partner[-1] = rows - 1
    images = share * batch.images + (1 - share) * batch.images[partner]
    shares = torch.full((rows,), share, dtype=torch.float64)
    return replace(batch, images=images, partners=batch.labels[partner], shares=shares)


class Loader:
    """The batches of one training phase."""

    def __init__(
        self,
        samples: Samples,
        phase: PhaseConfig,
        augmentation: Augmentation,
        *,
        seed: int,
        mixup: float,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        rows: Callable[[int], slice] = lambda count: slice(0, count),
    ) -> None:
        self.samples, self.phase, self.augmentation = samples, phase, augmentation
        self.seed, self.mixup, self.rows = seed, mixup, rows
        self.device, self.dtype = device, dtype

    def epoch(self, position: Position) -> list[Tensor]:
        """The places of each global batch of the epoch."""
        source = generator(self.seed, replace(position, step=0), "order")
        order = epoch_order(len(self.samples), self.phase.repeats, source)
        return split(order, self.phase.batch)

    def batch(
        self, places: Tensor, position: Position, name: str, draw: Callable[..., dict[str, Tensor]]
    ) -> Batch:
        """This process's rows of the batch at these places; `draw` gives the model's random numbers."""

        def source(purpose: str) -> torch.Generator:
            return generator(self.seed, position, purpose)

        count, size = len(places), self.samples.images.shape[-1]
        if self.phase.repeats > 1:
            places = places[torch.randperm(count, generator=source("repeats"))]
        rows = self.rows(count)
        varied = self.augmentation.draw(source("augment"), count, size)
        varied = {key: each[rows] for key, each in varied.items()}
        draws = draw(source("model"), count)
        draws = {key: each[rows].to(self.device, self.dtype) for key, each in draws.items()}
        samples = self.samples.take(places[rows])
        images = self.augmentation(samples.images.to(self.device), varied).to(self.dtype)
        batch = replace(Batch.plain(images, samples.labels.to(self.device), phase=name), draws=draws)
        if not self.mixup:
            return batch
        beta = np.random.default_rng(seed_of(self.seed, position, "mixup")).beta(self.mixup, self.mixup)
        return mixed(batch, float(beta))
