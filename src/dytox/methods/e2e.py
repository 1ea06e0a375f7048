"""E2E: end-to-end incremental learning (Castro et al., ECCV 2018).

Verified here: one distillation for each old head in training, for each head in balanced finetuning; each is
the teacher's entropy where student = teacher; the noise that enters an update has the deviation 0.3 / batch
in the first epoch; balanced finetuning sees each class equally often, and the memory is within its budget
after it.
Deviations: the schedule of DER's code, without its new start of the classifier at epoch 10, instead of 40
epochs over an offline set of twelve variations; of these crop, mirror and brightness, not contrast; plain
weight decay (1e-4), where the authors' is multiplied by each tensor's squared norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch

from dytox.method import (
    Action,
    Batch,
    Field,
    Lesson,
    LinearHead,
    Method,
    Moment,
    Output,
    Phase,
    PooledNet,
    Preset,
    Section,
    Task,
    Term,
    Training,
    exemplars_per_share,
    pooled,
    select,
    select_memory,
    soft_cross_entropy,
)


class E2EOptions(Section):
    """Options of the distillation and of the gradient noise."""

    temperature: float = Field(2.0, gt=0)  # of the distillation
    noise: float = Field(0.3, ge=0)  # standard deviation in the sum over a batch, in the first epoch
    noise_decay: float = Field(0.55, ge=0)  # divided by (1 + epoch) to this power


class E2E(Method):
    """A distillation for every head, noise in the gradients, and balanced finetuning."""

    name: ClassVar[str] = "e2e"
    summary: ClassVar[str] = "a head a task, each distilled, gradient noise, balanced finetuning"
    preset: ClassVar[Preset] = Preset(
        base="resnet",
        config={
            "training": {"optimizer": {"weight_decay": 1e-4}},
            "finetuning": {"lr": 0.01, "optimizer": {"weight_decay": 1e-4}, "schedule": {"name": "step"}},
        },
        scales={
            "demo": {"finetuning": {"epochs": 20, "schedule": {"milestones": [7, 14]}}},
            "short": {"finetuning": {"epochs": 5, "schedule": {"milestones": [2, 4]}}},
            "fast": {"finetuning": {"epochs": 6, "schedule": {"milestones": [2, 4]}}},
            "paper": {"finetuning": {"epochs": 30, "schedule": {"milestones": [10, 20]}}},
        },
    )
    Options: ClassVar[type[Section]] = E2EOptions
    options: E2EOptions
    model: PooledNet[LinearHead]

    def build(self) -> PooledNet[LinearHead]:
        """A linear head: each task's block of rows is its own head."""
        return pooled(self.config, LinearHead)

    def phases(self, task: Task) -> Sequence[Phase]:
        """Train; balance the memory; finetune on it, taught by the network as trained; select the memory."""
        balanced: list[Phase] = []
        if task.index and self.config.memory.size:
            balanced = [
                Action("balance", self.balance),
                Action("second teacher", self.keep_teacher),
                Training("finetune", "memory", self.learns, self.config.finetuning),
            ]
        return [
            *self.growing(task),
            Training("train", "new+memory", self.learns, self.config.training),
            *balanced,
            Action("tidy", self.drop_teacher),
            Action("memory", self.select_anew),
        ]

    def balance(self, lesson: Lesson) -> None:
        """Action: add as many images of each new class as of an old one, beyond the memory's size for now."""
        config = self.config.memory
        quota = exemplars_per_share(config, lesson.task.old)
        for share in range(config.shares):
            lesson.memory = lesson.memory.extended(select(lesson, lesson.new, share, quota), share)

    def select_anew(self, lesson: Lesson) -> None:
        """Action: select the exemplars of new classes again, by the finetuned network."""
        lesson.memory = lesson.memory.without(range(lesson.task.old, lesson.task.seen))
        select_memory(lesson)

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """CE over all classes + Σ over the teacher's heads of the cross-entropy with its softened softmax."""
        terms = super().losses(batch, output)
        if self.teacher is not None:
            sizes = self.teacher.increments
            mine = output.logits[:, : sum(sizes)].split(sizes, dim=1)
            theirs = self.teach(batch).logits.split(sizes, dim=1)
            each = [
                soft_cross_entropy(*pair, self.options.temperature).sum
                for pair in zip(mine, theirs, strict=True)
            ]
            terms["kd"] = Term(torch.stack(each).sum(), len(batch.labels))
        return terms

    @torch.no_grad()
    def after_backward(self, moment: Moment) -> None:
        """Add Gaussian noise; its deviation is that of the sum over the batch, and gradients are means."""
        deviation = self.options.noise / (1 + moment.position.epoch) ** self.options.noise_decay
        source = moment.generator("noise")
        for weight in self.parameters():
            if weight.grad is not None and deviation:
                noise = torch.randn(weight.shape, generator=source, dtype=weight.dtype).to(weight.device)
                weight.grad.add_(noise, alpha=deviation / moment.images)
