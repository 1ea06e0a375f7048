"""A frozen encoder with a classifier that is computed from the moments of its features, not trained."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import relu

from dytox.models.base import ContinualModel, Encoder, Output
from dytox.models.computed_heads import Linear, Mahalanobis, transformed
from dytox.models.moments import Moments, Scatter

Head = Linear | Mahalanobis


class ComputedNet(ContinualModel):
    """An encoder, the moments of its features for each class, and the head that follows from them.

    Features go through `transformed` (a power and a normalisation) and, if `projection` is above 0, through
    so many random ReLU units before that. The logits are the head's, times `scale`.
    """

    projector: Tensor  # (dim, projection), drawn from the seed and therefore not saved

    def __init__(
        self,
        encoder: Encoder,
        kind: type[Head],
        *,
        power: float,
        scale: float,
        scatter: Scatter,
        projection: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.encoder, self.kind, self.power, self.scale = encoder, kind, power, scale
        self.moments = Moments(projection or encoder.dim, scatter=scatter)
        source = torch.Generator().manual_seed(seed)
        drawn = torch.randn(encoder.dim, projection, generator=source, device="cpu")
        self.register_buffer("projector", drawn, persistent=False)
        for name in kind._fields:
            self.register_buffer(f"head_{name}", torch.empty(0))

    @property
    def head(self) -> Head:
        """The classifier as it was computed last."""
        return self.kind(*(getattr(self, f"head_{name}") for name in self.kind._fields))

    def put_head(self, head: Head) -> None:
        """Predict by this classifier from now on."""
        like = next(self.encoder.parameters())
        for name, tensor in head._asdict().items():
            setattr(self, f"head_{name}", tensor.to(like))

    def seen(self, features: Tensor) -> Tensor:
        """The encoder's features (n, dim) as the moments and the head take them."""
        if self.projector.shape[1]:
            features = relu(features @ self.projector.to(features))
        return transformed(features, self.power)

    def encoder_parts(self) -> list[torch.nn.Module]:
        return [self.encoder]

    def constant_parts(self) -> list[torch.nn.Module]:
        return [self.encoder]

    def put_encoder(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @property
    def encodes(self) -> bool:
        return self.encoder.frozen

    def encode(self, images: Tensor) -> Tensor:
        return self.encoder(images).features[:, None]

    def expand(self, classes: int) -> None:
        self.moments.expand(classes)
        self.increments.append(classes)

    def forget(self, places: Collection[int]) -> None:
        """Remove all that is known of these classes; the head must be computed anew."""
        self.moments.forget(places)
        tasks = [task for task, classes in enumerate(self.increments) for _ in range(classes)]
        left = [task for place, task in enumerate(tasks) if place not in places]
        self.increments = [left.count(task) for task in dict.fromkeys(left)]

    def forward(self, images: Tensor, draws: Mapping[str, Tensor] | None = None) -> Output:
        """Images (batch, 3, height, width) as an output, whose embeddings are the encoder's features."""
        features = self.encoder(images).features  # (batch, dim)
        if not len(self.head[0]):  # before the first head is computed
            return Output(features.new_zeros(len(features), self.classes), features[:, None])
        return Output(self.scale * self.head.logits(self.seen(features)), features[:, None])

    def structure(self) -> dict[str, Any]:
        shapes = {name: list(tensor.shape) for name, tensor in self.head._asdict().items()}
        return {"increments": list(self.increments), "moments": self.moments.structure(), "head": shapes}

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        self.increments = list(structure["increments"])
        self.moments.rebuild(structure["moments"])
        if len(self.moments) != self.classes:
            raise ValueError("the sums of its classes do not fit its tasks")
        like = next(self.encoder.parameters())
        for name in self.kind._fields:
            shape = structure["head"][name]
            if len(shape) > 3 or not all(type(side) is int and 0 <= side <= 2**20 for side in shape):
                raise ValueError("its classifier has no sound shape")
            setattr(self, f"head_{name}", like.new_empty(shape))

    def count_parameters(self) -> int:
        """The encoder's parameters, and the numbers of the head."""
        head = sum(tensor.numel() for tensor in self.head)
        return sum(parameter.numel() for parameter in self.encoder.parameters()) + head
