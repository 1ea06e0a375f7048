"""UCIR: learning a unified classifier by rebalancing (Hou et al., CVPR 2019), also called LUCIR.

Verified here: no logit is above σ; the ranking loss does not depend on σ; some features are negative; old
rows are the same bits after a task; more hard classes than there are new ones are no error; new rows start as
the mean direction of their class, as long as old rows are on average.
Deviations: the schedule, jitter and normalisation of DER's code, without its new start of the classifier at
epoch 10, where theirs is 160 epochs; memory by its total size, where theirs is 20 a class. Their balanced
finetuning belongs to ImageNet's script alone and is left out. With MixUp, an image is ranked by the first of
its two labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import ClassVar

import torch
from torch import nn

from dytox.method import (
    Action,
    Batch,
    CosineHead,
    Field,
    Lesson,
    Method,
    Output,
    Phase,
    PooledNet,
    Preset,
    Section,
    Task,
    Term,
    Training,
    cosine_distance,
    margin_ranking,
    pooled,
    prototypes,
    select_memory,
)


class UCIROptions(Section):
    """Options of the three terms of its loss."""

    distillation: float = Field(5.0, ge=0)  # λ_base, times √(old / new classes)
    margin: float = Field(0.5, ge=0)  # of the ranking
    hardest: int = Field(2, gt=0)  # number of new classes that each old image is ranked against


class UCIR(Method):
    """A cosine head, distillation of the direction of features, and margin ranking of old images."""

    name: ClassVar[str] = "ucir"
    summary: ClassVar[str] = "cosine head, distillation of the features' direction, margin ranking"
    preset: ClassVar[Preset] = Preset(base="resnet", config={"model": {"last_relu": False}})
    Options: ClassVar[type[Section]] = UCIROptions
    options: UCIROptions
    model: PooledNet[CosineHead]

    def build(self) -> PooledNet[CosineHead]:
        """A cosine head with one learned scale."""
        return pooled(self.config, CosineHead)

    def phases(self, task: Task) -> Sequence[Phase]:
        """Imprint the new rows; train on new images and memory; select the memory."""
        imprint = [Action("imprint", self.imprint)] if task.index else []
        return [
            *self.growing(task),
            *imprint,
            Training("train", "new+memory", self.learns, self.config.training),
            Action("tidy", self.drop_teacher),
            Action("memory", select_memory),
        ]

    @torch.no_grad()
    def imprint(self, lesson: Lesson) -> None:
        """Action: set a new row to the mean direction of its class, with the mean length of old rows."""
        length = self.model.rows()[: self.model.old].norm(dim=1).mean()
        new = self.model.head.linears()[-1].weight
        new.copy_(prototypes(lesson, lesson.new).to(new) * length)

    def learns(self) -> Iterable[nn.Module | nn.Parameter]:
        """All but the old rows, which neither the loss nor weight decay changes."""
        return self.model.newest()

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """CE(σ cos) + λ (1 - cos(f, f_old)) + ranking, on cosines without σ; λ = λ_base √(old / new)."""
        terms = super().losses(batch, output)
        if self.teacher is not None:
            old, options = self.model.old, self.options
            features = self.features(output)
            direction = cosine_distance(features, self.features(self.teach(batch)))
            ranking = margin_ranking(
                self.model.select(self.model.head.cosines(features)),
                batch.labels,
                old=old,
                margin=options.margin,
                hardest=options.hardest,
            )
            weight = options.distillation * sqrt(old / self.model.increments[-1])
            terms |= {"direction": direction.weighted(weight), "ranking": ranking}
        return terms
