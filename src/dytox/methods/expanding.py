"""The base of methods that add an extractor for every task and keep the old ones, such as DER."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import nn

from dytox.method import (
    Action,
    Lesson,
    Method,
    Moment,
    Phase,
    Preset,
    Samples,
    Task,
    Training,
    extractor_network,
)
from dytox.models.extractors import ExtractorNet


def balanced_subset(lesson: Lesson) -> Samples:
    """New images and memory, as many of every class as of the smallest, drawn at random."""
    samples, source = lesson.samples("new+memory"), lesson.generator("balanced")
    fewest = int(samples.labels.unique(return_counts=True)[1].min())
    shuffled = torch.randperm(len(samples), generator=source)
    labels = samples.labels[shuffled]
    return samples.take(torch.cat([shuffled[labels == each][:fewest] for each in labels.unique()]))


class ExtractorMethod(Method):
    """A method on an `ExtractorNet`; a subclass defines how the newest extractor is trained."""

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
        """Initialise the classifiers again after the warm-up of a task's training."""
        warmup = self.config.training.schedule.warmup_epochs
        if moment.phase == "train" and 0 < moment.position.epoch == warmup:
            with moment.seeded("heads"):
                self.model.reset_heads()

    def classifier_anew(self, task: Task, temperature: float) -> Sequence[Phase]:
        """Phases after the first task: train only the classifier, newly initialised, on a balanced subset.

        Its logits are divided by the temperature from then on.
        """
        if task.index == 0 or not self.config.memory.size:
            return []

        def reset(lesson: Lesson) -> None:
            with lesson.seeded("classifier"):
                self.model.reset_heads(temperature)

        train = Training("classifier", balanced_subset, self.rehearses, self.config.finetuning)
        return [Action("reset", reset), train]

    def rehearses(self) -> Iterator[nn.Module]:
        """The classifier alone."""
        yield self.model.head
