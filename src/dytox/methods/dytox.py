"""DyTox: dynamic token expansion (Douillard et al., CVPR 2022).

Verified here: outputs, losses and gradients against the authors' code (`fixtures/dytox_small`), five training
and three finetuning steps against theirs (`fixtures/trajectory`), herding and initialisation likewise.
Deviations from their code: the frozen encoder is in eval mode while finetuning (there drop-path stayed on);
finetuning batches are shuffled; the learning rate has no lag of one epoch; exemplars are selected once, from
images without augmentation, unless `memory.shares` says otherwise; an epoch sees every image once
(`training.repeats: 3` is their repeated augmentation); DyTox+ has no label smoothing (theirs: 0.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from dytox.method import (
    Action,
    Batch,
    Field,
    Lesson,
    Method,
    Output,
    Phase,
    Preset,
    Section,
    Task,
    Term,
    Training,
    distillation,
    distillation_by_image,
    model_validator,
    select_memory,
    token_network,
)
from dytox.models.dytox import DyTox


class DyToxOptions(Section):
    """The components of the paper, each of which can be left out, as in its ablation."""

    distillation: bool = True  # by the model as it was before the task
    temperature: float = Field(1.0, gt=0)  # of the distillation
    distillation_scale: float = Field(1.0, ge=0)  # times α, the distillation's weight
    distillation_mean: Literal["logits", "images"] = (
        "logits"  # the mean over images and old classes, or over images
    )
    freeze_old: bool = True  # whether old tokens and classifiers stay as they are in training
    alpha: bool = True  # whether L_clf is weighted by 1 - α; off: by 1
    divergence: float = Field(0.1, ge=0)  # λ, the weight of the divergence loss; 0: no divergence head
    token_expansion: bool = True  # off: one token for all tasks
    independent_heads: bool = True  # off: one classifier over all embeddings
    finetuning: bool = True  # on a balanced memory, with the encoder frozen

    @model_validator(mode="after")
    def _heads_need_tokens(self) -> DyToxOptions:
        if self.independent_heads and not self.token_expansion:
            raise ValueError("method.independent_heads needs method.token_expansion: a head for each token")
        return self


class DyToxMethod(Method):
    """A token and a classifier a task; distillation, divergence, and finetuning on a balanced memory."""

    name: ClassVar[str] = "dytox"
    summary: ClassVar[str] = "a token and a classifier a task, distillation, divergence, finetuning"
    preset: ClassVar[Preset] = Preset(
        scales={"fast": {"method": {"distillation_mean": "images", "temperature": 2.0}}},
        tuned={"method": {"distillation_scale": 10.0}},
    )
    Options: ClassVar[type[Section]] = DyToxOptions
    options: DyToxOptions
    model: DyTox

    def build(self) -> DyTox:
        """The transformer, with the components that the options ask for."""
        return token_network(
            self.config,
            token_expansion=self.options.token_expansion,
            independent_heads=self.options.independent_heads,
            divergence=self.options.divergence > 0,
        )

    def phases(self, task: Task) -> Sequence[Phase]:
        """Train on new images and memory; select the memory; finetune on it."""
        later = task.index > 0
        phases: list[Phase] = []
        if later and self.options.distillation:
            phases.append(Action("teacher", self.keep_teacher))
        phases.append(Action("expand", self.expand))
        phases.append(Training("train", "new+memory", self.learns_in_training, self.config.training))
        phases.append(Action("tidy", self.tidy))
        phases.append(Action("memory", select_memory))
        if later and self.options.finetuning and self.config.memory.size:
            phases.append(Training("finetune", "memory", self.learns_in_finetuning, self.config.finetuning))
        return phases

    def learns_in_training(self) -> Iterable[nn.Module | nn.Parameter]:
        """All but what belongs to older tasks alone, unless that may learn too."""
        return self.model.newest() if self.options.freeze_old else [self.model]

    def learns_in_finetuning(self) -> Iterator[nn.Module | nn.Parameter]:
        """All but the encoder."""
        yield self.model.tab
        yield from self.model.task_tokens
        yield self.model.heads

    def rehearses(self) -> Iterator[nn.Module | nn.Parameter]:
        return self.learns_in_finetuning()

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """L = (1 - α) L_clf + α L_kd + λ L_div (eq. 9), α = old / seen classes; finetuning: L_clf alone."""
        terms = super().losses(batch, output)
        if self.teacher is not None:
            mine, taught = output.logits[:, : self.model.old], self.teach(batch).logits
            by_image = self.options.distillation_mean == "images"
            distilled = distillation_by_image if by_image else distillation
            terms = self.weighed(terms["clf"], distilled(mine, taught, self.options.temperature))
            if not self.options.alpha:
                terms["clf"] = terms["clf"].weighted(1.0)
            terms["kd"] = terms["kd"].weighted(terms["kd"].weight * self.options.distillation_scale)
        if output.divergence is not None:
            terms["div"] = self.divergence(batch, output).weighted(self.options.divergence)
        return terms

    def tidy(self, lesson: Lesson) -> None:
        """Action: remove the teacher and the divergence head, which only training needs."""
        self.drop_teacher(lesson)
        self.model.drop_divergence_head()

    @torch.no_grad()
    def introspect(self, images: Tensor) -> dict[str, Tensor]:
        """The distances between task tokens, and their attention in these images."""
        tokens, attention = self.model.tokens(), self.model.attention(images)
        distances = {"token_distances": torch.cdist(tokens, tokens)}
        return distances if attention is None else {**distances, "attention": attention}
