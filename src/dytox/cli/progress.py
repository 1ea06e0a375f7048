"""The progress of a run, as bars or as plain lines; Ctrl-C and SIGTERM stop the run after a step."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import Any

import typer
from rich import progress as bars
from rich.console import Console

from dytox.cli.output import say
from dytox.data.scenario import Scenario
from dytox.engine.lesson import Lesson
from dytox.engine.loop import phases_of
from dytox.engine.observer import Interrupted
from dytox.engine.phase import Phase, Training
from dytox.experiments.watchers import Watcher
from dytox.metrics import Step
from dytox.runs.run_directory import RunDirectory
from dytox.text import plural

SILENCE = 30.0  # seconds between two plain lines within a phase


class Progress(Watcher):
    """Shows the progress of a run, and stops it after Ctrl-C."""

    def __init__(self, console: Console, goes_on: str = "") -> None:
        """`goes_on` says how to continue after it was stopped."""
        self.console, self.goes_on = console, goes_on
        self.stopping = False
        self.spoke = time.monotonic()
        self.tasks = 0
        self.epochs = self.epochs_done = 0  # of the current task, over all its phases
        self.bars = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(bar_width=20),
            bars.TextColumn("{task.fields[count]}"),
            bars.TimeRemainingColumn(),
            bars.TextColumn("left"),
            bars.TextColumn("{task.fields[loss]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self.run_bar = self.bars.add_task("run", total=None, count="", loss="")
        self.phase_bar = self.bars.add_task("", total=None, count="", loss="")

    def __enter__(self) -> Progress:
        self.handlers = {
            number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)
        }
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        if isinstance(error, Interrupted | KeyboardInterrupt):
            if self.goes_on:
                say(self.console, f"Stopped: {self.goes_on}.")
            raise typer.Exit(130) from None

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True
        say(self.console, "Stopping after this step (again: at once) …")

    def stop_wanted(self) -> bool:
        return self.stopping

    def run_started(self, tasks: Scenario, run: RunDirectory) -> None:
        self.tasks, self.goes_on = len(tasks), f"`dytox resume {run.path}` continues it"
        classes, count = plural(len(tasks.class_names), "class"), plural(len(tasks), "task")
        self._say(f"{classes} in {count}, run in {run.path}")
        self.bars.update(self.run_bar, total=len(tasks))

    def phase_started(self, lesson: Lesson, phase: Phase) -> None:
        phases = phases_of(lesson)
        epochs = [each.config.epochs if isinstance(each, Training) else 0 for each in phases]
        place = lesson.position.phase
        self.epochs, self.epochs_done = sum(epochs), sum(epochs[:place])
        self.bars.reset(
            self.phase_bar, total=epochs[place] or None, description=phase.name, count="", loss=""
        )
        self._advance(lesson.task.index, self.epochs_done)

    def epoch_ended(self, lesson: Lesson, record: Mapping[str, Any]) -> None:
        epoch, loss = record["epoch"] + 1, f"loss {record['losses']['total']:.4f}"
        count = f"epoch {epoch}/{self.bars.tasks[self.phase_bar].total:.0f}"
        self.bars.update(self.phase_bar, completed=epoch, count=count, loss=loss)
        self._advance(record["task"], self.epochs_done + epoch)
        if not self.console.is_terminal and time.monotonic() - self.spoke > SILENCE:
            self._say(f"task {record['task'] + 1}{self._of_tasks}, {record['phase']}, epoch {epoch}: {loss}")

    def task_ended(self, step: Step) -> None:
        result = f"{step.top1:5.1f} % right over {step.classes_seen} classes"
        self._say(f"task {step.task + 1}/{self.tasks}: {result}, {step.seconds:.0f} s")

    def noticed(self, sentence: str) -> None:
        self._say(sentence)

    def _advance(self, task: int, epochs: int) -> None:
        completed = task + epochs / max(1, self.epochs)
        self.bars.update(self.run_bar, completed=completed, count=f"task {task + 1}{self._of_tasks}")

    @property
    def _of_tasks(self) -> str:
        return f"/{self.tasks}" if self.tasks else ""  # with `dytox learn` the number of tasks is not known

    def _say(self, text: str) -> None:
        self.spoke = time.monotonic()
        say(self.console, text)
