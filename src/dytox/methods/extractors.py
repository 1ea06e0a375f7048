"""What methods share that keep every task's extractor and add one: DER and its kin."""

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
