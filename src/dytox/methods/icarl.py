"""iCaRL: incremental classifier and representation learning (Rebuffi et al., CVPR 2017).

Verified here: with student = teacher no old logit has a gradient; predictions ignore the length of features;
the means change with the weights and depend on the memory alone; herding keeps a prefix as the memory
shrinks.
Deviations from the authors' code: a loss over the classes seen, where theirs has all 100 outputs from the
start; ⌊memory / seen⌋ exemplars a class, where theirs rounds up; the schedule of DER's code (170 epochs, lr
0.1, weight decay 5e-4), without its new start of the classifier at epoch 10, where theirs is 70 epochs at lr
2.0 with 1e-5; brightness besides crop and flip; mirrored exemplars count for the means only where training
mirrors images too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from dytox.config import Preset
from dytox.data.loader import Batch
from dytox.data.scenario import Task
from dytox.engine.lesson import Lesson
from dytox.engine.method import Method
from dytox.engine.phase import Action, Phase, Training
from dytox.engine.prototypes import prototypes
from dytox.engine.rehearsal import growing, select_memory
from dytox.errors import UserError
from dytox.losses import Term, classification
from dytox.models.base import Output
from dytox.models.build import pooled
from dytox.models.linear_heads import ClassMeans, LinearHead
from dytox.models.pooled import PooledNet


class ICaRL(Method):
    """Old classes learn what the old network says; an image belongs to the class whose mean is nearest."""

    name: ClassVar[str] = "icarl"
    summary: ClassVar[str] = "sigmoid distillation of the old classes, nearest mean of exemplars"
    cannot: ClassVar[str] = "do without a memory"
    needs_memory: ClassVar[bool] = True
    preset: ClassVar[Preset] = Preset(
        base="resnet",
        config={"model": {"last_relu": False}, "loss": {"activation": "sigmoid"}},
        scales={"fast": {"loss": {"label_smoothing": 0.0}}},
    )
    model: PooledNet[LinearHead]

    def build(self) -> PooledNet[LinearHead]:
        """A linear head for learning, class means for predicting."""
        if self.config.loss.activation != "sigmoid":
            raise UserError(
                "Impossible config: icarl learns with sigmoids, so loss.activation must be sigmoid."
            )
        return pooled(self.config, LinearHead, ClassMeans)

    def phases(self, task: Task) -> Sequence[Phase]:
        """Train on new images and memory; select the memory; measure the means anew."""
        return [
            *growing(self, task),
            Training("train", "new+memory", self.learns, self.config.training),
            Action("tidy", self.drop_teacher),
            Action("memory", select_memory),
            Action("means", self.measure),
        ]

    def refresh(self, task: Task) -> Sequence[Phase]:
        """As ever; the means move with the weights."""
        return [*super().refresh(task), Action("means", self.measure)]

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """One BCE: new classes as labelled, old ones as the teacher's sigmoids say, whatever the label."""
        seen, old = self.model.classes, self.model.old
        targets = batch.targets(seen, smoothing=self.config.loss.label_smoothing)
        if self.teacher is not None:
            targets = torch.cat([self.teach(batch).logits.sigmoid(), targets[:, old:]], dim=1)
        return {"clf": classification(output.logits, targets, "sigmoid")}

    def measure(self, lesson: Lesson) -> None:
        """Action: the mean of each class, of its exemplars alone, by the network as it is now."""
        flips = self.config.augment.flip > 0
        self.means.place(prototypes(lesson, lesson.memory.samples, mirrored=flips))

    def predict(self, output: Output) -> Tensor:
        """exp(-‖f - mean‖²), made to sum to one: the highest is the nearest."""
        return self.means(self.features(output)).softmax(dim=1)

    @property
    def means(self) -> ClassMeans:
        """The model's."""
        assert self.model.means is not None
        return self.model.means
