"""A network that keeps the feature extractor of every task and adds one (DER, Yan et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dytox.models import pruning, slots
from dytox.models.base import ContinualModel, Output
from dytox.models.classifiers import Classifier
from dytox.models.resnet import ResNet


class ExtractorNet(ContinualModel):
    """An extractor a task, their features side by side, and one linear classifier on all of them.

    Each task starts its extractor from the one before, and the classifier anew. While a later task learns
    there is a second classifier, on the newest features alone, whose class 0 stands for all older classes.
    """

    def __init__(self, extractor: Callable[[], ResNet], *, masked: bool = False) -> None:
        super().__init__()
        self.make, self.masked = extractor, masked
        first = extractor()
        self.dim = first.dim
        self.extractors = nn.ModuleList([first])
        self.divergence_head: nn.Linear | None = None
        self._renew_head()

    @property
    def newest(self) -> ResNet:
        """The extractor of the last task."""
        newest = self.extractors[-1]
        assert isinstance(newest, ResNet)
        return newest

    def _renew_head(self) -> None:
        self.temperature = 1.0  # by which logits are divided
        self.head = Classifier(self.dim * len(self.extractors), bias=False)
        for classes in self.increments:
            self.head.expand(classes)

    def expand(self, classes: int) -> None:
        """A new task: its extractor, a new classifier and, from the second task on, the one beside it."""
        like = next(self.parameters())
        later = bool(self.increments)
        if later:
            extractor = self.make()
            pruning.inherit(extractor, self.newest)
            self.extractors.append(extractor)
        if self.masked:
            pruning.mask(self.newest)
        self.increments.append(classes)
        self._renew_head()
        self.divergence_head = nn.Linear(self.dim, classes + 1) if later else None
        self.to(device=like.device, dtype=like.dtype)

    def learning(self) -> Iterator[nn.Module]:
        """What a task teaches: its own extractor and the classifiers."""
        yield self.newest
        yield self.head
        if self.divergence_head is not None:
            yield self.divergence_head

    def reset_heads(self, temperature: float = 1.0) -> None:
        """The classifiers forget; from now on logits are divided by the temperature."""
        self.temperature = temperature
        for layer in [*self.head.linears(), self.divergence_head]:
            if layer is not None:
                layer.reset_parameters()

    def drop_divergence_head(self) -> None:
        """It serves training alone."""
        self.divergence_head = None

    def forget(self, places: Collection[int]) -> None:
        """Without these classes; the extractors stay, as all classes use all of them."""
        assert self.divergence_head is None, "forgetting is not for the middle of a task"
        self.head.forget(places)
        self.increments = [layer.out_features for layer in self.head.linears()]

    def forward(self, images: Tensor, draws: Mapping[str, Tensor] | None = None) -> Output:
        """Images (batch, 3, height, width) as an output, an embedding a task."""
        features = torch.stack([extractor(images)[0] for extractor in self.extractors], dim=1)
        divergence = None if self.divergence_head is None else self.divergence_head(features[:, -1])
        return Output(self.head(features.flatten(1)) / self.temperature, features, divergence)

    def structure(self) -> dict[str, Any]:
        """The tasks and gaps, the inner channels left in every extractor, and what serves training."""
        return {
            **super().structure(),
            **slots.to_json(self.head.slots),
            "extractors": [pruning.widths(each) for each in self.extractors],  # type: ignore[arg-type]  # ResNets
            "masked": bool(pruning.masks(self.newest)),
            "divergence": self.divergence_head is not None,
            "temperature": self.temperature,
        }

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        """Grows to this structure."""
        like = next(self.parameters())
        self.increments = list(structure["increments"])
        self.extractors = nn.ModuleList()
        for widths in structure["extractors"]:
            self.extractors.append(self.make())
            pruning.shrink(self.newest, widths)
        if structure["masked"]:
            pruning.mask(self.newest)
        self._renew_head()
        self.head.rebuild(structure)
        self.temperature = structure["temperature"]
        if type(self.temperature) is not float or not 0 < self.temperature < float("inf"):
            raise ValueError("the temperature of its classifier is none")
        if structure["divergence"]:
            self.divergence_head = nn.Linear(self.dim, self.increments[-1] + 1)
        self.to(device=like.device, dtype=like.dtype)

    def count_parameters(self) -> int:
        """Without masks and the second classifier, which are not needed to predict."""
        spare = [*pruning.masks(self.newest), *([self.divergence_head] if self.divergence_head else [])]
        return super().count_parameters() - sum(p.numel() for each in spare for p in each.parameters())
