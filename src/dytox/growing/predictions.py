"""A learner's answers about files, as they come: batch by batch, and what cannot be read is named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dytox import calibration
from dytox.data import images as image_files
from dytox.data.inputs import files_in
from dytox.data.samples import Samples
from dytox.engine.evaluate import evaluation_batch
from dytox.errors import UserError
from dytox.growing import source
from dytox.learner import ContinualLearner
from dytox.learner.assessment import Assessment


@dataclass(frozen=True)
class Guess:
    """A class and the confidence in it."""

    name: str
    confidence: float


@dataclass(frozen=True)
class Prediction:
    """What an image is; `name` is None where that is rejected."""

    image: str
    name: str | None
    confidence: float
    top: list[Guess]

    def to_json(self) -> dict[str, Any]:
        """As programs read it."""
        top = [{"class": each.name, "confidence": each.confidence} for each in self.top]
        return {"image": self.image, "class": self.name, "confidence": self.confidence, "top": top}


def predict(
    learner: ContinualLearner,
    images: Sequence[str],
    *,
    top: int = 1,
    task: int | None = None,
    error_rate: float | None = None,
    skipped: list[str],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Prediction]:
    """Of files, folders (recursively) and `-`, the standard input; into `skipped` goes why some have none."""
    classes = choices(learner, task)
    least = 0.0 if error_rate is None else learner.threshold(error_rate)
    named = [pair for each in images for pair in _sources(each)]
    size, batch, found = learner.size, evaluation_batch(learner.method), 0
    window = image_files.centre(size, learner.config.data.resize or size)
    for start in range(0, len(named), batch):
        part = named[start : start + batch]
        decoded, errors = image_files.decode_many([content for _, content in part], size, window)
        skipped += [str(error) for error in errors.values()]
        names = [name for place, (name, _) in enumerate(part) if place not in errors]
        if names:
            found += len(names)
            scores = learner.scores(decoded)[:, classes]
            confidences = calibration.confidences(scores, learner.temperature)
            yield from _answers(
                [learner.class_names[place] for place in classes], names, confidences, top, least
            )
        progress(start + len(part), len(named))
    if not found:
        raise UserError(skipped[0] if len(skipped) == 1 else f"No image can be read, for one: {skipped[0]}")


def evaluate(learner: ContinualLearner, folder: Path | None) -> tuple[Assessment, list[str]]:
    """On the folder's images of classes that the learner knows; without one, on what it holds out."""
    if folder is None:
        if not len(learner.held_out):
            raise UserError("This model holds no images out to measure by: name a folder of images.")
        return learner.assess(learner.held_out), []
    found = source.find_classes(folder)
    strange = [name for name in found.classes if name not in learner.class_names]
    if len(strange) == len(found.classes):
        raise UserError(f"The model knows none of the classes in {folder}, such as {strange[0]!r}.")
    known = {name: paths for name, paths in found.classes.items() if name not in strange}
    pictures = source.read_pictures(
        source.ImageFolder(folder, known, found.skipped), learner.size, learner.config.data.resize
    )
    labels = torch.tensor([learner.class_names.index(name) for name in pictures.names])
    passed = [f"{folder / name} is a class that the model does not know." for name in strange]
    return learner.assess(Samples(pictures.images, labels)), [*passed, *pictures.skipped]


def choices(learner: ContinualLearner, task: int | None) -> list[int]:
    """The places of the classes to choose from."""
    if task is None:
        return list(range(len(learner.class_names)))
    if not 1 <= task <= len(learner.increments):
        raise UserError(f"There is no task {task}: the model has the tasks 1 to {len(learner.increments)}.")
    old = sum(learner.increments[: task - 1])
    return list(range(old, old + learner.increments[task - 1]))


def _sources(name: str) -> list[tuple[str, str | Path | bytes]]:
    if name == "-":
        return [("-", sys.stdin.buffer.read(image_files.MAX_BYTES))]
    if name and Path(name).is_dir():
        return [(str(path), path) for path in files_in(Path(name))]
    return [(name, name)]


def _answers(
    classes: list[str], images: list[str], confidences: Tensor, top: int, least: float
) -> Iterator[Prediction]:
    order = confidences.argsort(dim=1, descending=True, stable=True)[:, :top]
    values = confidences.gather(1, order)
    for image, row, places in zip(images, values.tolist(), order.tolist(), strict=True):
        guesses = [Guess(classes[place], round(value, 6)) for value, place in zip(row, places, strict=True)]
        yield Prediction(image, guesses[0].name if row[0] >= least else None, guesses[0].confidence, guesses)
