"""A network that keeps the feature extractor of every task and adds one (DER, Yan et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dytox.models import pruning
from dytox.models.base import ContinualModel, Encoder, Output, outputs_of
from dytox.models.linear_heads import LinearHead


class ExtractorNet(ContinualModel):
    """An extractor for each task, their features side by side, and one linear classifier on all of them.

    Each task starts its extractor from the one before, and the classifier anew. While a later task learns
    there is a second classifier, on the newest features alone, whose class 0 stands for all older classes.
    `again` builds the later extractors, whose weights are those of the one before: by default as `extractor`.
    """

    def __init__(
        self,
        extractor: Callable[[], Encoder],
        *,
        masked: bool = False,
        again: Callable[[], Encoder] | None = None,
    ) -> None:
        super().__init__()
        self.make, self.masked = again or extractor, masked
        first = extractor()
        self.dim = first.dim
        self.extractors = nn.ModuleList([first])
        self.divergence_head: nn.Linear | None = None
        self._renew_head([])

    @property
    def last(self) -> Encoder:
        """The extractor of the last task."""
        last = self.extractors[-1]
        assert isinstance(last, Encoder)
        return last

    def _renew_head(self, sizes: Iterable[int]) -> None:
        self.temperature = 1.0  # by which logits are divided
        self.head = LinearHead(self.dim * len(self.extractors), bias=False)
        for classes in sizes:
            self.head.expand(classes)

    def grow(self, classes: int) -> None:
        """Add an extractor and a new classifier of the live classes; later tasks get the second one too."""
        later = bool(self.sizes)
        if later:
            extractor = self.make()
            pruning.inherit(extractor, self.last)
            self.extractors.append(extractor)
        if self.masked:
            pruning.mask(self.last)
        self.sizes, self.forgotten = list(self.increments), []
        self._renew_head([*self.sizes, classes])
        self.divergence_head = nn.Linear(self.dim, classes + 1) if later else None

    def newest(self) -> Iterable[nn.Module]:
        """The extractor of the last task and the classifiers."""
        head = [] if self.divergence_head is None else [self.divergence_head]
        return [self.last, self.head, *head]

    def block_weights(self, block: int) -> Iterable[Tensor]:
        yield from self.head.tasks[block].parameters()
        if len(self.extractors) == len(self.sizes):
            yield from self.extractors[block].state_dict().values()

    def encoder_parts(self) -> list[nn.Module]:
        return list(self.extractors)

    def reset_heads(self, temperature: float = 1.0) -> None:
        """Initialise the classifiers anew; from now on logits are divided by the temperature."""
        self.temperature = temperature
        for layer in [*self.head.linears(), self.divergence_head]:
            if layer is not None:
                layer.reset_parameters()

    def drop_divergence_head(self) -> None:
        """Remove the second classifier, which is for training only."""
        self.divergence_head = None

    def erase(self, outputs: Collection[int]) -> None:
        """The extractors stay, as all classes use all of them."""
        assert self.divergence_head is None, "forgetting is not for the middle of a task"
        self.head.forget(outputs)

    def forward(self, images: Tensor, draws: Mapping[str, Tensor] | None = None) -> Output:
        """Images (batch, 3, height, width) as an output, with an embedding for each extractor."""
        features = torch.stack([extractor(images).features for extractor in self.extractors], dim=1)
        divergence = None if self.divergence_head is None else self.divergence_head(features[:, -1])
        logits = self.select(self.head(features.flatten(1))) / self.temperature
        return Output(logits, features, divergence)

    def structure(self) -> dict[str, Any]:
        """The tasks, the inner channels left in every extractor, and what serves training."""
        return {
            **super().structure(),
            "extractors": [pruning.widths(each) for each in self.extractors],
            "masked": bool(pruning.masks(self.last)),
            "divergence": self.divergence_head is not None,
            "temperature": self.temperature,
        }

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        like = next(self.parameters())
        sizes = outputs_of(structure)
        self.extractors = nn.ModuleList()
        for widths in structure["extractors"]:
            self.extractors.append(self.make())
            pruning.shrink(self.last, widths)
        if structure["masked"]:
            pruning.mask(self.last)
        self._renew_head(sizes)
        self.restore_tasks(structure)
        self.temperature = structure["temperature"]
        if type(self.temperature) is not float or not 0 < self.temperature < float("inf"):
            raise ValueError("the temperature of its classifier must be a finite positive number")
        if structure["divergence"]:
            self.divergence_head = nn.Linear(self.dim, sizes[-1] + 1)
        self.to(device=like.device, dtype=like.dtype)

    def count_parameters(self) -> int:
        """Without masks and the second classifier, which are not needed to predict."""
        spare = [*pruning.masks(self.last), *([self.divergence_head] if self.divergence_head else [])]
        return super().count_parameters() - sum(p.numel() for each in spare for p in each.parameters())
