"""What is measured after each task, and kept for reports."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dytox import metrics
from dytox.data.samples import Samples
from dytox.data.scenario import Task
from dytox.engine.evaluate import normalised, refuse_no_numbers
from dytox.learner import ContinualLearner

SHOWN = 8  # test images kept with each token's attention


@dataclass(frozen=True)
class Evaluation:
    """The step's figures, its row of the accuracy matrix, and the tensors that a report needs."""

    step: metrics.Step
    row: list[float]
    tensors: dict[str, Tensor]


def evaluate(learner: ContinualLearner, test: Samples, tasks: list[Task], seconds: float) -> Evaluation:
    """The learner on test images of all classes seen."""
    scores, labels = learner.scores(test.images), test.labels
    refuse_no_numbers(scores, tasks[-1].index)
    confidence, predicted = scores.max(dim=1)
    right = predicted == labels
    classes = tasks[-1].seen
    step = metrics.Step(
        task=tasks[-1].index,
        classes_seen=classes,
        top1=metrics.top_k(scores, labels, 1),
        top5=metrics.top_k(scores, labels, 5) if classes > 5 else None,
        task_aware_top1=metrics.task_aware(scores, labels, [task.seen for task in tasks]),
        calibration_error=metrics.calibration_error(confidence, right),
        parameters=learner.method.model.count_parameters(),
        memory_images=len(learner.memory),
        seconds=round(seconds, 1),
    )
    row = [accuracy(right, labels, task) for task in tasks]
    best = scores.topk(min(5, classes), dim=1)
    tensors = {
        "targets": labels,
        "top_scores": best.values,
        "top_classes": best.indices,
        "confusion": metrics.confusion(predicted, labels, classes),
        **introspection(learner, test),
    }
    return Evaluation(step, row, tensors)


def accuracy(right: Tensor, labels: Tensor, task: Task) -> float:
    """Percent right on the task's classes."""
    mine = (labels >= task.old) & (labels < task.seen)
    return 100.0 * float(right[mine].double().mean())


def introspection(learner: ContinualLearner, test: Samples) -> dict[str, Tensor]:
    """A few test images, evenly over the classes, and what the method shows of them."""
    evenly = torch.linspace(0, len(test) - 1, min(SHOWN, len(test))).long()
    places = test.labels.argsort(stable=True)[evenly]
    shown = test.take(places)
    pixels = shown.pixels()
    found = learner.method.introspect(normalised(learner.method, pixels).to(learner.method.dtype))
    return {
        "images": pixels,
        "image_labels": shown.labels,
        "image_places": places,  # among the targets
        **{name: tensor.cpu() for name, tensor in found.items()},
    }
