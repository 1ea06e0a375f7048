"""How a lesson changes a model, on images that are held out; and how long a lesson takes."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from dytox import metrics
from dytox.data.samples import Samples
from dytox.engine.lesson import Lesson
from dytox.engine.loop import phases_of
from dytox.engine.observer import Observer
from dytox.engine.phase import Phase, Training
from dytox.growing.plan import Plan
from dytox.learner import ContinualLearner

TRIAL = 3.0  # seconds of a lesson from which its length is estimated


@dataclass(frozen=True)
class AccuracyChange:
    """Held-out images of some classes: how many, and how many percent are right before and after."""

    what: str
    images: int
    before: float | None
    after: float


def right(learner: ContinualLearner, samples: Samples) -> Tensor:
    """For each image whether the learner predicts its class; False for classes it does not know."""
    if not learner.class_names or not len(samples):
        return torch.zeros(len(samples), dtype=torch.bool)
    return learner.confidences(samples.images).argmax(dim=1) == samples.labels


def accuracy_changes(
    labels: Tensor, before: Tensor, after: Tensor, *, old: int, given: Collection[int]
) -> list[AccuracyChange]:
    """The accuracies of known classes (those `given` have more images now), of new ones, and of all."""
    more = torch.isin(labels, torch.tensor(list(given), dtype=torch.int64))
    groups = {
        "known classes": (labels < old) & ~more,
        "known classes, more images": more,
        "new classes": labels >= old,
        "all classes": labels >= 0,
    }
    return [
        AccuracyChange(
            what,
            int(mask.sum()),
            metrics.percent(before[mask]) if (labels[mask] < old).all() else None,
            metrics.percent(after[mask]),
        )
        for what, mask in groups.items()
        if mask.any()
    ]


class _Enough(Exception):
    """Ends a trial lesson."""


class _Trial(Observer):
    """Measures the first steps of a lesson, then ends it."""

    def __init__(self) -> None:
        self.work = self.every = 0  # images to look at in all epochs, and in one
        self.seen = self.per_step = self.began = 0.0

    def phase_started(self, lesson: Lesson, phase: Phase) -> None:
        """Counts all the work at the first training."""
        if isinstance(phase, Training) and not self.work:
            self.every = len(lesson.samples(phase.samples))
            kept = min(lesson.config.memory.size, self.every)
            trainings = [each for each in phases_of(lesson) if isinstance(each, Training)]
            counts = [kept if each.samples == "memory" else self.every for each in trainings]
            self.work = sum(each.config.epochs * count for each, count in zip(trainings, counts, strict=True))

    def epoch_started(self, lesson: Lesson, *, steps: int, done: int) -> None:
        """The images of a step."""
        self.per_step = self.every / steps

    def step_ended(self, lesson: Lesson, total: Tensor) -> None:
        """The clock starts after the first step, which is slow."""
        float(total)  # waits until the step is really over
        if not self.began:
            self.began = time.perf_counter()
            return
        self.seen += self.per_step
        if time.perf_counter() - self.began > TRIAL:
            raise _Enough


def seconds(plan: Plan) -> float:
    """Estimate how long the lesson takes on this machine, from its first steps on a copy."""
    trial, learner = _Trial(), copy.deepcopy(plan.learner)
    began = time.perf_counter()
    try:
        learner.learn_task(plan.learned, plan.new, observer=trial)
    except _Enough:
        return trial.work * (time.perf_counter() - trial.began) / trial.seen
    return time.perf_counter() - began
