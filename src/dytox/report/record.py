"""Runs as a report reads them from their directories, and groups of runs that count as one.

A run that was killed is read too. Runs that differ only in seed and class order form a group.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from dytox import metrics
from dytox.checking import flat
from dytox.config import Config
from dytox.errors import UserError
from dytox.metrics import FORMAT
from dytox.published.comparable import method_label
from dytox.published.figures import CLASS_COUNTS, DATASETS
from dytox.runs import files
from dytox.runs.run_directory import RunDirectory
from dytox.text import plural, printable


@dataclass(frozen=True)
class Record:
    """The content of a run directory; `metrics` is None before the first task is learned."""

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
        """The name of the run directory."""
        return printable(self.path.resolve().name)

    @property
    def method(self) -> str:
        """The name of the method, the paper's where it has one."""
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
        """The command line that started the run."""
        program, *arguments = self.environment.get("command") or ["dytox"]
        ours = Path(program).name in ("dytox", "__main__.py")
        return shlex.join(["dytox", *arguments] if ours else ["python", program, *arguments])

    def require_metrics(self) -> None:
        """Raise a UserError if the run has not finished a task yet."""
        if self.metrics is None:
            path = self.path
            raise UserError(
                f"The run {path} has not finished a task yet: `dytox resume {path}` continues it."
            )

    def class_name(self, label: int) -> str:
        """Return the name of a class, or its number where the names are not known."""
        return self.class_names[label] if label < len(self.class_names) else f"class {label}"


def read_record(path: str | Path) -> Record:
    """Read a run directory."""
    run = RunDirectory(path)
    metrics = _metrics(run)
    config = run.read_config()
    evaluation: dict[str, Tensor] = {}
    names: list[str] = []
    if metrics:
        try:
            evaluation, _ = run.load_evaluation(metrics["steps"][-1]["task"])
            names = [str(name) for name in files.read_mapping(run.model / "config.json").get("classes", [])]
        except files.MissingFile:  # a part that is missing is not shown
            pass
    try:
        environment = run.read_environment()
    except files.MissingFile:
        environment = {}
    finished = metrics is not None and not any(run.checkpoints.folder.glob("checkpoint-*.json"))
    return Record(run.path, config, environment, metrics, run.log_lines(), evaluation, names, finished)


def runs_in(paths: Iterable[Path]) -> list[Path]:
    """Return run directories: a path that is not one stands for those in it, as `--seeds` leaves them."""
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
        path = run.path / "metrics.json"
        raise UserError(f"{path} is not the metrics file of a run in format {FORMAT}: name another run.")
    return found


NAMED = 3  # at most this many differing keys stand in a label
Spread = tuple[float, float | None]  # mean and standard deviation; None for a single value


@dataclass(frozen=True)
class Group:
    """Runs of one config in one scenario, which may differ in seed and class order."""

    label: str
    place: int  # the place of the label among all labels; it chooses the colour
    scenario: str
    records: list[Record]  # those that have learned most tasks
    behind: list[Record]  # those that have learned fewer; they do not count

    @property
    def seen(self) -> list[int]:
        """The classes known after each task."""
        return self.records[0].seen

    def spread(self, key: str) -> Spread | None:
        """Return mean and deviation over the runs of a figure of `metrics.json`."""
        values = [(record.metrics or {}).get(key) for record in self.records]
        return spread_of(values)

    def after_each(self, key: str) -> list[Spread | None]:
        """Return mean and deviation over the runs of a figure of each step."""
        return [
            spread_of([record.steps[task].get(key) for record in self.records])
            for task in range(len(self.seen))
        ]


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """Return mean and standard deviation of the values that are not None."""
    there = [value for value in values if value is not None]
    return metrics.mean_std(there) if there else None


def group(records: Sequence[Record]) -> list[Group]:
    """Group runs by their config, in the order in which they are given."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(json.dumps(_own(record), sort_keys=True), []).append(record)
    labels = _labels([each[0] for each in found.values()])
    places = list(dict.fromkeys(labels))
    groups = []
    for label, each in zip(labels, found.values(), strict=True):
        most = max(len(record.steps) for record in each)
        front = [record for record in each if len(record.steps) == most]
        behind = [record for record in each if len(record.steps) < most]
        groups.append(Group(label, places.index(label), scenario_name(front[0]), front, behind))
    return groups


def scenario_name(record: Record) -> str:
    """Return a scenario's name: the dataset, the number of its classes, and the number of steps."""
    data, wanted = record.config.data.dataset, record.config.scenario
    total = {**CLASS_COUNTS, "digits": 10}.get(data)
    name = DATASETS.get(data, data)
    if wanted.classes not in (None, total):
        name, total = f"{name}, {wanted.classes} classes", wanted.classes
    first = wanted.first or wanted.increment
    if first != wanted.increment:
        name = f"{name}, {first} classes first,"
    if wanted.joint:
        return f"{name}, jointly"
    if wanted.increments is not None:
        return f"{name} in {plural(len(wanted.increments), 'step')}"
    if total is None:
        return f"{name}, {wanted.increment} classes a step"
    return f"{name} in {plural(1 + math.ceil((total - first) / wanted.increment), 'step')}"


def differing_keys(records: Sequence[Record]) -> list[str]:
    """Return the config keys in which these runs differ."""
    owns = [_own(record) for record in records]
    keys = dict.fromkeys(key for own in owns for key in own)
    return [key for key in keys if len({json.dumps(own.get(key)) for own in owns}) > 1]


def config_value(record: Record, key: str) -> Any:
    """Return the value of a run's config under a full key, or None where it has no such key."""
    return _own(record).get(key)


def _labels(records: Sequence[Record]) -> list[str]:
    """The methods' names, with the differing keys where one name stands for several configs of a scenario."""
    labels = []
    for record in records:
        alike = [
            each
            for each in records
            if (each.method, scenario_name(each)) == (record.method, scenario_name(record))
        ]
        keys = differing_keys(alike)
        if not keys:
            labels.append(record.method)
        elif len(keys) <= NAMED:
            labels.append(
                f"{record.method} ({', '.join(f'{key} {config_value(record, key)}' for key in keys)})"
            )
        else:
            labels.append(f"{record.method} ({record.name})")
    return labels


def _own(record: Record) -> dict[str, Any]:
    """The config without what may differ within a group or has no effect."""
    values = record.config.decisive()
    del values["recipe"], values["seed"], values["scenario"]["order"]
    return flat(values)
