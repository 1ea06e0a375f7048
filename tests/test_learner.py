"""The learner on tiny arrays: what it learns, keeps, refuses, and that saving changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dytox import ContinualLearner
from dytox.config import Config
from dytox.data.samples import Samples
from dytox.engine.observer import Observer
from dytox.errors import UserError

NAMES = ["ant", "bee", "cat", "dog", "elk", "fox"]
METHODS = ["dytox", "replay", "finetune", "joint"]

Make = Callable[..., Samples]
Tiny = Callable[..., Config]


@pytest.fixture
def task(made: Make) -> Callable[[int, int], tuple[np.ndarray, list[str]]]:
    """Images (n, H, W, 3) and names of the classes from `first` up to `last`."""

    def task(first: int, last: int) -> tuple[np.ndarray, list[str]]:
        samples = made(first, last)
        return samples.images.permute(0, 2, 3, 1).numpy(), [NAMES[label] for label in samples.labels]

    return task


def state(learner: ContinualLearner) -> dict[str, Tensor]:
    """All that a learner consists of, as tensors."""
    memory = {f"memory.{name}": tensor for name, tensor in learner.memory.tensors().items()}
    return {**{name: each.clone() for name, each in learner.method.state_dict().items()}, **memory}


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    different = [name for name in first if not torch.equal(first[name], second[name])]
    assert different == []


def facts(learner: ContinualLearner) -> tuple[Any, ...]:
    return learner.classes_, list(learner.increments), list(learner.history), len(learner.memory)


def test_it_learns_two_tasks_and_predicts_names(tiny: Tiny, task: Any) -> None:
    learner = ContinualLearner(tiny(training={"epochs": 15, "lr": 5e-3}))
    assert learner.classes_ == []
    images, names = task(0, 3)
    learner.learn(images, names)
    assert learner.classes_ == ["ant", "bee", "cat"]
    assert np.mean(np.array(learner.predict(images)) == names) > 0.9  # patterns that a child tells apart
    more, more_names = task(3, 5)
    learner.learn(more, more_names)
    assert learner.classes_ == ["ant", "bee", "cat", "dog", "elk"]
    assert set(learner.predict(more)) <= set(learner.classes_)
    proba = learner.predict_proba(more)
    assert proba.shape == (len(more), 5)
    assert ((proba >= 0) & (proba <= 1)).all()
    assert learner.predict(more) == [learner.classes_[place] for place in proba.argmax(axis=1)]
    assert learner.task.index == 1
    assert (learner.task.old, learner.task.new) == (3, 2)


def test_it_is_made_from_a_recipe() -> None:
    learner = ContinualLearner.create("digits", method="replay", config={"model": {"dim": 16, "heads": 2}})
    assert learner.config.recipe == "digits"
    assert learner.config.method.name == "replay"
    assert learner.config.model.dim == 16
    assert learner.method.name == "replay"
    with pytest.raises(UserError, match="Unknown recipe 'digit'"):
        ContinualLearner.create("digit")
    with pytest.raises(UserError, match=r"Unknown config key 'training\.epoch'"):
        ContinualLearner.create(config={"training": {"epoch": 1}})


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_and_says_what_it_learned(tiny: Tiny, task: Any, method: str) -> None:
    learner = ContinualLearner(tiny(method))
    learner.learn(*task(0, 2))
    learner.learn(*task(2, 4))
    assert [each["classes"] for each in learner.history] == [["ant", "bee"], ["cat", "dog"]]
    assert [each["images"] for each in learner.history] == [24, 24]
    assert all(each["seconds"] >= 0 for each in learner.history)
    assert learner.predict_proba(task(0, 4)[0]).shape == (48, 4)


def test_integers_become_names_in_the_order_of_numbers(tiny: Tiny, made: Make) -> None:
    samples = made(0, 3)
    labels = torch.tensor([10, 9, 2])[samples.labels]
    for given in (labels, labels.numpy(), labels.tolist()):
        learner = ContinualLearner(tiny())
        learner.learn(samples.images, given)
        assert learner.classes_ == ["2", "9", "10"]
        assert learner.memory.samples.labels.unique().tolist() == [0, 1, 2]


def test_labels_meet_the_right_images(tiny: Tiny, made: Make) -> None:
    """Names in another order than the images: the exemplars of a name are images of that name."""
    samples = made(0, 3)
    names = np.array(["zebra", "ant", "mouse"])[samples.labels]
    learner = ContinualLearner(tiny())
    learner.learn(samples.images, names)
    assert learner.classes_ == ["ant", "mouse", "zebra"]
    for place, name in enumerate(learner.classes_):
        own = {each.numpy().tobytes() for each in samples.images[torch.from_numpy(names == name)]}
        kept = learner.memory.samples.images[learner.memory.samples.labels == place]
        assert {each.numpy().tobytes() for each in kept} <= own


@pytest.mark.parametrize("shape", ["n3hw", "nhw3", "nhw"])
def test_images_come_in_any_usual_shape(tiny: Tiny, made: Make, shape: str) -> None:
    images, labels = made(0, 2).images, made(0, 2).labels
    given = {"n3hw": images, "nhw3": images.permute(0, 2, 3, 1).numpy(), "nhw": images[:, 0].numpy()}[shape]
    learner = ContinualLearner(tiny())
    learner.learn(given, labels)
    assert len(learner.predict(given)) == len(images)


# What it refuses


def test_what_it_cannot_learn_is_refused_in_one_sentence(tiny: Tiny, task: Any) -> None:
    learner = ContinualLearner(tiny())
    images, names = task(0, 2)
    for given, labels, words in [
        (images[:12], names[:12], r"A first task of one class \('ant'\)"),
        (images, names[:5], "24 images have 5 labels"),
        (images[:, :4], names, "The images are 8×4 pixels and this learner takes 8×8"),
        (images.repeat(2, axis=1).repeat(2, axis=2), names, "The images are 16×16 pixels"),
        (images.astype(np.float32), names, "Images must be uint8"),
        (images[:0], [], "Images must have the shape"),
        (3, names, "Images must be an array, a tensor, a folder, or a list .* not a int"),
        (images, np.full(24, 0.5), "Labels must be strings or whole numbers, not float64"),
        (images, ["ant", "Ant"] * 12, "The classes 'Ant' and 'ant' differ only in case"),
        (images, ["ant", "bell\a"] * 12, "is empty or cannot be printed"),
    ]:
        with pytest.raises(UserError, match=words) as error:
            learner.learn(given, labels)
        assert "\n" not in str(error.value)
        assert learner.classes_ == []


def test_images_of_a_known_class_join_its_rehearsal(tiny: Tiny, task: Any) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(*task(0, 3))
    learner.learn(*task(2, 4))
    assert learner.classes_ == ["ant", "bee", "cat", "dog"]
    assert learner.increments == [3, 1]
    assert learner.history[-1]["classes"] == ["dog"]
    assert learner.history[-1]["known_classes"] == ["cat"]


def test_images_of_known_classes_alone_refresh_it(tiny: Tiny, task: Any) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(*task(0, 3))
    before = state(learner)
    learner.learn(*task(0, 1))
    after = state(learner)
    assert learner.increments == [3]
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert not any(name.startswith("model.encoder") for name in moved)


def test_methods_without_a_memory_refuse_known_classes_and_nothing_changes(tiny: Tiny, task: Any) -> None:
    learner = ContinualLearner(tiny("finetune"))
    learner.learn(*task(0, 3))
    before, known = state(learner), facts(learner)
    with pytest.raises(UserError, match="finetune keeps no memory here that more images of a known class"):
        learner.learn(*task(2, 4))
    assert_same(before, state(learner))
    assert facts(learner) == known


def test_one_class_alone_is_fine_once_there_are_others(tiny: Tiny, task: Any) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(*task(0, 2))
    learner.learn(*task(2, 3))
    assert learner.classes_ == ["ant", "bee", "cat"]


def test_predicting_before_learning_is_refused(tiny: Tiny, task: Any) -> None:
    learner = ContinualLearner(tiny())
    for predict in (learner.predict, learner.predict_proba):
        with pytest.raises(UserError, match="has learned no class yet: call learn first"):
            predict(task(0, 2)[0])
    learner.learn(*task(0, 2))
    with pytest.raises(UserError, match="this learner takes 8×8"):
        learner.predict(np.zeros((2, 9, 9, 3), dtype=np.uint8))


def test_a_learner_needs_an_image_size(tiny: Tiny) -> None:
    with pytest.raises(UserError, match=r"data\.image_size"):
        ContinualLearner(tiny(data={"image_size": None}))
    with pytest.raises(UserError, match=r"data.image_size 9 is not a multiple of model.patch_size 4"):
        ContinualLearner(tiny(data={"image_size": 9}))
    with pytest.raises(UserError, match=r"runtime\.device: there is no 'abacus' here"):
        ContinualLearner(tiny(runtime={"device": "abacus"}))


# The memory


@pytest.mark.parametrize("method", ["dytox", "replay"])
def test_the_memory_stays_within_its_budget(tiny: Tiny, task: Any, method: str) -> None:
    learner = ContinualLearner(tiny(method))  # 14 images
    for first, last in [(0, 2), (2, 3), (3, 6)]:
        learner.learn(*task(first, last))
        counts = torch.bincount(learner.memory.samples.labels, minlength=last).tolist()
        assert counts == [14 // last] * last
        assert len(learner.memory) <= 14


def test_a_smaller_share_of_the_memory_is_the_start_of_the_larger(tiny: Tiny, task: Any) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(*task(0, 2))
    before = learner.memory.samples.images[:7], learner.memory.samples.images[7:]
    learner.learn(*task(2, 4))
    images, labels = learner.memory.samples.images, learner.memory.samples.labels
    for label in (0, 1):
        assert torch.equal(images[labels == label], before[label][:3])


@pytest.mark.parametrize("method", ["finetune", "joint"])
def test_some_methods_keep_no_memory(tiny: Tiny, task: Any, method: str) -> None:
    learner = ContinualLearner(tiny(method))
    learner.learn(*task(0, 2))
    assert len(learner.memory) == 0


def test_a_memory_that_is_too_small_for_all_classes_is_refused_and_nothing_changes(
    tiny: Tiny, task: Any
) -> None:
    learner = ContinualLearner(tiny(memory={"size": 3}))
    learner.learn(*task(0, 2))
    before, known = state(learner), facts(learner)
    with pytest.raises(UserError, match=r"memory\.size 3 leaves no image for each of 4 classes"):
        learner.learn(*task(2, 4))
    assert_same(before, state(learner))
    assert facts(learner) == known


# Failing


class Failing(Observer):
    """Breaks down in the n-th phase, or at its n-th step."""

    def __init__(self, *, phase: str = "", steps: int = 0) -> None:
        self.phase, self.steps = phase, steps

    def phase_started(self, lesson: Any, phase: Any) -> None:
        if phase.name == self.phase:
            raise RuntimeError("broken")

    def step_ended(self, lesson: Any, total: Any) -> None:
        self.steps -= 1
        if not self.steps:
            raise RuntimeError("broken")


@pytest.mark.parametrize(
    "observer",
    [Failing(phase="train"), Failing(phase="memory"), Failing(phase="finetune"), Failing(steps=3)],
    ids=["before training", "before the memory", "before finetuning", "in training"],
)
def test_a_failing_lesson_leaves_the_learner_as_it_was(tiny: Tiny, task: Any, observer: Observer) -> None:
    learner, other = ContinualLearner(tiny()), ContinualLearner(tiny())
    for each in (learner, other):
        each.learn(*task(0, 2))
    before, known = state(learner), facts(learner)
    expected = learner.predict_proba(task(0, 2)[0])
    with pytest.raises(RuntimeError, match="broken"):
        learner.learn(*task(2, 4), observer=observer)
    assert_same(before, state(learner))
    assert facts(learner) == known
    assert np.array_equal(learner.predict_proba(task(0, 2)[0]), expected)
    for each in (learner, other):  # and it learns on as if nothing had been
        each.learn(*task(2, 4))
    assert_same(state(other), state(learner))


def test_a_loss_that_is_no_number_is_refused_and_nothing_changes(tiny: Tiny, task: Any) -> None:
    learner = ContinualLearner(tiny(training={"lr": 1e30, "schedule": {"warmup_epochs": 0}}))
    before = state(learner)
    with pytest.raises(UserError, match="The loss is NaN or infinite at step 2 of epoch 1 of phase 'train'"):
        learner.learn(*task(0, 2))
    assert learner.classes_ == []
    assert_same(before, state(learner))


# Saving


@pytest.mark.parametrize("method", METHODS)
def test_a_loaded_learner_predicts_bit_by_bit_the_same(
    tiny: Tiny, task: Any, tmp_path: Path, method: str
) -> None:
    learner = ContinualLearner(tiny(method))
    learner.learn(*task(0, 2))
    learner.learn(*task(2, 5))
    learner.save(tmp_path / "model")
    loaded = ContinualLearner.load(tmp_path / "model")
    images = task(0, 5)[0]
    assert np.array_equal(loaded.predict_proba(images), learner.predict_proba(images))
    assert loaded.predict(images) == learner.predict(images)
    assert_same(state(learner), state(loaded))
    assert facts(loaded) == facts(learner)
    assert loaded.config == learner.config


@pytest.mark.parametrize("method", ["dytox", "replay", "finetune"])
def test_it_learns_on_as_if_it_had_never_been_saved(
    tiny: Tiny, task: Any, tmp_path: Path, method: str
) -> None:
    straight = ContinualLearner(tiny(method))
    straight.learn(*task(0, 2))
    straight.save(tmp_path)
    for first, last in [(2, 3), (3, 6)]:
        straight.learn(*task(first, last))
        saved = ContinualLearner.load(tmp_path)
        saved.learn(*task(first, last))
        saved.save(tmp_path)
        assert_same(state(straight), state(saved))
    images = task(0, 6)[0]
    assert np.array_equal(
        straight.predict_proba(images), ContinualLearner.load(tmp_path).predict_proba(images)
    )


def test_another_seed_is_another_learner(tiny: Tiny, task: Any) -> None:
    def learned(seed: int) -> dict[str, Tensor]:
        learner = ContinualLearner(tiny(seed=seed))
        learner.learn(*task(0, 2))
        return state(learner)

    first, again, other = learned(3), learned(3), learned(4)
    assert_same(first, again)
    differing = [name for name in first if not torch.equal(first[name], other[name])]
    assert len(differing) > len(first) / 2


def test_joint_cannot_go_on_once_the_images_are_gone(tiny: Tiny, task: Any, tmp_path: Path) -> None:
    learner = ContinualLearner(tiny("joint"))
    learner.learn(*task(0, 2))
    learner.save(tmp_path)
    loaded = ContinualLearner.load(tmp_path)
    with pytest.raises(UserError, match="joint learns from the images of all tasks at once"):
        loaded.learn(*task(2, 4))
    assert loaded.classes_ == ["ant", "bee"]
    assert len(loaded.predict(task(0, 2)[0])) == 24


def test_a_learner_that_knows_nothing_can_be_saved(tiny: Tiny, task: Any, tmp_path: Path) -> None:
    ContinualLearner(tiny()).save(tmp_path)
    loaded, fresh = ContinualLearner.load(tmp_path), ContinualLearner(tiny())
    for each in (loaded, fresh):
        each.learn(*task(0, 2))
    assert_same(state(fresh), state(loaded))


def test_the_model_directory_describes_itself(tiny: Tiny, task: Any, tmp_path: Path) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(*task(0, 2))
    learner.save(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    assert content["classes"] == ["ant", "bee"]
    assert content["increments"] == [2]
    assert content["preprocessing"]["image_size"] == 8
    assert content["config"] == learner.config.model_dump()
    assert set(content["files"]) == {"model", "memory", "history"}
    assert sorted(path.suffix for path in tmp_path.iterdir() if path.name != ".lock") == [
        ".json",
        ".json",
        ".safetensors",
        ".safetensors",
    ]


def test_what_is_no_model_directory_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a model directory: there is no config\.json in it"):
        ContinualLearner.load(tmp_path)
    (tmp_path / "config.json").write_text('{"kind": "something"}')
    with pytest.raises(UserError, match="does not belong to a dytox model"):
        ContinualLearner.load(tmp_path)
