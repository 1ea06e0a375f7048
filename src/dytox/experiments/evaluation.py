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
from dytox.learner.assessment import assess

SHOWN = 8  # test images kept with each token's attention


@dataclass(frozen=True)
class Evaluation:
    """The step's figures, its row of the accuracy matrix, and the tensors that a report needs."""

    step: metrics.Step
    row: list[float]
    tensors: dict[str, Tensor]


def evaluate_task(learner: ContinualLearner, test: Samples, tasks: list[Task], seconds: float) -> Evaluation:
    """The learner on test images of all classes seen."""
    scores, labels = learner.scores(test.images), test.labels
    refuse_no_numbers(scores, tasks[-1].index)
    found = assess(scores, labels, learner.class_names, [task.new for task in tasks])
    step = metrics.Step(
        task=tasks[-1].index,
        classes_seen=tasks[-1].seen,
        top1=found.top1,
        top5=found.top5,
        task_aware_top1=found.task_aware_top1,
        calibration_error=found.calibration_error,
        parameters=learner.method.model.count_parameters(),
        memory_images=len(learner.memory),
        seconds=round(seconds, 1),
    )
    best = scores.topk(min(5, tasks[-1].seen), dim=1)
    tensors = {
        "targets": labels,
        "top_scores": best.values,
        "top_classes": best.indices,
        "confusion": metrics.confusion(scores.max(dim=1).indices, labels, tasks[-1].seen),
        **introspection(learner, test),
    }
    return Evaluation(step, [task.top1 for task in found.tasks], tensors)


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
