"""Those who watch a lesson: progress bars, logs, checkpoints."""

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
    """The run was asked to stop; its state was kept first."""


class Diverged(UserError):
    """The loss or the model's output is no number any more, since a step of the epoch at `position`."""

    def __init__(self, message: str, position: Position) -> None:
        super().__init__(message)
        self.position = position


@dataclass(frozen=True)
class State:
    """Where a lesson stands, besides its method and memory."""

    position: Position
    optimizer: Mapping[str, Tensor] = field(default_factory=dict)
    sums: Mapping[str, float] = field(default_factory=dict)  # of the epoch so far


class Observer:
    """Sees a lesson go on; this one looks away."""

    def phase_started(self, lesson: Lesson, phase: Phase) -> None:
        """A phase begins, or goes on."""

    def epoch_started(self, lesson: Lesson, *, steps: int, done: int) -> None:
        """An epoch begins, of so many steps, of which some may be done."""

    def step_ended(self, lesson: Lesson, total: Tensor) -> None:
        """One update was made, at this loss."""

    def epoch_ended(self, lesson: Lesson, record: Mapping[str, Any]) -> None:
        """An epoch is over; the record is its line in the log."""

    def state_reached(self, lesson: Lesson, state: State, *, stopping: bool) -> None:
        """From here the lesson could go on: an epoch or a phase is over, or the lesson stops here."""

    def noticed(self, sentence: str) -> None:
        """Something that a person should know, though the lesson goes on."""

    def stop_wanted(self) -> bool:
        """Whether to stop after this step."""
        return False


class Observers(Observer):
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = observers

    def phase_started(self, lesson: Lesson, phase: Phase) -> None:
        """To each."""
        for each in self.observers:
            each.phase_started(lesson, phase)

    def epoch_started(self, lesson: Lesson, *, steps: int, done: int) -> None:
        """To each."""
        for each in self.observers:
            each.epoch_started(lesson, steps=steps, done=done)

    def step_ended(self, lesson: Lesson, total: Tensor) -> None:
        """To each."""
        for each in self.observers:
            each.step_ended(lesson, total)

    def epoch_ended(self, lesson: Lesson, record: Mapping[str, Any]) -> None:
        """To each."""
        for each in self.observers:
            each.epoch_ended(lesson, record)

    def state_reached(self, lesson: Lesson, state: State, *, stopping: bool) -> None:
        """To each."""
        for each in self.observers:
            each.state_reached(lesson, state, stopping=stopping)

    def noticed(self, sentence: str) -> None:
        """To each."""
        for each in self.observers:
            each.noticed(sentence)

    def stop_wanted(self) -> bool:
        """Whether any of them wants it."""
        return any(each.stop_wanted() for each in self.observers)
