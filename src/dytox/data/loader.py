"""Batches as a function of position: which images, their augmentation and MixUp.

All random numbers are drawn for the whole global batch, and each process takes its own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dytox.config import PhaseConfig
from dytox.data.augment import Augmentation, draw_crops
from dytox.data.decoding import Decoder, Pixels, Request
from dytox.data.encoded import Encoded
from dytox.data.samples import Samples
from dytox.data.transfer import sent
from dytox.randomness import Position, generator, seed_of


@dataclass(frozen=True)
class Batch:
    """The rows of a global batch that belong to this process. Without MixUp a sample is its own partner."""

    images: Tensor  # (rows, 3, height, width), normalised; or cached tokens of them, (rows, tokens, dim)
    labels: Tensor  # (rows,)
    partners: Tensor  # (rows,): the label that was mixed in
    shares: Tensor  # (rows,): the weight λ of the own label
    draws: Mapping[str, Tensor] = field(default_factory=dict)  # the model's random numbers
    phase: str = ""

    @staticmethod
    def plain(images: Tensor, labels: Tensor, *, phase: str = "") -> Batch:
        """A batch without MixUp."""
        return Batch(images, labels, labels, torch.ones_like(labels, dtype=images.dtype), phase=phase)

    def targets(self, classes: int, *, smoothing: float = 0.0) -> Tensor:
        """Soft targets (rows, classes); `smoothing` is the part that is spread over all classes."""
        share = self.shares.to(self.images)[:, None]
        mixture = self.images.new_zeros(len(self.labels), classes)
        mixture.scatter_add_(1, self.labels[:, None], share).scatter_add_(
            1, self.partners[:, None], 1 - share
        )
        return mixture * (1 - smoothing) + smoothing / classes


def epoch_order(count: int, repeats: int, source: torch.Generator) -> Tensor:
    """All places in random order; with `repeats`, each place that many times in a row, `count` in total."""
    return torch.randperm(count, generator=source).repeat_interleave(repeats)[:count]


def split_batches(order: Tensor, size: int) -> list[Tensor]:
    """Split into batches of `size`; a rest of less than half a batch is added to the last batch."""
    parts = list(order.split(size))
    if len(parts) > 1 and len(parts[-1]) * 2 < size:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def mixed(batch: Batch, share: float) -> Batch:
    """Apply MixUp, x = λ x_1 + (1 - λ) x_2, to neighbours (2j, 2j + 1); an odd last row is not mixed."""
    rows = len(batch.labels)
    partner = torch.arange(rows, device=batch.labels.device) ^ 1
    if rows % 2:
        partner[-1] = rows - 1
    images = share * batch.images + (1 - share) * batch.images[partner]
    shares = torch.full_like(batch.shares, share)
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
        workers: int = 0,
        encodings: Tensor | None = None,
    ) -> None:
        self.samples, self.phase, self.augmentation = samples, phase, augmentation
        self.seed, self.mixup, self.rows = seed, mixup, rows
        self.device, self.dtype, self.workers = device, dtype, workers
        self.encodings = encodings  # (views, n, tokens, dim), if the encoder's outputs are cached

    def epoch(self, position: Position) -> list[Tensor]:
        """The sample indices of each global batch of the epoch."""
        source = generator(self.seed, replace(position, step=0), "order")
        order = epoch_order(len(self.samples), self.phase.repeats, source)
        return split_batches(order, self.phase.batch)

    def pixels(self, batches: Sequence[Tensor], position: Position) -> Pixels:
        """The uint8 rows of this process for each batch from `position.step` on, decoded ahead."""
        steps = range(position.step, len(batches))
        return self._pixels((batches[step], replace(position, step=step)) for step in steps)

    def batch(
        self,
        places: Tensor,
        position: Position,
        name: str,
        draw: Callable[..., dict[str, Tensor]],
        pixels: Tensor | None = None,
    ) -> Batch:
        """The rows of this process of the batch with these sample indices.

        `draw` gives the random numbers of the model. `pixels` is what the method `pixels` gave for this
        batch; without it, the images are read now.
        """
        count, rows = len(places), self.rows(len(places))
        if pixels is None:
            pixels = next(self._pixels([(places, position)]))
        draws = draw(self._source(position, "model"), count)
        draws = {key: sent(each[rows], self.device, self.dtype) for key, each in draws.items()}
        mine = self._mine(places, position)
        size = None if isinstance(self.samples.images, Encoded) else self.samples.size
        varied = self.augmentation.draw(self._source(position, "augment"), count, size)
        varied = {key: each[rows] for key, each in varied.items()}
        if self.encodings is None:
            images = self.augmentation(sent(pixels, self.device), varied).to(self.dtype)
        else:
            images = sent(self._encoded(mine, position, varied), self.device, self.dtype)
        labels = sent(self.samples.labels[mine], self.device)
        batch = replace(Batch.plain(images, labels, phase=name), draws=draws)
        if not self.mixup:
            return batch
        beta = np.random.default_rng(seed_of(self.seed, position, "mixup")).beta(self.mixup, self.mixup)
        return mixed(batch, float(beta))

    def _encoded(self, mine: Tensor, position: Position, varied: Mapping[str, Tensor]) -> Tensor:
        """The encodings of these samples: epochs take cached views in turn, or images are mirrored or not."""
        assert self.encodings is not None
        if self.phase.cache_views is not None:
            return self.encodings[position.epoch % len(self.encodings), mine]
        view = varied["flip"].long() if len(self.encodings) > 1 else torch.zeros_like(mine)
        return self.encodings[view, mine]

    def close(self) -> None:
        """End the workers that decode images."""
        if "_decoder" in self.__dict__:
            self._decoder.close()

    def _pixels(self, batches: Iterable[tuple[Tensor, Position]]) -> Pixels:
        if self.encodings is not None:
            return (torch.empty(0) for _ in batches)  # no image is needed
        images = self.samples.images
        if isinstance(images, Tensor):
            return (images[self._mine(*each)] for each in batches)
        return self._decoder.stream(self._request(images, *each) for each in batches)

    def _request(self, images: Encoded, places: Tensor, position: Position) -> Request:
        """The request to decode a batch, with the random numbers of its crops."""
        mine, area = images[self._mine(places, position)], self.augmentation.config.resized_crop
        if area is None:
            return Request(mine)
        crops = draw_crops(self._source(position, "crop"), len(places))
        return Request(mine, crops[self.rows(len(places))], area)

    @cached_property
    def _decoder(self) -> Decoder:
        batch = self.phase.batch
        return Decoder(self.workers, len(range(batch)[self.rows(batch)]))

    def _mine(self, places: Tensor, position: Position) -> Tensor:
        """The sample indices of a batch that belong to this process."""
        count = len(places)
        if self.phase.repeats > 1:
            places = places[torch.randperm(count, generator=self._source(position, "repeats"))]
        return places[self.rows(count)]

    def _source(self, position: Position, purpose: str) -> torch.Generator:
        return generator(self.seed, position, purpose)
