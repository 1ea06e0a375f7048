"""PODNet: pooled outputs distillation (Douillard et al., ECCV 2020).

Verified here: POD by hand, zero where the student is its teacher, the same for maps of another scale; no POD
term without a teacher; the order of a class's proxies is no matter; old proxies do not move in training;
11.68 M parameters for 100 classes on a ResNet18 (the paper's table says 11.22, as with one proxy a class).
L_LSC is that of the authors' code: no hinge, no margin (it is taken from every similarity, which does
nothing), and 1 in the place of the own class in the sum. The paper's, with all three, is least at η = 0
where there are two classes, and learns nothing then. Deviations from their code: only the last block is
without its outer ReLU (there every block is); the maps are one a stage, four of a ResNet18 and three of a
ResNet-8 or -32 (there a fourth, of the last block); with MixUp, the losses of both labels are mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from typing import ClassVar

import torch
from torch import nn

from dytox.method import (
    Action,
    Batch,
    Field,
    Lesson,
    Method,
    Moment,
    Output,
    Phase,
    PooledNet,
    Preset,
    ProxyHead,
    Section,
    Task,
    Term,
    Training,
    UserError,
    cosine_distance,
    features,
    freeze,
    nca,
    pod_spatial,
    pooled,
    select_memory,
)
from dytox.models.linear_heads import centres


class PodNetOptions(Section):
    """Options of the head, the distillation and the gradients."""

    proxies: int = Field(10, gt=0)  # for each class
    spatial: float = Field(3.0, ge=0)  # λ_c, the weight of POD-spatial
    flat: float = Field(1.0, ge=0)  # λ_f, the weight of POD-flat
    clamp: float = Field(5.0, gt=0)  # limit of every value of a gradient


class PodNet(Method):
    """Distils pooled maps of every stage; classes have several proxies."""

    name: ClassVar[str] = "podnet"
    works_on: ClassVar[str] = "convolutional"
    summary: ClassVar[str] = "distils pooled maps of every stage; several proxies a class"
    preset: ClassVar[Preset] = Preset(
        base="resnet",
        config={
            "model": {"last_relu": False},
            "training": {"schedule": {"name": "cosine", "warmup_epochs": 0, "milestones": [], "min_lr": 0.0}},
            "finetuning": {"lr": 0.05},
        },
        scales={
            "fast": {"loss": {"label_smoothing": 0.0}},
            "paper": {"training": {"epochs": 160}, "finetuning": {"epochs": 20}},
        },
    )
    Options: ClassVar[type[Section]] = PodNetOptions
    options: PodNetOptions
    model: PooledNet[ProxyHead]

    def build(self) -> PooledNet[ProxyHead]:
        """An encoder whose maps are distilled, and proxies."""
        loss = self.config.loss
        if loss.activation != "softmax" or loss.label_smoothing:
            raise UserError(
                "Impossible config: podnet has its own loss, so loss.activation must be softmax and "
                "loss.label_smoothing 0."
            )
        return pooled(self.config, lambda dim: ProxyHead(dim, proxies=self.options.proxies))

    def phases(self, task: Task) -> Sequence[Phase]:
        """Train with the teacher; select the memory; finetune the proxies on it."""
        train = Training("train", "new+memory", self.learns, self.config.training)
        memory = Action("memory", select_memory)
        if task.index == 0:
            return [*self.growing(task), train, memory]
        phases: list[Phase] = [
            *self.growing(task),
            Action("imprint", self.imprint),
            train,
            Action("tidy", self.drop_teacher),
            memory,
        ]
        if self.config.memory.size:
            phases.append(Training("finetune", "memory", self.rehearses, self.config.finetuning))
        return phases

    def imprint(self, lesson: Lesson) -> None:
        """Action: new proxies start at the centres of their class's features."""
        freeze(self)
        found, source = features(lesson, lesson.new), lesson.generator("proxies")
        labels = range(lesson.task.old, lesson.task.seen)
        of_class = [found[lesson.new.labels == label] for label in labels]
        wanted = torch.stack([centres(each, self.options.proxies, source) for each in of_class])
        old = self.model.rows()[: self.model.old]
        self.model.head.imprint(lesson.world.from_main(wanted), old)

    def learns(self) -> Iterable[nn.Module | nn.Parameter]:
        """All but the old proxies."""
        return self.model.newest()

    def rehearses(self) -> Iterator[nn.Module]:
        """All proxies."""
        yield self.model.head

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """L = L_LSC + √(seen / new) (λ_c L_POD-spatial + λ_f L_POD-flat), the latter with a teacher."""
        own, mixed_in = (nca(output.logits, labels) for labels in (batch.labels, batch.partners))
        terms = {"clf": Term(torch.lerp(mixed_in, own, batch.shares.to(own)).sum(), len(own))}
        if self.teacher is None:
            return terms
        taught, factor = self.teach(batch), sqrt(self.model.classes / self.model.increments[-1])
        spatial = pod_spatial(output.maps, taught.maps)
        flat = cosine_distance(output.embeddings.flatten(1), taught.embeddings.flatten(1))
        terms["pod_spatial"] = spatial.weighted(factor * self.options.spatial)
        terms["pod_flat"] = flat.weighted(factor * self.options.flat)
        return terms

    def after_backward(self, moment: Moment) -> None:
        """Clamp every value of a gradient."""
        nn.utils.clip_grad_value_(self.parameters(), self.options.clamp)
