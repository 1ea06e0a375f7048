"""The action that fills the memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dytox.data.augment import normalise
from dytox.data.exemplars import Exemplars
from dytox.data.samples import Samples
from dytox.data.scenario import Task
from dytox.engine.lesson import Lesson
from dytox.engine.selecting import select_memory
from dytox.errors import UserError
from dytox.memory import selected
from dytox.methods.dytox import DyToxMethod
from dytox.randomness import Position

FIRST, SECOND = Task(0, 0, 2), Task(1, 2, 3)


@pytest.fixture
def lesson(tiny, made):
    """After the training of a task of two or three classes, before its memory is selected."""

    def build(*, task: Task = FIRST, memory: Exemplars | None = None, **over) -> Lesson:
        torch.manual_seed(task.index)
        config = tiny(memory=over, augment={"flip": 0.5, "pad": 2})
        method = DyToxMethod(config)
        for _ in range(task.index):
            method.model.expand(task.old // task.index)
        method.model.expand(task.new)
        return Lesson(
            config=config,
            method=method.train(),  # the action itself must see to the mode
            task=task,
            new=made(task.old, task.seen, each=9),
            memory=memory or Exemplars.empty(8),
            position=Position(task.index, 3),
        )

    return build


def per_class(memory: Exemplars) -> list[int]:
    return torch.bincount(memory.samples.labels).tolist()


def same(one: Exemplars, other: Exemplars) -> bool:
    mine, its = one.tensors(), other.tensors()
    return all(torch.equal(mine[name], its[name]) for name in mine)


def images_of(samples: Samples, label: int) -> torch.Tensor:
    return samples.images[samples.labels == label]


@pytest.mark.parametrize("task", [FIRST, SECOND], ids=["one token", "two tokens"])
@pytest.mark.parametrize("name", ["herding", "closest"])
def test_by_the_embeddings_of_all_tokens_without_augmentation(lesson, name, task):
    this = lesson(task=task, size=4 * task.seen, selection=name)
    select_memory(this)
    assert per_class(this.memory)[task.old :] == [4] * task.new
    this.method.eval()
    for label in range(task.old, task.seen):
        images = images_of(this.new, label)
        with torch.no_grad():
            found = this.method.model(normalise(images, [0.5] * 3, [0.5] * 3)).embeddings.flatten(1)
        assert found.shape == (9, 12 * (task.index + 1))
        expected = images[selected(name, [found], 4, torch.Generator())[0]]
        assert torch.equal(images_of(this.memory.samples, label), expected)


@pytest.mark.parametrize("over", [{}, {"selection": "random"}, {"shares": 2}])
def test_two_extractions_are_identical(lesson, over):
    this, again = lesson(size=16, **over), lesson(size=16, **over)
    select_memory(this)
    torch.rand(7)
    select_memory(again)
    assert same(this.memory, again.memory)
    this.memory = Exemplars.empty(8)
    select_memory(this)
    assert same(this.memory, again.memory)


def test_features_are_extracted_in_eval_mode(lesson):
    this = lesson(size=16)
    modes = []
    this.method.model.register_forward_hook(
        lambda model, *_: modes.append([m.training for m in model.modules()])
    )
    select_memory(this)
    assert modes
    assert not any(map(any, modes))


def test_old_classes_keep_the_first_of_theirs(lesson):
    first = lesson(size=13)
    select_memory(first)
    assert per_class(first.memory) == [6, 6]
    second = lesson(task=SECOND, memory=first.memory, size=13)
    select_memory(second)
    assert per_class(second.memory) == [2] * 5
    for label in (0, 1):
        kept, before = (images_of(memory.samples, label) for memory in (second.memory, first.memory))
        assert torch.equal(kept, before[:2])


def test_a_fixed_number_a_class(lesson):
    first = lesson(size=15, per_class=3)
    select_memory(first)
    second = lesson(task=SECOND, memory=first.memory, size=15, per_class=3)
    select_memory(second)
    assert per_class(second.memory) == [3] * 5


def test_a_class_with_fewer_images_gives_all_it_has(lesson):
    this = lesson(size=40)
    select_memory(this)
    assert per_class(this.memory) == [9, 9]


def test_no_memory(lesson):
    this = lesson(size=0)
    select_memory(this)
    assert len(this.memory) == 0


@pytest.mark.parametrize(("budget", "each"), [("split", 2), ("each", 4)])
def test_shares(lesson, budget, each):
    this = lesson(size=9, shares=2, budget=budget)
    select_memory(this)
    assert per_class(this.memory) == [2 * each] * 2
    assert torch.bincount(this.memory.shares).tolist() == [2 * each] * 2
    for label in (0, 1):
        for share in (0, 1):
            here = (this.memory.samples.labels == label) & (this.memory.shares == share)
            chosen = this.memory.samples.images[here].flatten(1)
            assert len(torch.unique(chosen, dim=0)) == each
            originals = images_of(this.new, label).flatten(1)
            assert all((originals == image).all(dim=1).any() for image in chosen)  # kept without augmentation


def test_shares_select_by_an_augmentation_of_their_own(lesson):
    this = lesson(size=16, shares=4, budget="each")
    select_memory(this)
    sets = [this.memory.samples.images[this.memory.shares == share].flatten(1) for share in range(4)]
    assert any(not torch.equal(sets[0], other) for other in sets[1:])
    assert this.memory.overlap() > 0


def test_too_small_a_memory(lesson):
    this = lesson(size=1)
    with pytest.raises(UserError, match=r"memory.size 1 leaves no image for each of 2 classes"):
        select_memory(this)


def test_random_selection_is_a_function_of_the_position(lesson):
    this = lesson(size=10, selection="random")
    other = lesson(size=10, selection="random")
    other.position = replace(other.position, task=5)
    select_memory(this)
    select_memory(other)
    assert not same(this.memory, other.memory)
