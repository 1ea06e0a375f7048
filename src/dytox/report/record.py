"""All that a report shows of a run, read from its directory: also of one that was killed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from dytox.config import Config
from dytox.errors import UserError
from dytox.metrics import FORMAT
from dytox.published.comparable import method_label
from dytox.report.text import printable
from dytox.runs import files
from dytox.runs.run_directory import RunDirectory


@dataclass(frozen=True)
class Record:
    """What a run left behind; `metrics` is None before its first task is learned."""

    path: Path
    config: Config
    environment: dict[str, Any]
    metrics: dict[str, Any] | None
    log: list[dict[str, Any]]
    evaluation: dict[str, Tensor]  # after the last task; empty where there is none
    class_names: list[str]
    finished: bool

    @property
    def name(self) -> str:
        """Its folder's name."""
        return printable(self.path.resolve().name)

    @property
    def method(self) -> str:
        """The method, by the paper's name where it has one."""
        return method_label(self.config)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What was measured after each task."""
        return self.metrics["steps"] if self.metrics else []

    @property
    def seen(self) -> list[int]:
        """The classes known after each task."""
        return [step["classes_seen"] for step in self.steps]

    @property
    def tokens(self) -> int:
        """The number of task tokens; 0 where the method has none."""
        return len(self.evaluation.get("token_distances", ()))

    @cached_property
    def command(self) -> str:
        """The command line that began the run."""
        program, *arguments = self.environment.get("command") or ["dytox"]
        ours = Path(program).name in ("dytox", "__main__.py")
        return shlex.join(["dytox", *arguments] if ours else ["python", program, *arguments])

    def require_metrics(self) -> None:
        """Refuses a run of which no task was measured."""
        if self.metrics is None:
            path = self.path
            raise UserError(
                f"The run {path} has not finished a task yet: `dytox resume {path}` goes on with it."
            )

    def class_name(self, label: int) -> str:
        """A class by its name, or its number where names are lost."""
        return self.class_names[label] if label < len(self.class_names) else f"class {label}"


def read(path: str | Path) -> Record:
    """The run in this directory."""
    run = RunDirectory(path)
    metrics = _metrics(run)
    config = run.read_config()
    evaluation: dict[str, Tensor] = {}
    names: list[str] = []
    if metrics:
        try:
            evaluation, _ = run.load_evaluation(metrics["steps"][-1]["task"])
            names = [str(name) for name in files.read_mapping(run.model / "config.json").get("classes", [])]
        except files.MissingFile:  # what is not there is not shown
            pass
    try:
        environment = run.read_environment()
    except files.MissingFile:
        environment = {}
    finished = metrics is not None and not any(run.checkpoints.folder.glob("checkpoint-*.json"))
    return Record(run.path, config, environment, metrics, run.log_lines(), evaluation, names, finished)


def runs_in(paths: Iterable[Path]) -> list[Path]:
    """The run directories: a folder that is none stands for the runs in it, as `--seeds` leaves them."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(each.parent for each in path.glob("*/config.yaml")) if path.is_dir() else []
        found += inside if inside and not (path / "config.yaml").exists() else [path]
    return list(dict.fromkeys(found))


def _metrics(run: RunDirectory) -> dict[str, Any] | None:
    if not run.has_metrics():
        return None
    found = run.read_metrics()
    if found.get("format") != FORMAT or not found.get("steps"):
        raise UserError(f"{run.path / 'metrics.json'} is not a run's, of format {FORMAT}: name another run.")
    return found
