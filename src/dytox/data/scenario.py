"""A dataset split into tasks, each with some of the classes.

Labels inside a scenario are positions in the order of learning: a task has the labels from `old` to `seen`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

import torch

from dytox.config import ScenarioConfig
from dytox.data.samples import Dataset, Samples
from dytox.errors import UserError
from dytox.randomness import Position, generator


@dataclass(frozen=True)
class Task:
    """One step of a scenario: `new` classes are added to the `old` ones."""

    index: int
    old: int
    new: int

    @property
    def seen(self) -> int:
        """The number of classes known after this task."""
        return self.old + self.new


@dataclass(frozen=True)
class Scenario:
    """The tasks of a dataset in their order."""

    tasks: tuple[Task, ...]
    class_order: tuple[int, ...]  # the dataset's label of each class, in the order of learning
    class_names: tuple[str, ...]  # in the order of learning
    train_samples: Samples  # labels in the order of learning
    test_samples: Samples

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def train(self, task: Task) -> Samples:
        """The training images of the classes that are new in the task."""
        return self.train_samples.between(task.old, task.seen)

    def test_seen(self, task: Task) -> Samples:
        """The test images of all classes up to and including this task."""
        return self.test_samples.between(0, task.seen)


def build(config: ScenarioConfig, dataset: Dataset) -> Scenario:
    """Split the dataset into the tasks that the config describes."""
    order = _class_order(config, dataset)
    tasks: list[Task] = []
    for new in _increments(config, len(order)):
        tasks.append(Task(len(tasks), tasks[-1].seen if tasks else 0, new))
    return Scenario(
        tasks=tuple(tasks),
        class_order=order,
        class_names=tuple(dataset.class_names[label] for label in order),
        train_samples=_relabel(dataset.train, order, len(dataset.class_names)),
        test_samples=_relabel(dataset.test, order, len(dataset.class_names)),
    )


def _class_order(config: ScenarioConfig, dataset: Dataset) -> tuple[int, ...]:
    count = len(dataset.class_names)
    if config.order == "natural":
        order: Sequence[int] = range(count)
    elif isinstance(config.order, int):
        order = _numbered_order(config.order, dataset.name, count)
    else:
        order = config.order
    outside = [label for label in order if not 0 <= label < count]
    if outside:
        known = f"the labels of {dataset.name} are 0 to {count - 1}"
        raise UserError(f"The class order has label {outside[0]}, but {known}.")
    if len(set(order)) < len(order):
        twice = next(label for label in order if list(order).count(label) > 1)
        raise UserError(f"The class order has label {twice} more than once: name each class once.")
    if config.classes is not None and config.classes > len(order):
        raise UserError(f"scenario.classes is {config.classes}, but there are only {len(order)} classes.")
    order = order[: config.classes]
    if len(order) < 2:
        raise UserError(
            f"A scenario needs two classes or more: this order of {dataset.name} has {len(order)}."
        )
    return tuple(order)


def _numbered_order(number: int, dataset: str, count: int) -> list[int]:
    facts = json.loads((files("dytox") / "facts" / "class_orders.json").read_text(encoding="utf-8"))
    prefix = f"{dataset}_order"
    published = {key.removeprefix(prefix): order for key, order in facts.items() if key.startswith(prefix)}
    if not published:
        return torch.randperm(count, generator=generator(number, Position(), "class order")).tolist()
    if str(number) not in published:
        known = ", ".join(sorted(published, key=int))
        raise UserError(f"scenario.order {number}: the published orders of {dataset} are {known}.")
    return [int(label) for label in published[str(number)]]


def _increments(config: ScenarioConfig, count: int) -> list[int]:
    if config.joint:
        return [count]
    if config.increments is not None:
        total = sum(config.increments)
        if total != count:
            mend = f", or set scenario.classes to {total}" if 1 < total < count else ""
            raise UserError(
                f"scenario.increments {config.increments} add up to {total} classes, but there are {count}: "
                f"make them add up to {count}{mend}."
            )
        return list(config.increments)
    if config.first is not None and config.first > count:
        raise UserError(f"scenario.first is {config.first}, but there are only {count} classes.")
    first = min(config.first or config.increment, count)
    later = range(first, count, config.increment)
    return [first, *(min(config.increment, count - start) for start in later)]


def _relabel(samples: Samples, order: Sequence[int], count: int) -> Samples:
    place = torch.full((count,), -1, dtype=torch.int64)
    place[torch.tensor(order)] = torch.arange(len(order))
    found = samples.relabelled(place[samples.labels])
    return found if len(order) == count else found.between(0, len(order))
