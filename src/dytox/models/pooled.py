"""An encoder and one growing head on its pooled features: what most methods before DyTox use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from dytox.models.base import ContinualModel, Encoder, Output
from dytox.models.linear_heads import ClassMeans, LinearHead

AnyHead = TypeVar("AnyHead", bound=LinearHead)


class PooledNet(ContinualModel, Generic[AnyHead]):
    """An encoder carried from task to task, and a head on its features to which each task adds rows.

    With `means` it also has a place for the mean feature of each class, which a method may predict by.
    `drop_path` is the rate of the last block of an encoder that has blocks to drop.
    """

    head: AnyHead

    def __init__(
        self, encoder: Encoder, head: AnyHead, means: ClassMeans | None = None, drop_path: float = 0.0
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.means = encoder, head, means
        self.drop_rates = torch.linspace(0, drop_path, encoder.depth)

    def put_encoder(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def encoder_parts(self) -> list[nn.Module]:
        return [self.encoder]

    def constant_parts(self) -> list[nn.Module]:
        return [self.encoder]

    def newest(self) -> Iterable[nn.Module | nn.Parameter]:
        return [self.encoder, *self.head.newest()]

    def block_weights(self, block: int) -> Iterable[Tensor]:
        return self.head.tasks[block].parameters()

    def rows(self) -> Tensor:
        """The rows of the head that belong to live classes, in their order."""
        return self.select(torch.cat([layer.weight for layer in self.head.linears()]), dim=0)

    def grow(self, classes: int) -> None:
        self.head.expand(classes)
        if self.means is not None:
            self.means.expand(classes)

    def erase(self, outputs: Collection[int]) -> None:
        self.head.forget(outputs)

    def forget(self, places: Collection[int]) -> None:
        super().forget(places)
        if self.means is not None:
            self.means.forget(places)

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        super().rebuild(structure)
        if self.means is not None:
            self.means.forget(self.forgotten)

    @property
    def encodes(self) -> bool:
        return self.encoder.frozen

    def encode(self, images: Tensor) -> Tensor:
        return self.encoder(images).features[:, None]

    def draw(self, generator: torch.Generator, batch: int) -> dict[str, Tensor]:
        if not self.drop_rates.any():
            return {}
        kept = torch.rand(batch, len(self.drop_rates), 2, generator=generator) >= self.drop_rates[:, None]
        return {"sab_keep": kept / (1 - self.drop_rates[:, None])}

    def forward(self, images: Tensor, draws: Mapping[str, Tensor] | None = None) -> Output:
        """Images (batch, 3, height, width) as an output; `draws` are those of `draw`."""
        encoding = self.encoder(images, (draws or {}).get("sab_keep"))
        features = encoding.features  # (batch, dim)
        return Output(self.select(self.head(features)), features[:, None], maps=encoding.maps)
