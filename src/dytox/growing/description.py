"""What there is to know about a model directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dytox.learner import ContinualLearner


@dataclass(frozen=True)
class TaskDescription:
    """One task: its classes, when they were learned, and what they take up."""

    task: int  # counted from 1
    classes: list[str]
    learned: str | None
    weight_bytes: int  # the task's own, beside what all tasks share
    memory_images: int
    memory_bytes: int


@dataclass(frozen=True)
class ModelDescription:
    """A model directory."""

    path: str
    recipe: str
    method: str
    image_size: int
    classes: int
    tasks: list[TaskDescription]
    parameters: int
    memory_images: int
    held_out_images: int
    temperature: float
    bytes: int
    history: list[dict[str, Any]]


def describe_model(path: Path, method: str | None = None) -> ModelDescription:
    """The model in this directory; a custom method must be named."""
    learner = ContinualLearner.load(path, method=method)
    return ModelDescription(
        path=str(path),
        recipe=learner.config.recipe,
        method=learner.config.method.name,
        image_size=learner.size,
        classes=len(learner.class_names),
        tasks=[_task(learner, index) for index in range(len(learner.increments))],
        parameters=learner.method.model.count_parameters(),
        memory_images=len(learner.memory),
        held_out_images=len(learner.held_out),
        temperature=learner.temperature,
        bytes=sum(each.stat().st_size for each in path.iterdir() if each.is_file()),
        history=learner.history,
    )


def _task(learner: ContinualLearner, index: int) -> TaskDescription:
    old = sum(learner.increments[:index])
    labels = range(old, old + learner.increments[index])
    names = [learner.class_names[label] for label in labels]
    dates = [each.get("finished") for each in learner.history if set(names) & {*each.get("classes", [])}]
    kept = [part.between(old, labels.stop) for part in (learner.memory.samples, learner.held_out)]
    contents = [content for part in kept for content in part.contents()]
    return TaskDescription(
        task=index + 1,
        classes=names,
        learned=dates[-1] if dates else None,
        weight_bytes=sum(each.nbytes for each in learner.method.model.own_weights(index)),
        memory_images=len(contents),
        memory_bytes=sum(map(len, contents)),
    )
