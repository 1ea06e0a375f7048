"""Runs put together: those that differ in nothing but seed and class order count as one."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dytox import metrics
from dytox.checking import flat
from dytox.published.figures import CLASSES, DATASETS
from dytox.report.record import Record
from dytox.report.text import plural

NAMED = 3  # so many differing keys can stand in a label
Spread = tuple[float, float | None]  # mean and standard deviation, which one value does not have


@dataclass(frozen=True)
class Group:
    """Runs of one config in one scenario."""

    label: str
    place: int  # among the labels: its colour
    scenario: str
    records: list[Record]  # those that learned most tasks
    behind: list[Record]  # those that learned fewer, and do not count

    @property
    def seen(self) -> list[int]:
        """The classes known after each task."""
        return self.records[0].seen

    def spread(self, key: str) -> Spread | None:
        """A figure of `metrics.json` over the runs."""
        values = [(record.metrics or {}).get(key) for record in self.records]
        return spread(values)

    def after_each(self, key: str) -> list[Spread | None]:
        """A figure of every step over the runs."""
        return [
            spread([record.steps[task].get(key) for record in self.records]) for task in range(len(self.seen))
        ]


def spread(values: Sequence[float | None]) -> Spread | None:
    """Mean and standard deviation of the values there are."""
    there = [value for value in values if value is not None]
    return metrics.mean_std(there) if there else None


def group(records: Sequence[Record]) -> list[Group]:
    """The runs by config, in the order in which they were named."""
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
        groups.append(Group(label, places.index(label), scenario(front[0]), front, behind))
    return groups


def scenario(record: Record) -> str:
    """A scenario's name: the dataset, how many of its classes, and the steps."""
    data, wanted = record.config.data.dataset, record.config.scenario
    total = {**CLASSES, "digits": 10}.get(data)
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


def differing(records: Sequence[Record]) -> list[str]:
    """The keys in which the configs of these runs differ."""
    owns = [_own(record) for record in records]
    keys = dict.fromkeys(key for own in owns for key in own)
    return [key for key in keys if len({json.dumps(own.get(key)) for own in owns}) > 1]


def value(record: Record, key: str) -> Any:
    """What a run's config has under a full key; None where it has no such key."""
    return _own(record).get(key)


def _labels(records: Sequence[Record]) -> list[str]:
    """The methods' names, with what differs where one name stands for several configs of a scenario."""
    labels = []
    for record in records:
        alike = [
            each for each in records if (each.method, scenario(each)) == (record.method, scenario(record))
        ]
        keys = differing(alike)
        if not keys:
            labels.append(record.method)
        elif len(keys) <= NAMED:
            labels.append(f"{record.method} ({', '.join(f'{key} {value(record, key)}' for key in keys)})")
        else:
            labels.append(f"{record.method} ({record.name})")
    return labels


def _own(record: Record) -> dict[str, Any]:
    """The config without what may differ within a group or has no effect."""
    values = record.config.decisive()
    del values["recipe"], values["seed"], values["scenario"]["order"]
    return flat(values)
