"""Replay: finetune with a memory (the first row of the paper's ablation), on the transformer or a ResNet.

Verified here, on both: memory within its budget; an old class's logit gets a gradient from a new sample.
Schedules: `replay` has DyTox's training; `replay-resnet` has CE and the schedule of DER's code on a ResNet18
that keeps its last ReLU, without that code's new start of the classifier at epoch 10 (PyCIL: 70 epochs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dytox.method import Action, ContinualModel, Method, Phase, Task, Training, network, select_memory


class Replay(Method):
    """Learns each task together with the exemplars of the tasks before."""

    name: ClassVar[str] = "replay"
    summary: ClassVar[str] = "finetune with a memory, and nothing else"

    def build(self) -> ContinualModel:
        """The network that the config describes, with one growing head."""
        return network(self.config)

    def phases(self, task: Task) -> Sequence[Phase]:
        """Grow, train everything on new images and memory, select the memory."""
        return [
            Action("expand", self.expand),
            Training("train", "new+memory", self.learns, self.config.training),
            Action("memory", select_memory),
        ]
