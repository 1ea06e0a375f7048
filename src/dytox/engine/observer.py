"""Observers are told how a lesson goes on: progress bars, logs, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from dytox.engine.lesson import Lesson
from dytox.engine.phase import Phase
from dytox.errors import UserError
from dytox.randomness import Position


class Interrupted(Exception):
    """The lesson was asked to stop; its state was saved first."""


class Diverged(UserError):
    """The loss or the model's output became NaN or infinite in the epoch at `position`."""

    def __init__(self, message: str, position: Position) -> None:
        super().__init__(message)
        self.position = position


@dataclass(frozen=True)
class State:
    """How far a lesson is; with its method and memory, all that is needed to go on."""

    position: Position
    optimizer: Mapping[str, Tensor] = field(default_factory=dict)
    sums: Mapping[str, float] = field(default_factory=dict)  # of the epoch so far


class Observer:
    """The base class; it ignores everything that it is told."""

    def phase_started(self, lesson: Lesson, phase: Phase) -> None:
        """A phase begins, or is resumed."""

    def epoch_started(self, lesson: Lesson, *, steps: int, done: int) -> None:
        """An epoch of `steps` updates begins; `done` of them were made before it was interrupted."""

    def step_ended(self, lesson: Lesson, total: Tensor) -> None:
        """One update was made; `total` is its loss."""

    def epoch_ended(self, lesson: Lesson, record: Mapping[str, Any]) -> None:
        """An epoch is over; `record` is its line in the log."""

    def state_reached(self, lesson: Lesson, state: State, *, stopping: bool) -> None:
        """The lesson can be resumed from `state`: an epoch or a phase is over, or the lesson stops here."""

    def noticed(self, sentence: str) -> None:
        """Something that a person should know, though the lesson goes on."""

    def stop_wanted(self) -> bool:
        """Whether the lesson should stop after this step."""
        return False


class Observers(Observer):
    """Passes everything on to several observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = observers

    def phase_started(self, lesson: Lesson, phase: Phase) -> None:
        for each in self.observers:
            each.phase_started(lesson, phase)

    def epoch_started(self, lesson: Lesson, *, steps: int, done: int) -> None:
        for each in self.observers:
            each.epoch_started(lesson, steps=steps, done=done)

    def step_ended(self, lesson: Lesson, total: Tensor) -> None:
        for each in self.observers:
            each.step_ended(lesson, total)

    def epoch_ended(self, lesson: Lesson, record: Mapping[str, Any]) -> None:
        for each in self.observers:
            each.epoch_ended(lesson, record)

    def state_reached(self, lesson: Lesson, state: State, *, stopping: bool) -> None:
        for each in self.observers:
            each.state_reached(lesson, state, stopping=stopping)

    def noticed(self, sentence: str) -> None:
        """To each."""
        for each in self.observers:
            each.noticed(sentence)

    def stop_wanted(self) -> bool:
        return any(each.stop_wanted() for each in self.observers)
