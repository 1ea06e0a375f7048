"""What the learner takes: arrays, tensors, files, Pillow's images, folders, datasets; and what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

from dytox import ContinualLearner
from dytox.config import Config
from dytox.data.samples import Samples
from dytox.errors import UserError

NAMES = ["ant", "bee", "cat"]

Make = Callable[..., Samples]
Tiny = Callable[..., Config]


class Pairs(Dataset[Any]):
    """A dataset of (image, label) pairs, as torchvision has them."""

    def __init__(self, images: Any, labels: Any, classes: list[str] | None = None) -> None:
        self.images, self.labels = images, labels
        if classes:
            self.classes = classes

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        return self.images[place], self.labels[place]


class Rows(list[Any]):
    """A dataset of rows, as Hugging Face has them."""

    features = {"image": None, "label": SimpleNamespace(names=NAMES)}  # noqa: RUF012


@pytest.fixture
def forms(made: Make, tmp_path: Path) -> dict[str, tuple[Any, ...]]:
    """The same images and names in every form."""
    samples = made(0, 3)
    images, numbers = samples.images, samples.labels.tolist()
    names = [NAMES[label] for label in numbers]
    pictures = [Image.fromarray(each.permute(1, 2, 0).numpy()) for each in images]
    paths = []
    for place, (picture, name) in enumerate(zip(pictures, names, strict=True)):
        paths.append(tmp_path / name / f"{place:02}.png")
        paths[-1].parent.mkdir(exist_ok=True)
        picture.save(paths[-1])
    channels_last = images.permute(0, 2, 3, 1).numpy()
    return {
        "tensor": (images, names),
        "array": (channels_last, np.array(names)),
        "list of arrays": (list(channels_last), names),
        "list of tensors": (list(images), names),
        "paths": (paths, names),
        "path names": ([str(path) for path in paths], names),
        "Pillow's": (pictures, names),
        "bytes": ([path.read_bytes() for path in paths], names),
        "folder": (tmp_path,),
        "name of a folder": (str(tmp_path),),
        "pairs": (Pairs(pictures, names),),
        "pairs with numbers": (Pairs(images, numbers, NAMES),),
        "rows": (
            Rows({"image": image, "label": label} for image, label in zip(pictures, numbers, strict=True)),
        ),
        "list of pairs": (list(zip(paths, names, strict=True)),),
    }


def test_every_form_gives_the_same_learner(tiny: Tiny, forms: dict[str, tuple[Any, ...]]) -> None:
    expected = None
    for name, given in forms.items():
        learner = ContinualLearner(tiny(training={"epochs": 1}))
        learner.learn(*given)
        assert learner.classes_ == NAMES, name
        found = learner.predict_proba(forms["tensor"][0])
        expected = found if expected is None else expected
        assert np.array_equal(found, expected), name
        if len(given) == 2 or name.endswith("folder"):
            assert np.array_equal(learner.predict_proba(given[0]), expected), name
        assert learner.score(*given) == pytest.approx(learner.evaluate(*given).top1 / 100)


def test_samples_are_taken_as_they_are(tiny: Tiny, made: Make) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(made(0, 2))
    assert learner.classes_ == ["0", "1"]
    assert 0 <= learner.score(made(0, 2)) <= 1


def test_one_file_and_one_picture_are_images_too(tiny: Tiny, forms: dict[str, tuple[Any, ...]]) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(*forms["tensor"])
    path, picture = forms["paths"][0][0], forms["Pillow's"][0][0]
    assert learner.predict(path) == learner.predict(str(path)) == learner.predict(picture)
    assert len(learner.predict(path)) == 1


def test_pictures_of_any_size_are_brought_to_the_models(
    tiny: Tiny, forms: dict[str, tuple[Any, ...]]
) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(*forms["tensor"])
    assert len(learner.predict([Image.new("CMYK", (30, 20)), Image.new("L", (3, 9))])) == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "There is no image"),
        ([3], "An image must be a file, an array, a tensor or Pillow's, not a int"),
        (["gone.png"], r"There is no image file gone\.png"),
        ("gone", "There is no image file gone"),
        ({1, 2}, "Images must be an array"),
        ([np.zeros((9, 9, 3), dtype=np.uint8)], "The images are 9×9 pixels and this learner takes 8×8"),
        ([np.zeros((8, 8, 3), dtype=np.float32)], "Images must be uint8"),
    ],
)
def test_what_are_no_images(tiny: Tiny, made: Make, given: Any, words: str) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(made(0, 2))
    with pytest.raises(UserError, match=words) as error:
        learner.predict(given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "A int without labels"),
        ([], "The dataset is empty"),
        ([1, 2], "A dataset must give pairs, or mappings"),
        ([{"img": 1, "label": 2}], "A dataset must give pairs, or mappings"),
        ([(np.zeros((8, 8, 3), dtype=np.uint8), 0.5)], "Label 0.5 is neither a string nor a whole number"),
    ],
)
def test_what_is_no_dataset(tiny: Tiny, given: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        ContinualLearner(tiny()).learn(given)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (-1, r"^Label -1 is none of the dataset's classes, 0 to 2"),  # hidden, by Hugging Face's convention
        (torch.tensor(3), r"^Label 3 is none of the dataset's classes, 0 to 2"),
        (None, r"^Label None is neither a string nor a whole number"),
    ],
)
def test_a_label_without_a_class(tiny: Tiny, made: Make, label: Any, words: str) -> None:
    images = made(0, 3).images
    with pytest.raises(UserError, match=words):
        ContinualLearner(tiny()).learn(Pairs(images, [0, 1, 2, label] * 9, NAMES))


def test_names_with_slashes_and_leading_dots_are_names(tiny: Tiny, made: Make, tmp_path: Path) -> None:
    names = ["../../etc", ".hidden", "a/b"]
    samples = made(0, 3)
    learner = ContinualLearner(tiny())
    learner.learn(samples.images, [names[label] for label in samples.labels])
    learner.save(tmp_path / "model")
    assert ContinualLearner.load(tmp_path / "model").classes_ == names
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_params_are_the_config_under_full_keys(tiny: Tiny) -> None:
    params = ContinualLearner(tiny()).get_params()
    assert params["training.epochs"] == 2
    assert params["memory.size"] == 14
    assert params["method.name"] == "dytox"


def test_an_assessment_by_class_task_and_confusion(tiny: Tiny, made: Make) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(made(0, 2))
    learner.learn(made(2, 3))
    found = learner.evaluate(made(1, 3))
    assert [(each.name, each.task, each.images) for each in found.classes] == [("1", 1, 12), ("2", 2, 12)]
    assert [(each.task, each.images) for each in found.tasks] == [(1, 12), (2, 12)]
    assert found.images == 24
    assert found.top5 is None
    predicted = learner.predict(made(1, 3).images)
    right = sum(name == str(label) for name, label in zip(predicted, made(1, 3).labels.tolist(), strict=True))
    assert found.right == right
    assert found.top1 == pytest.approx(100 * right / 24)
    wrong = {(str(label), name) for name, label in zip(predicted, made(1, 3).labels.tolist(), strict=True)}
    assert {(each.name, each.taken_for) for each in found.confusions} == {(a, b) for a, b in wrong if a != b}
    assert sum(each.images for each in found.confusions) == 24 - right
    with pytest.raises(UserError, match="Unknown class '7'"):
        learner.evaluate(made(0, 1).images, [7] * 12)


def test_held_out_images_are_not_learned_and_set_the_temperature(tiny: Tiny, made: Make) -> None:
    learner = ContinualLearner(tiny(memory={"size": 40}))
    learner.learn(made(0, 2, each=40), held_out=0.25)
    assert torch.bincount(learner.held_out.labels).tolist() == [10, 10]
    assert learner.history[0]["images"] == 60
    held = {image.numpy().tobytes() for image in learner.held_out.images}
    assert not held & {image.numpy().tobytes() for image in learner.memory.samples.images}
    assert learner.temperature != 1.0
    learner.learn(made(0, 1, each=200), held_out=0.5)
    assert torch.bincount(learner.held_out.labels).tolist() == [20, 10]  # at most twenty
    plain = ContinualLearner(tiny())
    plain.learn(made(0, 2))
    assert plain.temperature == 1.0


def test_confidences_sum_to_one_and_keep_the_order_of_the_scores(tiny: Tiny, made: Make) -> None:
    for activation in ("sigmoid", "softmax"):
        learner = ContinualLearner(tiny(loss={"activation": activation}))
        learner.learn(made(0, 3), held_out=0.2)
        images = made(0, 3).images
        confidences = learner.confidences(images)
        torch.testing.assert_close(confidences.sum(dim=1), torch.ones(36))
        assert torch.equal(confidences.argmax(dim=1), learner.scores(images).argmax(dim=1))


def test_predict_may_say_nothing(tiny: Tiny, made: Make) -> None:
    learner = ContinualLearner(tiny())
    learner.learn(made(0, 3), held_out=0.2)
    images = made(0, 3).images
    answers = learner.predict(images, reject=0.0)
    limit = learner.threshold(0.0)
    sure = learner.confidences(images).max(dim=1).values >= limit
    assert [answer is not None for answer in answers] == sure.tolist()
    with pytest.raises(UserError, match="The error rate to accept must be"):
        learner.predict(images, reject=1.0)
