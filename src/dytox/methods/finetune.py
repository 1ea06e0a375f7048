"""Finetune, the lower bound: one growing head, only the new images, no memory; transformer or ResNet.

Verified here, on both: an old class's logit gets a gradient from a new sample; growing changes no old logit.
Schedules: `finetune` has DyTox's training; `finetune-resnet` has CE and the schedule of DER's code on a
ResNet18 that keeps its last ReLU, without that code's new start of the classifier at epoch 10 (PyCIL: 80
epochs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dytox.method import Action, ContinualModel, Method, Phase, Task, Training, network


class Finetune(Method):
    """Learns each task as if it were the only one."""

    name: ClassVar[str] = "finetune"
    summary: ClassVar[str] = "lower bound: only the new images, nothing against forgetting"
    cannot: ClassVar[str] = "keep a memory (that is replay)"
    uses_memory: ClassVar[bool] = False

    def build(self) -> ContinualModel:
        """The network that the config describes, with one growing head."""
        return network(self.config)

    def phases(self, task: Task) -> Sequence[Phase]:
        """Grow, then train everything on the new images."""
        return [
            Action("expand", self.expand),
            Training("train", "new", self.learns, self.config.training),
        ]
