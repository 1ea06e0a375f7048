"""DER: dynamically expandable representation (Yan et al., CVPR 2021), without pruning or with channel masks.

Verified here: t × 11,168,832 parameters of t extractors, one of which learns; 112.20 / 224.40 / 561.00 M at
10 / 20 / 50 steps (the paper's table, 112.27 / 224.55 / 561.39, counts a 7×7 stem); old extractors, their
BatchNorm statistics too, do not move; the second classifier's target is 1 for the first new class and 0 for
any old one; the classifier's own training leaves features as they are; a pruned network equals the masked
one; a mask's compensated gradient is its formula; sparsity is 1 for open masks and 0 for closed ones.
Deviations: the classifier's temperature stays in the network, which changes no prediction but the
confidences. The code with masks was never published: with `sparsity` (λ_s) the formulas are the paper's as
remembered, with HAT's start of e, N(0, 1), and its limits of e and s·e; the inner channels of residual
blocks are masked and the sums are not, so that features keep their width; a block keeps one channel at
least; a new extractor starts from the channels that the last one kept; weight decay acts on e too. λ_s and
s_max at the paper's scale are HAT's, as a start: choose λ_s with `dytox tune`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dytox.method import (
    Action,
    Batch,
    Field,
    Lesson,
    Moment,
    Output,
    Phase,
    Section,
    Task,
    Term,
    Training,
    extractor_network,
    select_memory,
    sparsity,
)
from dytox.methods.expanding import ExtractorMethod
from dytox.models import pruning
from dytox.models.extractors import ExtractorNet


class DerOptions(Section):
    """The classifier's temperature, and the masks."""

    temperature: float = Field(5.0, gt=0)  # of the logits, from the training of the classifier alone on
    sparsity: float = Field(0.0, ge=0)  # λ_s, the weight of the sparsity loss; 0: no masks, no pruning
    steepness: float = Field(400.0, gt=1)  # s_max, that of the masks at the end of an epoch


class Der(ExtractorMethod):
    """Adds an extractor for every task; the classifier on all of them is trained again on a balanced set."""

    name: ClassVar[str] = "der"
    summary: ClassVar[str] = "an extractor a task, all kept; the classifier learned anew on a balanced set"
    Options: ClassVar[type[Section]] = DerOptions
    options: DerOptions

    def build(self) -> ExtractorNet:
        """One extractor, to which each task adds another; with masks if sparsity is asked for."""
        return extractor_network(self.config, masked=self.options.sparsity > 0)

    def phases(self, task: Task) -> Sequence[Phase]:
        """Train the new extractor; prune it; train a new classifier; select the memory."""
        return [
            Action("expand", self.expand),
            Training("train", "new+memory", self.model.newest, self.config.training),
            Action("tidy", self.tidy),
            *self.classifier_anew(task, self.options.temperature),
            Action("memory", select_memory),
        ]

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """L = L_clf + L_aux + λ_s L_S; L_aux from the second task on, L_S while there are masks."""
        terms = super().losses(batch, output)
        if output.divergence is not None:
            terms["aux"] = self.divergence(batch, output)
        if pruning.masks(self.model.last):
            layers = pruning.masked_layers(self.model.last)
            terms["sparsity"] = sparsity(layers).weighted(self.options.sparsity)
        return terms

    def before_forward(self, moment: Moment) -> None:
        """Masks get steeper from step to step of an epoch."""
        for mask in pruning.masks(self.model.last):
            mask.s = pruning.steepness(moment.position.step, moment.steps, self.options.steepness)

    def after_backward(self, moment: Moment) -> None:
        """The masks' gradients are compensated for their steepness."""
        for mask in pruning.masks(self.model.last):
            mask.compensate()

    def after_update(self, moment: Moment) -> None:
        """Clamp the masks, so that every channel can still be opened or closed."""
        for mask in pruning.masks(self.model.last):
            mask.clamp()

    def tidy(self, lesson: Lesson) -> None:
        """Action: remove the auxiliary head, and the channels that the masks close."""
        self.model.drop_divergence_head()
        if self.options.sparsity:
            pruning.prune_masked(self.model.last)
