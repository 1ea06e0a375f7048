"""What methods share that keep every task's extractor and add one: DER and its kin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from torch import nn

from dytox.config import Preset
from dytox.data.scenario import Task
from dytox.engine.lesson import Lesson
from dytox.engine.method import Method
from dytox.engine.moment import Moment
from dytox.engine.phase import Action, Phase, Training
from dytox.engine.rehearsal import balanced_subset
from dytox.models.build import extractor_network
from dytox.models.extractors import ExtractorNet


class ExtractorMethod(Method):
    """A method on an `ExtractorNet`; a subclass says how the newest extractor learns."""

    preset: ClassVar[Preset] = Preset(
        base="resnet",
        config={"finetuning": {"lr": 0.1, "schedule": {"name": "step", "milestones": [15], "gamma": 0.1}}},
        scales={"short": {"finetuning": {"batch": 32}}},  # there are few images to balance
        always={"finetuning": {"epochs": 30}},  # the step at 15 needs them
    )
    model: ExtractorNet

    def build(self) -> ExtractorNet:
        """One extractor, to which each task adds another."""
        return extractor_network(self.config)

    def before_epoch(self, moment: Moment) -> None:
        """After the warm-up of a task's training the classifiers start once more."""
        warmup = self.config.training.schedule.warmup_epochs
        if moment.phase == "train" and 0 < moment.position.epoch == warmup:
            with moment.seeded("heads"):
                self.model.reset_heads()

    def classifier_anew(self, task: Task, temperature: float) -> Sequence[Phase]:
        """After the first task: the classifier alone, from its start, on as many images of every class.

        Its logits are divided by the temperature, then and later.
        """
        if task.index == 0 or not self.config.memory.size:
            return []

        def reset(lesson: Lesson) -> None:
            with lesson.seeded("classifier"):
                self.model.reset_heads(temperature)

        train = Training("classifier", balanced_subset, self.rehearses, self.config.finetuning)
        return [Action("reset", reset), train]

    def rehearses(self) -> Iterator[nn.Module]:
        """The classifier, on features that stay."""
        yield self.model.head
