"""Simple-DER-like: a stand-in for Simple-DER (Li et al., 2021), of which only the abstract could be read.

Known: all extractors are kept, their features are concatenated, distillation, each extractor is pruned, "no
hyperparameters". Not known: the rule of pruning. Here: of the first convolution of each residual block the
filters go whose L1 norm is below their mean; then the newest extractor learns on for a few epochs, at the
last learning rate. The rest is DER's, with WA's distillation. Label results "Simple-DER-like".
Verified here: the rule takes no number; what it keeps can be told from the weights alone; pruned extractors
stay as they are, bit by bit, while later tasks are learned; there are fewer parameters than DER's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dytox.method import (
    Action,
    Batch,
    Field,
    Lesson,
    Output,
    Phase,
    PhaseConfig,
    Preset,
    ScheduleConfig,
    Section,
    Task,
    Term,
    Training,
    distillation_by_image,
    learning_rate,
    select_memory,
)
from dytox.methods.expanding import ExtractorMethod
from dytox.models import pruning


class SimpleDerOptions(Section):
    """Options of the temperatures and of the training after pruning."""

    temperature: float = Field(5.0, gt=0)  # of the logits, from the training of the classifier alone on
    distillation: float = Field(2.0, gt=0)  # the temperature of the distillation
    recovery_epochs: int = Field(10, ge=0)  # of training after pruning


class SimpleDer(ExtractorMethod):
    """Keeps every task's extractor, pruned by a rule without hyperparameters, and distils old logits."""

    name: ClassVar[str] = "simple_der"
    works_on: ClassVar[str] = "residual"
    summary: ClassVar[str] = "Simple-DER-like: as der, distilled, each extractor pruned by a stand-in rule"
    preset: ClassVar[Preset] = ExtractorMethod.preset.model_copy(
        update={
            "scales": {
                "demo": {"method": {"recovery_epochs": 6}},
                "short": {"method": {"recovery_epochs": 1}, "finetuning": {"batch": 32}},
                "fast": {"method": {"recovery_epochs": 1}, "model": {"encoder": "resnet8"}},
                "paper": {"method": {"recovery_epochs": 10}},
            }
        }
    )
    Options: ClassVar[type[Section]] = SimpleDerOptions
    options: SimpleDerOptions

    def phases(self, task: Task) -> Sequence[Phase]:
        """Train a new extractor, prune it, let it recover; then the classifier and the memory."""
        return [
            *self.growing(task),
            Training("train", "new+memory", self.model.newest, self.config.training),
            Action("prune", self.prune),
            Training("recover", "new+memory", self.model.newest, self.recovery()),
            Action("tidy", self.tidy),
            *self.classifier_anew(task, self.options.temperature),
            Action("memory", select_memory),
        ]

    def recovery(self) -> PhaseConfig:
        """The config of the training after pruning: the last learning rate of the training, held constant."""
        training = self.config.training
        last = {"lr": learning_rate(training, max(0, training.epochs - 1)), "lr_reference_batch": None}
        schedule = ScheduleConfig(name="constant")
        return training.model_copy(
            update={**last, "epochs": self.options.recovery_epochs, "schedule": schedule}
        )

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """L = (1 - α) L_clf + α L_kd + L_aux, α = old / seen classes; the classifier alone: L_clf."""
        terms = super().losses(batch, output)
        if self.teacher is not None:
            mine, taught = output.logits[:, : self.model.old], self.teach(batch).logits
            kd = distillation_by_image(mine, taught, self.options.distillation)  # as WA has it
            terms |= self.weighed(terms["clf"], kd)
        if output.divergence is not None:
            terms["aux"] = self.divergence(batch, output)
        return terms

    def prune(self, lesson: Lesson) -> None:
        """Action: remove the weak filters of the newest extractor."""
        pruning.prune_weak(self.model.last)

    def tidy(self, lesson: Lesson) -> None:
        """Action: remove the teacher and the auxiliary head."""
        self.drop_teacher(lesson)
        self.model.drop_divergence_head()
