"""RPSNet: random path selection (Rajasegaran et al., NeurIPS 2019).

Verified here: 56.60 M parameters for 100 classes with five modules a level (the paper's table says 56.5; the
authors' code allocates 89.59 M at once); the teacher's logits are those of the last task's model on its own
paths; modules of earlier paths, their BatchNorm statistics too, do not move; paths are only added.
Deviations from the authors' code: a new path takes modules that no path has used yet, so that five paths are
five modules a level, and adds some where all M are used; one path is drawn, not the best of eight by test
accuracy; the teacher sees its own paths alone (there also new, untrained modules); level 7 adds its input as
its like do; the convolutions' biases, which BatchNorm cancels, are not trained; the head grows; brightness
is varied instead of rotation, and images are normalised as the scenario says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from dytox.method import (
    Action,
    Batch,
    Field,
    Method,
    Output,
    Phase,
    Preset,
    Section,
    Task,
    Term,
    Training,
    path_net,
    select_memory,
)
from dytox.models.paths import PathNet


class RpsNetOptions(Section):
    """Options of the paths and of the distillation."""

    modules: int = Field(8, gt=0)  # M, places for modules in a level; more paths than these add more
    tasks_per_path: int = Field(2, gt=0)  # J, the number of tasks that share a path
    temperature: float = Field(2.0, gt=0)  # of the distillation
    rigidity: float = Field(2.5, gt=0)  # what the weight of the distillation grows by with every task


class RpsNet(Method):
    """Parallel modules in every level, and a new path through them every second task."""

    name: ClassVar[str] = "rpsnet"
    works_on: ClassVar[str] = "residual"
    summary: ClassVar[str] = (
        "a new path of modules every second task, old ones frozen; adds some beyond M = 8"
    )
    preset: ClassVar[Preset] = Preset(
        base="resnet",
        config={
            "memory": {"selection": "random"},
            "training": {
                "lr": 1e-3,
                "optimizer": {"name": "adamw", "weight_decay": 0.0},  # without decay, Adam
                "schedule": {"name": "step", "warmup_epochs": 0, "gamma": 0.5},
            },
            "finetuning": {"lr": 1e-4, "optimizer": {"name": "adamw", "weight_decay": 0.0}},
        },
        scales={
            "demo": {"training": {"schedule": {"milestones": [20, 40, 60, 80]}}},
            "short": {"training": {"schedule": {"milestones": [4, 8, 12, 16]}}},
            "fast": {"model": {"encoder": "resnet8"}, "training": {"schedule": {"milestones": [2, 4, 6, 8]}}},
            "paper": {"training": {"epochs": 100, "schedule": {"milestones": [20, 40, 60, 80]}}},
        },
    )
    Options: ClassVar[type[Section]] = RpsNetOptions
    options: RpsNetOptions
    model: PathNet

    def build(self) -> PathNet:
        """Nine levels, as wide as the residual network of the config, with one path."""
        options = self.options
        return path_net(self.config, places=options.modules, tasks_per_path=options.tasks_per_path)

    def phases(self, task: Task) -> Sequence[Phase]:
        """Train the last path with the teacher; select the memory."""
        return [
            *self.growing(task),
            Training("train", "new+memory", self.model.newest, self.config.training),
            Action("tidy", self.drop_teacher),
            Action("memory", select_memory),
        ]

    def rehearses(self) -> Iterable[nn.Module]:
        """The parts that a task trains: earlier paths stay frozen."""
        return self.model.newest()

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """L = L_clf + φ L_kd, the latter with a teacher; φ = 1 up to the third task, then 2.5, 5, 7.5 …"""
        terms = super().losses(batch, output)
        if self.teacher is not None:
            new = batch.targets(output.logits.shape[1])[:, self.teacher.classes :]
            wanted = torch.cat([self.teach(batch).logits, new], dim=1)
            later = self.model.tasks - 3  # tasks after the third
            phi = self.options.rigidity * later if later > 0 else 1.0
            terms["kd"] = distillation_of_all(output.logits, wanted, self.options.temperature).weighted(phi)
        return terms


def distillation_of_all(logits: Tensor, wanted: Tensor, temperature: float) -> Term:
    """L_kd = Σ max(0, p log(p / q)) over all classes: p of the wanted logits, q of the student's.

    Wanted are the teacher's old logits with the one-hot vector of the new classes behind them.
    """
    p, q = ((each / temperature).log_softmax(dim=1) for each in (wanted, logits))
    return Term((p.exp() * (p - q)).clamp(min=0).sum(), len(logits))
