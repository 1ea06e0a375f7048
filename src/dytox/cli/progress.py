"""How a run goes on: bars on a terminal, plain lines elsewhere; Ctrl-C and SIGTERM end it within a step."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from rich import progress as bars
from rich.console import Console
from torch import Tensor

from dytox.cli.tables import compare
from dytox.data.scenario import Scenario
from dytox.engine.lesson import Lesson
from dytox.engine.observer import Interrupted
from dytox.engine.phase import Phase, Training
from dytox.experiments.train import Watcher
from dytox.metrics import Step
from dytox.runs.run_directory import RunDirectory

SILENCE = 30.0  # seconds between plain lines within a phase


class Progress(Watcher):
    """Shows a run to a person."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.stopping = False
        self.spoke = time.monotonic()
        self.loss = ""
        self.tasks = 0
        self.run: RunDirectory | None = None
        self.bars = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            bars.TimeRemainingColumn(),
            bars.TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self.task_bar = self.bars.add_task("task", total=None, note="")
        self.phase_bar = self.bars.add_task("phase", total=None, note="")

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
        if isinstance(error, Interrupted) and self.run is not None:
            self.console.print(f"Stopped, and kept: `dytox resume {self.run.path}` goes on.", soft_wrap=True)
            raise KeyboardInterrupt from None

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True
        self.console.print("Stopping after this step (again: at once) …")

    def stop_wanted(self) -> bool:
        """Once a signal came."""
        return self.stopping

    def run_started(self, tasks: Scenario, run: RunDirectory) -> None:
        """Says where the run is."""
        self.tasks, self.run = len(tasks), run
        self.console.print(
            f"{len(tasks.class_names)} classes in {len(tasks)} tasks, run in {run.path}",
            soft_wrap=True,
            highlight=False,
        )
        self.bars.update(self.task_bar, total=len(tasks))

    def phase_started(self, lesson: Lesson, phase: Phase) -> None:
        """A new bar for a phase."""
        epochs = phase.config.epochs if isinstance(phase, Training) else 1
        self.bars.update(
            self.task_bar, completed=lesson.task.index, description=f"task {lesson.task.index + 1}"
        )
        self.bars.reset(self.phase_bar, total=epochs, description=phase.name)

    def step_ended(self, lesson: Lesson, total: Tensor) -> None:
        """Nothing waits for the device here."""

    def epoch_ended(self, lesson: Lesson, record: Mapping[str, Any]) -> None:
        """One epoch more, and its loss."""
        note = f"loss {record['losses']['total']:.4f}"
        self.bars.update(self.phase_bar, completed=record["epoch"] + 1, note=note)
        if not self.console.is_terminal and time.monotonic() - self.spoke > SILENCE:
            self._say(f"task {record['task'] + 1}, {record['phase']}, epoch {record['epoch'] + 1}: {note}")

    def task_ended(self, step: Step) -> None:
        """What the task gave."""
        top1 = f"{step.top1:5.1f} % of {step.classes_seen} classes"
        self._say(f"task {step.task + 1}/{self.tasks}: {top1}, {step.seconds:.0f} s")

    def show(self, found: dict[str, Any], out: Path) -> None:
        """The end of a run."""
        compare(self.console, [(out, found)])

    def _say(self, text: str) -> None:
        self.spoke = time.monotonic()
        self.console.print(text, highlight=False)
