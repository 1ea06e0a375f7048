"""Answers about files: names and confidences, and what cannot be read."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from dytox.config import Config
from dytox.data.samples import Samples
from dytox.errors import UserError
from dytox.growing.description import describe_model
from dytox.growing.measure import AccuracyChange
from dytox.growing.predictions import evaluate, predict
from dytox.learner import ContinualLearner

Photos = Callable[..., Path]


@pytest.fixture
def learner(photos: Photos, grow: Callable[..., list[AccuracyChange]], model: Path) -> ContinualLearner:
    grow(photos("one", 0, 3))
    grow(photos("two", 3, 5))
    return ContinualLearner.load(model)


def test_files_folders_and_the_standard_input(
    learner: ContinualLearner, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = photos("one", 0, 3)
    file = folder / "ant" / "000.png"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(file.read_bytes())))
    found = list(predict(learner, [str(file), str(folder), "-"], skipped=[]))
    assert [each.image for each in found[:2]] == [str(file), str(file)]
    assert found[-1].image == "-"
    assert len(found) == 62
    assert found[0].name == found[1].name == found[-1].name
    for each in found:
        assert each.name in learner.classes_
        assert 0.2 <= each.confidence <= 1


def test_the_first_so_many_and_one_task_alone(learner: ContinualLearner, photos: Photos) -> None:
    folder = photos("one", 0, 3)
    for each in predict(learner, [str(folder)], top=99, skipped=[]):
        values = [guess.confidence for guess in each.top]
        assert {guess.name for guess in each.top} == set(learner.classes_)
        assert values == sorted(values, reverse=True)
        assert sum(values) == pytest.approx(1, abs=1e-4)
    for each in predict(learner, [str(folder)], top=99, task=2, skipped=[]):
        assert {guess.name for guess in each.top} == {"dog", "elk"}
        assert sum(guess.confidence for guess in each.top) == pytest.approx(1, abs=1e-4)
    for task in (0, 3):
        with pytest.raises(UserError, match=f"There is no task {task}: the model has the tasks 1 to 2"):
            list(predict(learner, [str(folder)], task=task, skipped=[]))


def test_broken_images_are_named_and_the_others_answered(learner: ContinualLearner, photos: Photos) -> None:
    folder = photos("few", 0, 1)
    (folder / "ant" / "broken.png").write_text("?")
    skipped: list[str] = []
    assert len(list(predict(learner, [str(folder), str(folder / "gone.png")], skipped=skipped))) == 20
    assert "broken.png" in skipped[0]
    assert "There is no image file" in skipped[1]
    with pytest.raises(UserError, match=r"broken\.png is not an image"):
        list(predict(learner, [str(folder / "ant" / "broken.png")], skipped=[]))
    with pytest.raises(UserError, match="No image can be read, for one"):
        list(predict(learner, ["a.png", "b.png"], skipped=[]))
    (folder / "notes").mkdir()
    with pytest.raises(UserError, match="There is no image file in"):
        list(predict(learner, [str(folder / "notes")], skipped=[]))
    with pytest.raises(UserError, match="There is no image file"):
        list(predict(learner, [""], skipped=[]))


def test_many_images_go_in_batches(learner: ContinualLearner, photos: Photos) -> None:
    runtime = learner.config.runtime.model_copy(update={"evaluation_batch": 7})
    learner.config = learner.method.config = learner.config.model_copy(update={"runtime": runtime})
    seen: list[tuple[int, int]] = []
    folder = photos("few", 0, 1)
    (folder / "ant" / "003.png").write_text("?")
    found = predict(
        learner, [str(folder)], skipped=[], progress=lambda done, total: seen.append((done, total))
    )
    assert len(list(found)) == 19
    assert seen == [(7, 20), (14, 20), (20, 20)]


def test_unsure_answers_are_rejected(learner: ContinualLearner, photos: Photos) -> None:
    folder = str(photos("one", 0, 3))
    everything = list(predict(learner, [folder], skipped=[]))
    limits = [learner.threshold(rate) for rate in (0.9, 0.5, 0.1, 0.0)]
    assert limits == sorted(limits)
    for rate, limit in zip((0.9, 0.5, 0.1, 0.0), limits, strict=True):
        found = list(predict(learner, [folder], error_rate=rate, skipped=[]))
        unsure = [each.confidence < round(limit, 6) for each in everything]  # as confidences are shown
        assert [each.name is None for each in found] == unsure
        assert [each.top for each in found] == [each.top for each in everything]


def test_evaluate_passes_over_classes_it_does_not_know(learner: ContinualLearner, photos: Photos) -> None:
    found, skipped = evaluate(learner, photos("mixed", 4, 6))
    assert [each.name for each in found.classes] == ["elk"]
    assert [each.task for each in found.tasks] == [2]
    assert len(skipped) == 1
    assert "fox is a class that the model does not know" in skipped[0]
    with pytest.raises(UserError, match=r"knows none of the classes in .*'fox'"):
        evaluate(learner, photos("strange", 5, 6))


def test_a_description_of_a_model(learner: ContinualLearner, model: Path, photos: Photos) -> None:
    found = describe_model(model)
    assert (found.method, found.recipe, found.image_size, found.classes) == ("dytox", "own-images", 8, 5)
    assert [task.classes for task in found.tasks] == [["ant", "bee", "cat"], ["dog", "elk"]]
    assert [task.weight_bytes for task in found.tasks] == [
        4 * (12 + 24 + 12 * 3 + 3),  # token, norm and linear layer
        4 * (12 + 24 + 12 * 2 + 2),
    ]
    assert [task.memory_images for task in found.tasks] == [3 * (8 + 4), 2 * (8 + 4)]
    assert found.memory_images == 40
    assert found.held_out_images == 20
    assert all(task.learned for task in found.tasks)
    assert found.bytes > 10_000


def test_an_extractor_counts_as_its_task_s_own(
    tiny: Callable[..., Config], made: Callable[..., Samples], tmp_path: Path
) -> None:
    learner = ContinualLearner(tiny("der", training={"epochs": 1}, finetuning={"epochs": 1}))
    for first in (0, 2):
        samples = made(first, first + 2, each=4)
        learner.learn(samples.images, samples.labels)
    learner.save(tmp_path / "model")
    extractors = learner.method.model.extractors
    sizes = [sum(value.nbytes for value in each.state_dict().values()) for each in extractors]
    rows = 4 * 2 * (2 * 64)  # of its classes, over the features of both extractors
    assert [task.weight_bytes for task in describe_model(tmp_path / "model").tasks] == [
        size + rows for size in sizes
    ]


def test_grey_and_transparent_images_are_images(learner: ContinualLearner, tmp_path: Path) -> None:
    for mode in ("L", "RGBA", "P", "1", "LA"):
        Image.new(mode, (9, 5)).save(tmp_path / f"{mode}.png")
    assert (
        len(list(predict(learner, [str(tmp_path / f"{mode}.png") for mode in ("L", "RGBA")], skipped=[])))
        == 2
    )
