"""A convolutional network with one head that grows: what most methods before DyTox use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from dytox.models import slots
from dytox.models.base import ContinualModel, Output
from dytox.models.class_means import ClassMeans
from dytox.models.classifiers import Classifier
from dytox.models.resnet import ResNet

AnyClassifier = TypeVar("AnyClassifier", bound=Classifier)


class ConvNet(ContinualModel, Generic[AnyClassifier]):
    """A backbone carried from task to task, and a classifier on its features to which each task adds rows.

    With `means` it has a place for the mean feature of each class too, which a method may predict by.
    """

    head: AnyClassifier

    def __init__(self, backbone: ResNet, head: AnyClassifier, means: ClassMeans | None = None) -> None:
        super().__init__()
        self.backbone, self.head, self.means = backbone, head, means

    def newest(self) -> Iterator[nn.Module | nn.Parameter]:
        """All but the old rows."""
        yield self.backbone
        yield self.head.tasks[-1]
        if self.head.scale is not None:
            yield self.head.scale

    def expand(self, classes: int) -> None:
        """New rows for a new task; no old logit changes."""
        like = next(self.backbone.parameters())
        self.head.expand(classes)
        if self.means is not None:
            self.means.expand(classes)
        self.increments.append(classes)
        self.to(device=like.device, dtype=like.dtype)

    def forget(self, places: Collection[int]) -> None:
        """Without these classes, by their place."""
        self.head.forget(places)
        if self.means is not None:
            self.means.forget(places)
        self.increments = [layer.out_features for layer in self.head.linears()]

    def forward(self, images: Tensor, draws: Mapping[str, Tensor] | None = None) -> Output:
        """Images (batch, 3, height, width) as an output; `draws` are for networks that have any."""
        features, maps = self.backbone(images)  # (batch, dim)
        return Output(self.head(features), features[:, None], maps=maps)

    def constant_parts(self) -> list[nn.Module]:
        """The backbone."""
        return [self.backbone]

    def structure(self) -> dict[str, Any]:
        """The tasks, and the gaps that forgotten classes left."""
        return {**super().structure(), **slots.to_json(self.head.slots)}

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        """Grows to this structure."""
        super().rebuild(structure)
        self.head.rebuild(structure)
