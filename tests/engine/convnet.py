"""A small network with BatchNorm, as a method of somebody else's: `convnet:ConvReplay`."""

from __future__ import annotations

from torch import nn

from dytox.engine.method import Method
from dytox.engine.phase import Action, Training
from dytox.engine.selecting import select_memory
from dytox.models.base import ContinualModel, Output
from dytox.models.batchnorm import BatchNorm2d
from dytox.models.heads import SingleHead


class ConvNet(ContinualModel):
    """Two convolutions with BatchNorm, a mean over the image, one growing head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, stride=2, padding=1),
            BatchNorm2d(8),
            nn.ReLU(),
        )
        self.head = SingleHead(8)

    def grow(self, classes: int) -> None:
        self.head.expand(classes, embeddings=1)

    def forward(self, images, draws=None):
        embedding = self.body(images).mean(dim=(2, 3))[:, None]
        return Output(self.head(embedding), embedding)


class ConvReplay(Method):
    """Replay with it."""

    name = "convreplay"
    summary = "replay with a small convolutional network"

    def build(self):
        return ConvNet()

    def phases(self, task):
        return [
            Action("expand", self.expand),
            Training("train", "new+memory", lambda: [self.model], self.config.training),
            Action("memory", select_memory),
        ]
