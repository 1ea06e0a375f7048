"""TensorBoard and Weights & Biases get the lines of the log and the metrics; dytox reads nothing back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from dytox import metrics
from dytox.config import Config
from dytox.data.scenario import Scenario
from dytox.engine.lesson import Lesson
from dytox.errors import UserError
from dytox.experiments.watchers import Watcher
from dytox.runs.run_directory import RunDirectory


class Logger(Protocol):
    """Takes named numbers at an epoch of the run, counted from 0 over all tasks and phases."""

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Numbers of this epoch."""

    def close(self) -> None:
        """Called when the run ends or is cut off."""


class TensorBoard:
    """Event files in the run directory's folder `tensorboard`."""

    def __init__(self, run: RunDirectory, config: Config, epoch: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(run.path / "tensorboard"), purge_step=epoch)

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """One point on each curve."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, epoch)

    def close(self) -> None:
        """Write what is left."""
        self.writer.close()


class WeightsAndBiases:
    """A run of the project `dytox`; its id is of the run directory, so that a resumed run goes on there."""

    def __init__(self, run: RunDirectory, config: Config, epoch: int) -> None:
        wandb = import_module("wandb")
        started = run.read_environment()["started"]
        name = hashlib.blake2b(f"{run.path.resolve()} {started}".encode(), digest_size=8).hexdigest()
        self.run: Any = wandb.init(
            project="dytox",
            id=name,
            name=run.path.resolve().name,
            dir=str(run.path),
            config=config.model_dump(),
            resume="allow",
        )
        self.run.define_metric("*", step_metric="epoch")

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """One point on each curve."""
        self.run.log({"epoch": epoch, **values})

    def close(self) -> None:
        """Ends the run there."""
        self.run.finish()


LOGGERS: dict[str, tuple[Callable[[RunDirectory, Config, int], Logger], str]] = {
    "tensorboard": (TensorBoard, "pip install 'dytox[tensorboard]'"),
    "wandb": (WeightsAndBiases, "pip install wandb"),
}


def check_loggers(config: Config) -> None:
    """Raise if the package of a logger is not installed, before anything is computed."""
    for name in config.runtime.loggers:
        if find_spec(name) is None:
            raise UserError(f"runtime.loggers names {name}, which is not installed: {LOGGERS[name][1]}.")


class Logging(Watcher):
    """Passes a run's records on to the loggers that its config names."""

    def __init__(self) -> None:
        self.loggers: list[Logger] = []
        self.epoch = 0  # the next one, as many as the log has lines

    def run_started(self, tasks: Scenario, run: RunDirectory) -> None:
        """Opens the loggers, where the log stands."""
        config = run.read_config()
        if config.runtime.loggers:
            self.epoch = len(run.log_lines())
            self.loggers = [LOGGERS[name][0](run, config, self.epoch) for name in config.runtime.loggers]

    def epoch_ended(self, lesson: Lesson, record: Mapping[str, Any]) -> None:
        """A line of the log."""
        values = {f"loss/{name}": value for name, value in record["losses"].items()}
        self._log({**values, **{key: record[key] for key in ("task", "lr", "images_per_second")}})
        self.epoch += 1

    def task_ended(self, step: metrics.Step) -> None:
        """What was measured, at the task's last epoch."""
        figures = {f"after_task/{name}": value for name, value in asdict(step).items() if value is not None}
        self.epoch -= 1
        self._log(figures)
        self.epoch += 1

    def close(self) -> None:
        """The run is over, or was cut off."""
        for each in self.loggers:
            each.close()

    def _log(self, values: Mapping[str, float]) -> None:
        for each in self.loggers:
            each.log(self.epoch, values)
