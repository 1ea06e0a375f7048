"""BiC: large scale incremental learning, by bias correction (Wu et al., CVPR 2019).

Verified here: stage 2 moves two numbers and nothing else, buffers included; its loss is the cross-entropy of
the corrected logits; predictions are corrected; the teacher's are by its own pair; no image that is ever
validated on is ever learned from; the distillation's weight is old / seen.
Deviations: in stage 1 the schedule of DER's code, without its new start of the classifier at epoch 10, where
the paper's is 250 epochs, ×0.1 at 100, 150 and 200, and weight decay 2e-4; in stage 2 200 epochs of SGD, as
FACIL reads the paper, on validation images that are varied as in training. Where a class has one image in the
memory, or one in all, nothing of it is held out; if nothing is, stage 2 is left out. Of several shares of a
memory stage 2 sees the first. As in the authors' code only the newest pair is used, on the newest classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from torch import nn

from dytox.method import (
    Action,
    Batch,
    BiasCorrectedHead,
    Field,
    Method,
    OptimizerConfig,
    Output,
    Phase,
    PhaseConfig,
    PooledNet,
    Preset,
    Section,
    Task,
    Term,
    Training,
    exemplars_per_share,
    pooled,
    soft_cross_entropy,
)
from dytox.methods.validation import learned, rehearsed, reserved, select_apart, validation


class BiCOptions(Section):
    """Options of the distillation and of stage 2."""

    temperature: float = Field(2.0, gt=0)  # of the distillation
    shift_decay: float = Field(0.1, ge=0)  # of β, in stage 2
    correction: PhaseConfig = PhaseConfig(  # stage 2
        epochs=200,
        batch=128,
        lr=0.1,
        lr_reference_batch=None,
        optimizer=OptimizerConfig(name="sgd", weight_decay=0.0),
    )


class BiC(Method):
    """Distillation; then two numbers, trained on held-out images, correct the bias of the new logits."""

    name: ClassVar[str] = "bic"
    summary: ClassVar[str] = (
        "distillation, then a linear correction of new logits, learned on held-out images"
    )
    cannot: ClassVar[str] = "do without a memory"
    needs_memory: ClassVar[bool] = True
    preset: ClassVar[Preset] = Preset(
        base="resnet",
        config={  # stage 2, two numbers on a few images
            "method": {
                "correction": {
                    "epochs": 100,
                    "lr": 0.1,
                    "lr_reference_batch": None,
                    "optimizer": {"name": "sgd", "momentum": 0.9, "weight_decay": 0.0},
                    "schedule": {"name": "step", "milestones": [50, 75]},
                }
            }
        },
        scales={
            "demo": {"method": {"correction": {"batch": 64}}},
            "fast": {"method": {"correction": {"batch": 64}}},
            "short": {"method": {"correction": {"batch": 128}}},
            "paper": {
                "method": {
                    "correction": {"batch": 128, "epochs": 200, "schedule": {"milestones": [100, 150]}}
                }
            },
        },
    )
    Options: ClassVar[type[Section]] = BiCOptions
    options: BiCOptions
    model: PooledNet[BiasCorrectedHead]

    def build(self) -> PooledNet[BiasCorrectedHead]:
        """A linear head, whose newest logits are corrected."""
        return pooled(self.config, BiasCorrectedHead)

    def phases(self, task: Task) -> Sequence[Phase]:
        """Stage 1 on all but the validation images, stage 2 on these; select the memory."""
        stage2: list[Phase] = []
        if task.index and reserved(exemplars_per_share(self.config.memory, task.old)):
            stage2 = [Training("correct", validation, self.corrects, self.options.correction)]
        return [
            *self.growing(task),
            Training("train", learned, self.learns, self.config.training),
            Action("tidy", self.drop_teacher),
            *stage2,
            Action("memory", select_apart),
        ]

    def refresh(self, task: Task) -> Sequence[Phase]:
        """Train again on the exemplars that are not for validation."""
        return [
            Action("memory", select_apart),
            Training("refresh", rehearsed, self.rehearses, self.config.finetuning),
        ]

    def learns(self) -> Iterator[nn.Module]:
        """Stage 1: all but the correction, which is the identity then."""
        yield self.model.encoder
        yield self.model.head.tasks

    def corrects(self) -> Iterator[nn.Parameter]:
        """Stage 2: α and β."""
        yield from (self.model.head.alpha, self.model.head.beta)

    def rehearses(self) -> Iterator[nn.Module]:
        return self.learns()

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """Stage 1: (1 - λ) CE + λ KD, λ = old / seen classes; stage 2: CE + β² / 20."""
        terms = super().losses(batch, output)
        if self.teacher is not None:
            taught = self.teach(batch).logits  # corrected by its own pair
            kd = soft_cross_entropy(output.logits[:, : self.model.old], taught, self.options.temperature)
            return self.weighed(terms["clf"], kd)
        if batch.phase == "correct":
            _, beta = self.corrects()
            terms["shift"] = Term(beta.square().sum() / 2, 1, self.options.shift_decay)
        return terms
