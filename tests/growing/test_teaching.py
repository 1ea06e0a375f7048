"""A model directory grows by folders: all or nothing, and on from where it was cut off."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dytox.data.images import decode
from dytox.engine.observer import Interrupted, Observer
from dytox.engine.schedule import learning_rate
from dytox.errors import UserError
from dytox.growing import measure, teaching
from dytox.growing.plan import PASSES, Plan, choose, make
from dytox.growing.predictions import evaluate, predict
from dytox.growing.source import find_classes
from dytox.learner import ContinualLearner
from dytox.runs import locks

NAMES = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu"]

Photos = Callable[..., Path]
Planned = Callable[..., Plan]
Grow = Callable[..., list[measure.AccuracyChange]]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def tensors(path: Path) -> dict[str, bytes]:
    """All that a model directory holds, but for times and places in its history."""
    learner = ContinualLearner.load(path)
    parts = {**learner.method.state_dict(), **learner.memory.tensors(), "held": learner.held_out.images}
    return {name: each.numpy().tobytes() for name, each in parts.items()}


def test_it_learns_folder_after_folder_though_each_is_gone_afterwards(
    photos: Photos, grow: Grow, model: Path
) -> None:
    for name, first, last in [("one", 0, 3), ("two", 3, 5), ("three", 5, 6)]:
        folder = photos(name, first, last)
        grow(folder)
        shutil.rmtree(folder)
    learner = ContinualLearner.load(model)
    assert learner.classes_ == NAMES[:6]
    assert learner.increments == [3, 2, 1]
    assert torch.bincount(learner.held_out.labels).tolist() == [4] * 6  # a fifth of twenty
    assert torch.bincount(learner.memory.samples.labels).tolist() == [40 // 6] * 6
    assert [entry["images"] for entry in learner.history] == [48, 32, 16]
    assert not (model / ".learning").exists()


def test_the_table_has_known_and_new_classes_before_and_after(photos: Photos, grow: Grow) -> None:
    first = grow(photos("one", 0, 3))
    assert [(row.what, row.images, row.before) for row in first] == [
        ("new classes", 12, None),
        ("all classes", 12, None),
    ]
    second = grow(photos("two", 3, 5))
    assert [(row.what, row.images) for row in second] == [
        ("known classes", 12),
        ("new classes", 8),
        ("all classes", 20),
    ]
    assert second[0].before == first[1].after
    assert second[1].before is None
    more = grow(photos("more", 0, 1, skip=20))
    assert [(row.what, row.images) for row in more] == [
        ("known classes", 16),
        ("known classes, more images", 8),
        ("all classes", 24),
    ]
    assert all(row.before is not None for row in more)


def test_predict_evaluate_and_the_log_agree(photos: Photos, grow: Grow, model: Path, tmp_path: Path) -> None:
    """On the held-out images, found again among the files by their pixels."""
    folders = [photos("one", 0, 3), photos("two", 3, 5)]
    for folder in folders:
        rows = grow(folder)
    learner = ContinualLearner.load(model)
    held = {image.numpy().tobytes() for image in learner.held_out.images}
    copies = tmp_path / "held out"
    for path in [path for folder in folders for path in folder.rglob("*.png")]:
        if decode(path, 8).numpy().tobytes() in held:
            to = copies / path.parent.name / path.name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
    found = list(predict(learner, [str(copies)], skipped=[]))
    right = sum(each.name == Path(each.image).parent.name for each in found)
    assert len(found) == len(learner.held_out) == 20
    logged = learner.history[-1]["held_out"][-1]
    assert logged["what"] == "all classes"
    by_folder, skipped = evaluate(learner, copies)
    by_itself, _ = evaluate(learner, None)
    assert skipped == []
    assert 100 * right / 20 == rows[-1].after == logged["after"] == by_folder.top1 == by_itself.top1
    assert by_folder == by_itself


def test_images_of_known_classes_join_the_rehearsal(
    photos: Photos, grow: Grow, model: Path, planned: Planned
) -> None:
    grow(photos("one", 0, 3), held_out=0)
    folder = photos("two", 2, 4, skip=20)  # more of cat, and dog
    plan = planned(model, folder, held_out=0)
    assert (plan.new, plan.known) == (["dog"], ["cat"])
    teaching.teach(plan, Observer())
    learner = ContinualLearner.load(model)
    assert learner.classes_ == ["ant", "bee", "cat", "dog"]
    assert learner.increments == [3, 1]
    assert torch.bincount(learner.memory.samples.labels).tolist() == [10] * 4
    more = {image.numpy().tobytes() for image in plan.learned.between(2, 3).images}
    cats = learner.memory.samples.images[learner.memory.samples.labels == 2]
    assert any(image.numpy().tobytes() in more for image in cats)
    assert learner.history[-1]["known_classes"] == ["cat"]


def test_a_folder_without_a_new_class_refreshes(photos: Photos, grow: Grow, model: Path) -> None:
    grow(photos("one", 0, 3))
    before = ContinualLearner.load(model)
    grow(photos("more", 1, 2, skip=20))
    after = ContinualLearner.load(model)
    assert after.increments == [3]
    assert len(after.method.model.task_tokens) == 1
    same = [
        name
        for name, tensor in before.method.state_dict().items()
        if torch.equal(tensor, after.method.state_dict()[name])
    ]
    assert same
    assert all(name.startswith("model.encoder") for name in same)
    assert torch.bincount(after.held_out.labels).tolist() == [4, 8, 4]


def test_the_same_folder_again_changes_nothing(
    photos: Photos, grow: Grow, model: Path, planned: Planned
) -> None:
    folder = photos("one", 0, 2)
    assert not planned(model, folder).is_done
    grow(folder)
    assert planned(model, folder).is_done
    assert not planned(model, photos("two", 0, 2, skip=20)).is_done


def test_images_that_it_keeps_are_left_out(
    photos: Photos, grow: Grow, model: Path, planned: Planned, tmp_path: Path
) -> None:
    """Somebody whose folder grows: the classes of last week are in it still."""
    grow(photos("one", 0, 3))
    folder = photos("one", 3, 4)  # in the same folder
    plan = planned(model, folder)
    learner = ContinualLearner.load(model)
    assert plan.kept == len(learner.memory) + len(learner.held_out) == 39 + 12
    held = {image.numpy().tobytes() for image in learner.held_out.images}
    assert not held & {image.numpy().tobytes() for image in plan.learned.images}
    assert plan.new == ["dog"]
    teaching.teach(plan, Observer())
    grow(photos("few", 0, 2, each=2, skip=20))
    few = planned(model, photos("few", 0, 2, each=2, skip=20))
    assert few.is_done


def test_a_model_that_somebody_else_changed_is_not_overwritten(
    photos: Photos, grow: Grow, model: Path, planned: Planned
) -> None:
    grow(photos("one", 0, 3))
    plan = planned(model, photos("two", 3, 4))
    grow(photos("three", 4, 5))
    with pytest.raises(UserError, match="was changed by somebody else meanwhile"):
        teaching.teach(plan, Observer())
    assert ContinualLearner.load(model).classes_ == ["ant", "bee", "cat", "elk"]


class Stopping(Observer):
    """Asks to stop after so many steps, or breaks down at a phase."""

    def __init__(self, *, steps: int = 0, phase: str = "") -> None:
        self.steps, self.phase = steps, phase

    def step_ended(self, lesson: Any, total: Any) -> None:
        self.steps -= 1

    def stop_wanted(self) -> bool:
        return self.steps <= 0 and not self.phase

    def phase_started(self, lesson: Any, phase: Any) -> None:
        if phase.name == self.phase:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first of the interrupted leaves what it begins with and what it should become."""
    return tmp_path_factory.mktemp("shared")


@pytest.mark.parametrize(
    ("stopping", "left"),  # of 12 steps of training and 6 of finetuning
    [
        ({"steps": 1}, 17),
        ({"steps": 6}, 12),
        ({"phase": "memory"}, 6),
        ({"phase": "finetune"}, 6),
        ({"steps": 14}, 4),
    ],
    ids=["first step", "second epoch", "before the memory", "before finetuning", "finetuning"],
)
def test_interrupted_it_is_as_it_was_and_the_same_command_goes_on(
    photos: Photos,
    grow: Grow,
    model: Path,
    shared: Path,
    stopping: dict[str, Any],
    left: int,
    planned: Planned,
) -> None:
    folder, known, straight = photos("two", 3, 5), shared / "known", shared / "straight"
    if not straight.exists():
        grow(photos("one", 0, 3))
        shutil.copytree(model, known)
        shutil.copytree(model, straight)
        teaching.teach(planned(straight, folder), Observer())
    shutil.copytree(known, model, dirs_exist_ok=True)
    before = bytes_of(model)
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        grow(folder, Stopping(**stopping))
    assert bytes_of(model) == before
    assert ContinualLearner.load(model).classes_ == NAMES[:3]
    watcher = Counting()
    grow(folder, watcher)
    assert watcher.steps == left
    assert tensors(model) == tensors(straight)
    assert not (model / ".learning").exists()


class Counting(Observer):
    """Counts steps."""

    steps = 0

    def step_ended(self, lesson: Any, total: Any) -> None:
        self.steps += 1


def test_an_interrupted_first_folder_leaves_no_model(photos: Photos, grow: Grow, model: Path) -> None:
    folder = photos("one", 0, 3)
    with pytest.raises(Interrupted):
        grow(folder, Stopping(steps=4))
    with pytest.raises(UserError, match="is not a model directory"):
        ContinualLearner.load(model)
    grow(folder)
    assert ContinualLearner.load(model).classes_ == NAMES[:3]


def test_an_interrupted_refresh_goes_on(
    photos: Photos, grow: Grow, model: Path, tmp_path: Path, planned: Planned
) -> None:
    grow(photos("one", 0, 3))
    folder = photos("more", 0, 2, skip=20)
    shutil.copytree(model, tmp_path / "straight")
    teaching.teach(planned(tmp_path / "straight", folder), Observer())
    with pytest.raises(Interrupted):
        grow(folder, Stopping(steps=2))
    grow(folder)
    assert tensors(model) == tensors(tmp_path / "straight")


def test_other_images_do_not_go_on_with_it(
    photos: Photos, grow: Grow, model: Path, tmp_path: Path, planned: Planned
) -> None:
    grow(photos("one", 0, 3))
    shutil.copytree(model, tmp_path / "straight")
    with pytest.raises(Interrupted):
        grow(photos("two", 3, 5), Stopping(steps=4))
    other = photos("other", 4, 6)
    grow(other)
    teaching.teach(planned(tmp_path / "straight", other), Observer())
    assert tensors(model) == tensors(tmp_path / "straight")


def test_damaged_checkpoints_are_no_obstacle(photos: Photos, grow: Grow, model: Path) -> None:
    folder = photos("one", 0, 3)
    with pytest.raises(Interrupted):
        grow(folder, Stopping(steps=4))
    for path in (model / ".learning").iterdir():
        path.write_bytes(path.read_bytes()[:-9])
    grow(folder)
    assert ContinualLearner.load(model).classes_ == NAMES[:3]


def test_two_at_once_are_refused(photos: Photos, grow: Grow, model: Path) -> None:
    model.mkdir()
    with (
        locks.exclusive(model, "it"),
        pytest.raises(UserError, match="is in use by process"),
    ):
        grow(photos("one", 0, 3))


def test_a_dry_run_changes_nothing_and_knows_how_long(
    photos: Photos, grow: Grow, model: Path, planned: Planned
) -> None:
    folder = photos("one", 0, 3)
    plan = planned(model, folder)
    assert 0 < measure.seconds(plan) < 60
    assert not model.exists()
    assert plan.learner.classes_ == []
    grow(folder)
    before = bytes_of(model)
    plan = planned(model, photos("two", 3, 5))
    assert measure.seconds(plan) > 0
    assert bytes_of(model) == before


def test_a_long_lesson_is_estimated_from_its_first_steps(
    photos: Photos, model: Path, monkeypatch: pytest.MonkeyPatch, planned: Planned, small: list[str]
) -> None:
    monkeypatch.setattr(measure, "TRIAL", 0.2)
    monkeypatch.setattr(time, "perf_counter", time.process_time)  # whatever else the machine does
    short, long = (
        measure.seconds(planned(model, photos("one", 0, 3), overrides=[*small, f"training.epochs={epochs}"]))
        for epochs in (2_000, 20_000)
    )
    assert short > 1
    assert 3 < long / short < 30


def test_what_a_new_model_is_made_by(photos: Photos, model: Path) -> None:
    found = find_classes(photos("one", 0, 3))
    config = choose(found, None, "dytox", [])
    assert config.recipe == "own-images"
    assert config.data.image_size == 32
    assert config.training.epochs == 100  # sixty images: many looks at each
    many = replace(found, classes={"a": list(found.classes["ant"]) * 40})
    assert choose(many, None, "dytox", []).training.epochs == round(PASSES / 800)
    assert choose(found, None, "dytox", ["training.epochs=7"]).training.epochs == 7
    assert choose(found, None, "replay", []).method.name == "replay"
    by_recipe = choose(found, "digits", "dytox", [])
    assert (by_recipe.data.image_size, by_recipe.training.epochs) == (8, 100)


@pytest.mark.parametrize(
    ("method", "rates"),
    [  # in the epochs 0, 5, 64, 65, 75 and 99 of 100
        ("wa", [0.01, 0.1, 0.1, 0.01, 0.001, 0.001]),
        ("rpsnet", [1e-3, 1e-3, 1.25e-4, 1.25e-4, 1.25e-4, 6.25e-5]),  # halved at 20, 40, 60 and 80
    ],
)
def test_a_schedule_is_as_long_as_its_training(photos: Photos, method: str, rates: list[float]) -> None:
    found = find_classes(photos("one", 0, 3))
    training = choose(found, None, method, []).training
    assert training.epochs == 100
    assert [learning_rate(training, epoch) for epoch in (0, 5, 64, 65, 75, 99)] == pytest.approx(rates)
    few = choose(found, None, method, ["training.epochs=3"]).training  # its own warm-up would not fit
    assert max(few.schedule.milestones) < 3
    own = choose(found, None, method, ["training.schedule.milestones=[7]"]).training
    assert own.schedule.milestones == [7]


@pytest.mark.parametrize(("method", "epochs", "steps"), [("e2e", 10, [4, 8]), ("der", 30, [15])])
def test_the_schedule_of_finetuning_too(photos: Photos, method: str, epochs: int, steps: list[int]) -> None:
    finetuning = choose(find_classes(photos("one", 0, 3)), None, method, []).finetuning
    assert (finetuning.epochs, finetuning.schedule.milestones) == (epochs, steps)


def test_what_is_no_section_is_refused(photos: Photos) -> None:
    with pytest.raises(UserError, match="Config key training is a section"):
        choose(find_classes(photos("one", 0, 3)), None, "wa", ["training=5"])


def test_what_may_change_later_and_what_not(photos: Photos, grow: Grow, model: Path) -> None:
    grow(photos("one", 0, 2))
    more = photos("two", 2, 3)
    with pytest.raises(UserError, match="recipe and encoder are for a new one"):
        make(model, more, recipe="digits")
    with pytest.raises(UserError, match="is a model of dytox: its method cannot change"):
        make(model, more, method="replay")
    make(model, more, method="dytox")
    with pytest.raises(UserError, match="The section model of a model's config cannot change"):
        make(model, more, overrides=["model.dim=24"])
    with pytest.raises(UserError, match="The share to hold out must be"):
        make(model, more, held_out=1.0)
    grow(more, overrides=["training.epochs=1", "memory.size=9"])
    learner = ContinualLearner.load(model)
    assert learner.config.training.epochs == 1
    assert len(learner.memory) == 9


def test_another_precision_holds_from_the_next_lesson_on_cut_off_or_not(
    photos: Photos, grow: Grow, model: Path, tmp_path: Path, planned: Planned
) -> None:
    grow(photos("one", 0, 2))
    folder, double = photos("two", 2, 3), {"overrides": ["runtime.precision=fp64"]}
    shutil.copytree(model, tmp_path / "straight")
    plan = planned(tmp_path / "straight", folder, **double)
    assert plan.learner.method.dtype == torch.float64
    teaching.teach(plan, Observer())
    with pytest.raises(Interrupted):
        grow(folder, Stopping(steps=2), **double)
    grow(folder, **double)
    assert ContinualLearner.load(model).method.dtype == torch.float64
    assert tensors(model) == tensors(tmp_path / "straight")


def test_an_image_that_the_model_keeps_as_another_class_is_refused(
    photos: Photos, grow: Grow, model: Path, planned: Planned, small: list[str], tmp_path: Path
) -> None:
    folder = photos("one", 0, 2)
    shutil.copy(folder / "ant" / "000.png", folder / "bee" / "again.png")  # of two classes from the first
    grow(folder, overrides=[*small, "memory.size=80"])
    assert planned(model, folder).is_done
    wrong = tmp_path / "wrong" / "cat" / "twin.png"
    wrong.parent.mkdir(parents=True)
    shutil.copy(folder / "bee" / "030.png", wrong)
    for name in ("cat", "ant"):  # a new class and a known one
        with pytest.raises(UserError) as error:
            planned(model, wrong.parent.parent)
        assert str(error.value) == (
            f"{wrong} is of class '{name}' here, and the model keeps the same image as 'bee': "
            "leave it out, or forget 'bee' first."
        )
        wrong = wrong.parent.rename(wrong.parent.parent / "ant") / "twin.png"
    learner = ContinualLearner.load(model)
    with pytest.raises(UserError, match=r"^Image 2 is of class 'cat' here, .* as 'bee'"):
        learner.learn([folder.parent / "wrong" / "ant" / "twin.png"] * 2, ["bee", "cat"])
    assert learner.classes_ == ["ant", "bee"]


def test_a_model_learned_elsewhere_grows_too(photos: Photos, grow: Grow, model: Path, tiny, made) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(made(5, 7).images, [NAMES[label] for label in made(5, 7).labels])
    learner.save(model)
    rows = grow(photos("one", 0, 2))
    assert ContinualLearner.load(model).classes_ == ["fox", "gnu", "ant", "bee"]
    assert [row.what for row in rows] == ["new classes", "all classes"]  # nothing was held out of the first


def test_without_memory_it_predicts_and_does_not_learn(
    photos: Photos, grow: Grow, model: Path, planned: Planned
) -> None:
    first = photos("one", 0, 3)
    grow(first)
    next(model.glob("memory-*")).unlink()
    with pytest.raises(UserError, match="has no memory: no image of its 3 classes is left to rehearse"):
        planned(model, photos("two", 3, 5))
    learner = ContinualLearner.load(model)
    assert len(list(predict(learner, [str(first)], skipped=[]))) == 60
    with pytest.raises(UserError, match="holds no images out"):
        evaluate(learner, None)
    with pytest.raises(UserError, match="keeps no image to choose a threshold by"):
        learner.threshold(0.05)


@pytest.mark.parametrize("method", ["finetune", "joint"])
def test_methods_without_a_memory_have_no_room_for_more_images(
    photos: Photos, grow: Grow, model: Path, method: str, planned: Planned, small: list[str]
) -> None:
    tiny = [each for each in small if not each.startswith("memory")]
    grow(photos("one", 0, 3), method=method, overrides=tiny)
    with pytest.raises(UserError, match=rf"{method} keeps no memory here .*'bee'"):
        planned(model, photos("two", 1, 2, skip=20))
    if method == "joint":  # what it cannot do by its nature is known before anything is begun
        with pytest.raises(UserError, match="those of the first 3 classes are gone"):
            planned(model, photos("three", 3, 5))
