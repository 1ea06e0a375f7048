"""Results on labelled images: overall, for each class and task, and the most frequent confusions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from dytox import metrics
from dytox.data.scenario import Task

PAIRS = 10  # confusions that are named


@dataclass(frozen=True)
class ClassResult:
    """One class; accuracy in percent."""

    name: str
    task: int  # counted from 1
    images: int
    top1: float


@dataclass(frozen=True)
class TaskResult:
    """One task, counted from 1; `task_aware_top1` chooses among the classes of the true task only."""

    task: int
    images: int
    top1: float
    task_aware_top1: float


@dataclass(frozen=True)
class Confusion:
    """The number of images of one class that were taken for another class."""

    name: str
    taken_for: str
    images: int


@dataclass(frozen=True)
class Assessment:
    """Accuracies in percent; classes and tasks without images are left out."""

    images: int
    right: int
    top1: float
    top5: float | None  # None below 6 classes
    task_aware_top1: float
    calibration_error: float
    classes: list[ClassResult]
    tasks: list[TaskResult]
    confusions: list[Confusion]


def assess(
    confidences: Tensor, labels: Tensor, names: Sequence[str], increments: Sequence[int]
) -> Assessment:
    """Of images whose confidences over all classes are these."""
    confidence, predicted = confidences.max(dim=1)
    right = predicted == labels
    tasks = [Task(index, sum(increments[:index]), new) for index, new in enumerate(increments)]
    boundaries = [task.seen for task in tasks]
    classes: list[ClassResult] = []
    parts: list[TaskResult] = []
    for task in tasks:
        mine = (labels >= task.old) & (labels < task.seen)
        if not mine.any():
            continue
        aware = metrics.task_aware(confidences[mine], labels[mine], boundaries)
        parts.append(TaskResult(task.index + 1, int(mine.sum()), metrics.percent(right[mine]), aware))
        for label in range(task.old, task.seen):
            own = right[labels == label]
            if len(own):
                classes.append(ClassResult(names[label], task.index + 1, len(own), metrics.percent(own)))
    return Assessment(
        images=len(labels),
        right=int(right.sum()),
        top1=metrics.top_k(confidences, labels, 1),
        top5=metrics.top_k(confidences, labels, 5) if len(names) > 5 else None,
        task_aware_top1=metrics.task_aware(confidences, labels, boundaries),
        calibration_error=metrics.calibration_error(confidence, right),
        classes=classes,
        tasks=parts,
        confusions=_confusions(predicted, labels, names),
    )


def _confusions(predicted: Tensor, labels: Tensor, names: Sequence[str]) -> list[Confusion]:
    """The most frequent first."""
    table = metrics.confusion(predicted, labels, len(names)).fill_diagonal_(0)
    most = table.flatten().argsort(descending=True, stable=True)[:PAIRS].tolist()
    places = [divmod(place, len(names)) for place in most]
    return [Confusion(names[a], names[b], int(table[a, b])) for a, b in places if table[a, b]]
