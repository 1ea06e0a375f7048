"""WA: maintaining discrimination and fairness, by weight aligning (Zhao et al., CVPR 2020).

Verified here: mean norms of old and new rows are equal after aligning, ratios among new rows as before;
aligning twice changes nothing; no weight of the head is negative after an update; the distillation's weight
is old / seen.
Deviations: as in DER's code of it, the head has no bias and its weights are kept from being negative. That
code draws the whole head anew at epoch 10 of each task, old rows too; here they are kept. Aligning happens
once, after training, not "at each epoch" as DyTox's appendix has it.
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
    distillation_by_image,
    pooled,
    select_memory,
)


class WAOptions(Section):
    """Options of the distillation."""

    temperature: float = Field(2.0, gt=0)  # of the distillation


class WA(Method):
    """Distillation; then the rows of new classes are scaled to the mean length of the old ones."""

    name: ClassVar[str] = "wa"
    summary: ClassVar[str] = "distillation, then new rows of the head are scaled to the length of old ones"
    preset: ClassVar[Preset] = Preset(base="resnet")
    Options: ClassVar[type[Section]] = WAOptions
    options: WAOptions
    model: PooledNet[LinearHead]

    def build(self) -> PooledNet[LinearHead]:
        """A linear head without a bias."""
        return pooled(self.config, lambda dim: LinearHead(dim, bias=False))

    def phases(self, task: Task) -> Sequence[Phase]:
        """Train on new images and memory; align; select the memory."""
        align = [Action("align", self.align)] if task.index else []
        return [
            *self.growing(task),
            Training("train", "new+memory", self.learns, self.config.training),
            Action("tidy", self.drop_teacher),
            *align,
            Action("memory", select_memory),
        ]

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """(1 - λ) CE + λ KD, λ = old / seen classes; the teacher's logits are aligned ones."""
        terms = super().losses(batch, output)
        if self.teacher is None:
            return terms
        mine, theirs = output.logits[:, : self.model.old], self.teach(batch).logits
        return self.weighed(terms["clf"], distillation_by_image(mine, theirs, self.options.temperature))

    @torch.no_grad()
    def after_update(self, moment: Moment) -> None:
        """Set negative weights to zero: with features ≥ 0, rows of larger norm then give larger logits."""
        for rows in self.model.head.linears():
            rows.weight.clamp_(min=0.0)

    @torch.no_grad()
    def align(self, lesson: Lesson) -> None:
        """Action: multiply all new rows by γ = mean ‖w_old‖ / mean ‖w_new‖."""
        new = self.model.head.linears()[-1].weight
        length = new.norm(dim=1).mean().clamp_min(1e-12)
        new.mul_(self.model.rows()[: self.model.old].norm(dim=1).mean() / length)
