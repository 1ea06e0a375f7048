"""Joint, the upper bound: at each step a new model, trained on all images of all classes so far.

With `scenario.joint` there is one step of all classes, as in the paper's "Transformer joint" row.
Verified here: every step starts from new weights and sees all images of all classes so far, so nothing is
forgotten. Deviation from DyTox's authors: their code then finetunes on the memory; here nothing follows.
Schedules: `joint` has DyTox's training; `joint-resnet` has CE and the schedule of DER's code on a ResNet18
that keeps its last ReLU, without that code's new start of the classifier at epoch 10. Its published Last
(80.41) is taken to be an average over steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dytox.method import Action, ContinualModel, Lesson, Method, Phase, Task, Training, network


class Joint(Method):
    """Not continual: what can be reached if all images are kept."""

    name: ClassVar[str] = "joint"
    summary: ClassVar[str] = "upper bound: all images of all classes so far, anew at each step"
    cannot: ClassVar[str] = "learn once the images of earlier tasks are gone"
    uses_memory: ClassVar[bool] = False
    needs_all_images: ClassVar[bool] = True

    def build(self) -> ContinualModel:
        """The network that the config describes, with one growing head."""
        return network(self.config)

    def phases(self, task: Task) -> Sequence[Phase]:
        """Start from new weights and train everything on all images."""
        return [
            Action("restart", self.restart),
            Training("train", "all", self.learns, self.config.training),
        ]

    def restart(self, lesson: Lesson) -> None:
        """Action: replace the model by a new one for all classes seen."""
        device, dtype = self.device, self.dtype
        with lesson.seeded("restart"):
            model = self.build()
            model.expand(lesson.task.seen)
        model.increments = [*self.model.increments, lesson.task.new]  # the tasks of one expansion
        self.model = model.to(device, dtype)
