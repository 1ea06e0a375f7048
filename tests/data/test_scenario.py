from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dytox.config import ScenarioConfig
from dytox.data import scenario
from dytox.data.samples import Dataset, Samples
from dytox.data.scenario import Task
from dytox.errors import UserError


def made(classes: int, name: str = "made", each: int = 2) -> Dataset:
    """Images of one pixel whose value is the dataset's label; the classes are interleaved."""
    labels = torch.arange(classes).repeat(each)
    samples = Samples(labels.to(torch.uint8).view(-1, 1, 1, 1).repeat(1, 3, 1, 1), labels)
    return Dataset(name, samples, samples, tuple(f"class {label}" for label in range(classes)))


def build(count: int, name: str = "made", **config: Any) -> scenario.Scenario:
    return scenario.build(ScenarioConfig(**config), made(count, name))


def sizes(built: scenario.Scenario) -> list[int]:
    return [task.new for task in built]


def test_labels_are_places_in_the_order_of_learning() -> None:
    built = build(5, order=[4, 0, 2, 1, 3], first=3, increment=1)
    assert built.tasks == (Task(0, 0, 3), Task(1, 3, 1), Task(2, 4, 1))
    assert built.class_order == (4, 0, 2, 1, 3)
    assert built.class_names == ("class 4", "class 0", "class 2", "class 1", "class 3")
    first = built.train(built.tasks[0])
    assert first.labels.tolist() == [1, 2, 0, 1, 2, 0]  # the dataset's 0, 2, 4, 0, 2, 4
    assert first.images[:, 0, 0, 0].tolist() == [0, 2, 4, 0, 2, 4]
    second = built.train(built.tasks[1])
    assert second.labels.tolist() == [3, 3]
    assert second.images[:, 0, 0, 0].tolist() == [1, 1]


def test_the_test_set_has_all_classes_seen() -> None:
    built = build(4, increment=2)
    assert built.tasks[1].seen == 4
    assert built.test_seen(built.tasks[0]).labels.tolist() == [0, 1, 0, 1]
    assert sorted(built.test_seen(built.tasks[1]).labels.tolist()) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_nested_loops_do_not_share_a_counter() -> None:
    built = build(6, increment=2)
    assert len(built) == 3
    pairs = [(outer.index, inner.index) for outer in built for inner in built]
    assert pairs == [(i, j) for i in range(3) for j in range(3)]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"increment": 4}, [4, 4, 2]),  # the last takes what is left
        ({"first": 5, "increment": 2}, [5, 2, 2, 1]),
        ({"increment": 99}, [10]),
        ({"increments": [1, 7, 2]}, [1, 7, 2]),
        ({"increments": [2, 2], "classes": 4}, [2, 2]),
        ({"classes": 7, "increment": 5}, [5, 2]),
        ({"increments": [1, 7, 2], "joint": True}, [10]),
        ({"first": 10}, [10]),
    ],
)
def test_increments(config: dict[str, Any], expected: list[int]) -> None:
    assert sizes(build(10, **config)) == expected


@given(st.integers(2, 30), st.integers(1, 40), st.integers(1, 30))
def test_tasks_are_neighbouring_blocks_that_cover_every_class_once(
    count: int, increment: int, first: int
) -> None:
    built = build(count, first=min(first, count), increment=increment, order=1)
    assert [task.index for task in built] == list(range(len(built)))
    assert [task.old for task in built] == [0, *(task.seen for task in built)][:-1]
    assert built.tasks[-1].seen == count
    labels = [label for task in built for label in sorted(set(built.train(task).labels.tolist()))]
    assert labels == list(range(count))


def test_only_the_first_classes_of_the_order_are_there() -> None:
    built = build(5, order=[3, 1, 0, 4, 2], classes=2, increment=1)
    assert built.class_order == (3, 1)
    assert set(built.train_samples.images.flatten().tolist()) == {1, 3}
    assert len(built.test_samples) == 4


def test_a_list_may_leave_classes_out() -> None:
    built = build(5, order=[3, 1], increment=1)
    assert sizes(built) == [1, 1]
    assert len(built.train_samples) == 4


@pytest.mark.parametrize("number", [1, 2, 3])
def test_cifar_orders_are_the_published_ones(number: int) -> None:
    facts = json.loads((files("dytox") / "facts" / "class_orders.json").read_text())
    built = build(100, "cifar100", order=number)
    assert list(built.class_order) == facts[f"cifar100_order{number}"]


def test_the_first_published_order_starts_as_in_the_authors_code() -> None:
    assert build(100, "cifar100", order=1).class_order[:5] == (87, 0, 52, 58, 44)


def test_other_datasets_are_shuffled_by_the_number() -> None:
    one, again, two = (build(20, order=number).class_order for number in (1, 1, 2))
    assert one == again
    assert sorted(one) == list(range(20))
    assert len({one, two, tuple(range(20))}) == 3


@pytest.mark.parametrize(
    ("classes", "config", "words"),
    [
        (5, {"order": [0, 5]}, "label 5, but the labels of made are 0 to 4"),
        (5, {"order": [0, -1]}, "label -1"),
        (5, {"order": [0, 1, 0]}, "label 0 more than once"),
        (5, {"order": [2]}, "two classes or more: this order of made has 1"),
        (5, {"order": []}, "has 0"),
        (1, {}, "two classes or more"),
        (5, {"classes": 6}, "scenario.classes is 6, but there are only 5"),
        (5, {"order": [0, 1, 2], "classes": 4}, "only 3"),
        (5, {"first": 6}, "scenario.first is 6, but there are only 5"),
        (5, {"increments": [2, 2]}, "add up to 4 .* are 5: .* or set scenario.classes to 4"),
        (5, {"increments": [2, 4]}, r"add up to 6 .* make them add up to 5\.$"),
    ],
)
def test_impossible_scenarios_are_refused(classes: int, config: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        build(classes, **config)


def test_an_order_that_was_not_published_is_refused() -> None:
    with pytest.raises(UserError, match=r"scenario\.order 7: the published orders of cifar100 are 1, 2, 3"):
        build(100, "cifar100", order=7)
