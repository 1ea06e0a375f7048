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

from dytox.method import (
    Action,
    Batch,
    ClassMeans,
    Lesson,
    LinearHead,
    Method,
    Output,
    Phase,
    PooledNet,
    Preset,
    Task,
    Term,
    Training,
    UserError,
    classification,
    pooled,
    prototypes,
    select_memory,
)


class ICaRL(Method):
    """Distils the sigmoids of old classes; an image belongs to the class whose mean is nearest."""

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
        """Train on new images and memory; select the memory; compute the means."""
        return [
            *self.growing(task),
            Training("train", "new+memory", self.learns, self.config.training),
            Action("tidy", self.drop_teacher),
            Action("memory", select_memory),
            Action("means", self.measure),
        ]

    def refresh(self, task: Task) -> Sequence[Phase]:
        """As usual; then compute the means again, since the weights have changed."""
        return [*super().refresh(task), Action("means", self.measure)]

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """One BCE: new classes as labelled, old ones by the teacher's sigmoids, whatever the label."""
        seen, old = self.model.classes, self.model.old
        targets = batch.targets(seen, smoothing=self.config.loss.label_smoothing)
        if self.teacher is not None:
            targets = torch.cat([self.teach(batch).logits.sigmoid(), targets[:, old:]], dim=1)
        return {"clf": classification(output.logits, targets, "sigmoid")}

    def measure(self, lesson: Lesson) -> None:
        """Action: compute the mean of each class from its exemplars, with the current network."""
        flips = self.config.augment.flip > 0
        self.means.place(prototypes(lesson, lesson.memory.samples, mirrored=flips))

    def predict(self, output: Output) -> Tensor:
        """exp(-‖f - mean‖²), normalised to sum to 1: the nearest class has the highest score."""
        return self.means(self.features(output)).softmax(dim=1)

    @property
    def means(self) -> ClassMeans:
        """The class means of the model."""
        assert self.model.means is not None
        return self.model.means
