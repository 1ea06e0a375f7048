"""The profile of a whole task: where the time of training, herding and evaluation goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from dytox.bench.suite import some_samples
from dytox.bench.timing import Settings, wait
from dytox.checking import merge
from dytox.config import Config
from dytox.data.exemplars import Exemplars
from dytox.data.loader import Loader
from dytox.data.scenario import Task
from dytox.engine import evaluate, loop, selecting
from dytox.engine.lesson import Lesson
from dytox.engine.observer import Observer
from dytox.engine.phase import Phase
from dytox.engine.precision import Scaler
from dytox.engine.update import Update
from dytox.methods.dytox import DyToxMethod

COMPUTING = ("forward", "backward", "optimiser", "forward, nothing learned")


class Stopwatch:
    """Seconds by phase and part; the time of an inner part does not count for the outer one."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.phase = "evaluation"
        self.seconds: dict[tuple[str, str], float] = {}
        self._within: list[str] = []
        self._last = time.perf_counter()

    def enter(self, part: str) -> None:
        """Count the time from now on for this part."""
        self._book()
        self._within.append(part)

    def leave(self) -> None:
        """Count the time from now on for the part around the present one."""
        self._book()
        self._within.pop()

    def change(self, phase: str) -> None:
        """Count the time from now on for this phase."""
        self._book()
        self.phase = phase

    def _book(self) -> None:
        wait(self.device)
        now = time.perf_counter()
        key = self.phase, self._within[-1] if self._within else "the rest"
        self.seconds[key] = self.seconds.get(key, 0.0) + now - self._last
        self._last = now

    @contextmanager
    def watch(self, owner: Any, name: str, part: str) -> Iterator[None]:
        """Count the time of calls of `owner.name` for `part`, within the context."""
        original, inherited = getattr(owner, name), name not in vars(owner)

        def timed(*positional: Any, **named: Any) -> Any:
            self.enter(part)
            try:
                return original(*positional, **named)
            finally:
                self.leave()

        setattr(owner, name, timed)
        try:
            yield
        finally:
            delattr(owner, name) if inherited else setattr(owner, name, original)


class Phases(Observer):
    """Tells the stopwatch when a phase begins."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch = watch

    def phase_started(self, lesson: Lesson, phase: Phase) -> None:
        self.watch.change(phase.name)


@contextmanager
def watched(watch: Stopwatch) -> Iterator[None]:
    """Time the parts of the engine within the context; the rest of an update counts as backward."""
    with ExitStack() as stack:
        for owner, name, part in (
            (Loader, "batch", "batches"),
            (Update, "__call__", "backward"),
            (DyToxMethod, "forward", "forward"),
            (Scaler, "step", "optimiser"),
            (evaluate, "forward", "forward, nothing learned"),
            (selecting, "selected", "herding"),
        ):
            stack.enter_context(watch.watch(owner, name, part))
        yield


def of_task(
    config: Config, settings: Settings, say: Callable[[str], None], *, each: int = 500
) -> dict[str, Any]:
    """Measure the second task of a run: one epoch of each phase, multiplied by the number of epochs."""
    say("a task from end to end")
    epochs = {"train": config.training.epochs, "finetune": config.finetuning.epochs}
    once = {
        name: {"epochs": 1, "schedule": {"name": "constant", "warmup_epochs": 0}}
        for name in ("training", "finetuning")
    }
    short = Config.model_validate(merge(config.model_dump(), once))
    loop.learn(second_task(short, 4, settings.device), Observer())  # torch imports a lot at the first update
    lesson = second_task(short, each, settings.device)
    watch = Stopwatch(settings.device)
    with watched(watch):
        loop.learn(lesson, Phases(watch))
        watch.change("evaluation")
        evaluate.scores(lesson.method, some_samples(short, lesson.task.seen, 100).images, lesson.world)
        watch.change("")
    return profile(watch.seconds, epochs)


def second_task(config: Config, each: int, device: torch.device) -> Lesson:
    """Return a lesson with `each` images per class, after a first task that was not trained."""
    classes = config.scenario.increment
    known = some_samples(config, classes, each)
    method = DyToxMethod(config).to(device)
    method.model.expand(classes)
    return Lesson(
        config=config,
        method=method,
        task=Task(1, classes, classes),
        new=some_samples(config, classes, each, classes),
        memory=Exemplars.empty(known.size).extended(known, 0).shrunk(config.memory.size // classes),
    )


def profile(seconds: dict[tuple[str, str], float], epochs: dict[str, int]) -> dict[str, Any]:
    """Return the seconds of a whole task, the shares of its parts and phases, and the share of computing."""
    whole = {key: value * epochs.get(key[0], 1) for key, value in seconds.items() if value}
    total = sum(whole.values())
    parts: dict[str, float] = {}
    phases: dict[str, float] = {}
    for (phase, part), value in whole.items():
        parts[part] = parts.get(part, 0.0) + value
        phases[phase] = phases.get(phase, 0.0) + value
    return {
        "seconds": total,
        "parts": {part: value / total for part, value in sorted(parts.items(), key=lambda each: -each[1])},
        "phases": {phase: value / total for phase, value in phases.items()},
        "computing": sum(parts.get(part, 0.0) for part in COMPUTING) / total,
    }
