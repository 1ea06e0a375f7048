from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from dytox.config import DataConfig
from dytox.data import datasets
from dytox.data.samples import Samples
from dytox.errors import UserError


def numbered(labels: list[int]) -> Samples:
    """Images of one pixel that carry their own number."""
    numbers = torch.arange(len(labels), dtype=torch.uint8)
    return Samples(numbers.view(-1, 1, 1, 1).repeat(1, 3, 1, 1), torch.tensor(labels))


def numbers(samples: Samples) -> list[int]:
    return samples.images[:, 0, 0, 0].tolist()


def test_an_unknown_dataset_is_named_with_its_neighbour() -> None:
    with pytest.raises(UserError, match="Unknown dataset 'digit': did you mean 'digits'"):
        datasets.load(DataConfig(dataset="digit"))


def test_a_fifth_of_each_digit_is_the_test_set() -> None:
    data = datasets.load(DataConfig())
    assert data.name == "digits"
    # A fifth of 178, 182, 177, … rounded.
    assert torch.bincount(data.test.labels).tolist() == [36, 36, 35, 37, 36, 36, 36, 36, 35, 36]
    assert len(data.train) + len(data.test) == 1797


def test_the_config_sets_the_test_share_and_the_image_size() -> None:
    data = datasets.load(DataConfig(test_share=0.5, image_size=16))
    assert abs(len(data.train) - len(data.test)) <= 10
    assert data.train.images.shape[1:] == data.test.images.shape[1:] == (3, 16, 16)
    own = datasets.load(DataConfig(test_share=0.5))
    small = data.train.images.float().mean((2, 3))
    assert (small - own.train.images.float().mean((2, 3))).abs().max() < 12  # the same images, only larger


def test_the_validation_share_comes_out_of_the_training_set() -> None:
    plain, tuning = datasets.load(DataConfig()), datasets.load(DataConfig(validation_share=0.25))
    assert len(tuning.train) + len(tuning.test) == len(plain.train)
    assert len(tuning.test) == pytest.approx(len(plain.train) / 4, abs=5)
    test_images = {image.numpy().tobytes() for image in plain.test.images}
    assert not any(image.numpy().tobytes() in test_images for image in tuning.test.images)


def test_a_split_is_the_same_every_time_whatever_the_global_seed() -> None:
    samples = numbered([0, 1] * 50)
    torch.manual_seed(1)
    first = datasets.split_dataset(samples, 0.3, ("a", "b"))
    torch.manual_seed(2)
    second = datasets.split_dataset(samples, 0.3, ("a", "b"))
    assert numbers(first[0]) == numbers(second[0])
    assert numbers(first[1]) == numbers(second[1])
    assert sorted(numbers(first[0]) + numbers(first[1])) == list(range(100))
    assert (
        numbers(first[1]) == sorted(numbers(first[1])) != list(range(30))
    )  # in order, but not the first ones
    assert torch.bincount(first[1].labels).tolist() == [15, 15]


@pytest.mark.parametrize(
    ("count", "share", "held"), [(2, 0.01, 1), (2, 0.99, 1), (10, 0.25, 3), (10, 0.99, 9)]
)
def test_a_split_leaves_each_side_at_least_one_image(count: int, share: float, held: int) -> None:
    kept, taken = datasets.split_dataset(numbered([0] * count), share, ("a",))
    assert (len(kept), len(taken)) == (count - held, held)


@pytest.mark.parametrize(("labels", "words"), [([0, 0, 1], "one image"), ([0, 0], "no image")])
def test_a_class_with_too_few_images_is_named(labels: list[int], words: str) -> None:
    with pytest.raises(UserError, match=f"Class 'dog' has {words}"):
        datasets.split_dataset(numbered(labels), 0.5, ("cat", "dog"))


@pytest.mark.parametrize("library", [np.asarray, torch.tensor])
def test_images_in_any_layout_become_the_same_tensor(library: type) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 5, 4, 3), dtype=np.uint8)
    channels_first = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    expected = torch.tensor(channels_first)
    assert torch.equal(datasets.as_images(library(pixels)), expected)
    assert torch.equal(datasets.as_images(library(channels_first)), expected)
    grey = datasets.as_images(library(pixels[..., 1].copy()))
    assert torch.equal(grey, expected[:, 1:2].repeat(1, 3, 1, 1))


def test_images_are_copied_so_that_a_later_change_of_the_array_is_not_seen() -> None:
    for array in (np.zeros((1, 3, 2, 2), dtype=np.uint8), torch.zeros((1, 3, 2, 2), dtype=torch.uint8)):
        images = datasets.as_images(array)
        array[:] = 9
        assert images.max() == 0
        assert images.is_contiguous()


def test_reversed_and_read_only_arrays_are_taken() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)[:, ::-1]
    array.flags.writeable = False
    assert datasets.as_images(array)[0, 0, 0].tolist() == [8, 9, 10, 11]


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((2, 3, 4, 4), dtype=np.float32), "must be uint8 .* not float32"),
        (torch.zeros((2, 3, 4, 4)), "must be uint8 .* not float32"),
        (np.zeros((2, 4, 4, 4), dtype=np.uint8), r"not \(2, 4, 4, 4\)"),
        (np.zeros((4, 4), dtype=np.uint8), r"not \(4, 4\)"),
        (np.zeros((0, 4, 4), dtype=np.uint8), r"not \(0, 4, 4\)"),
        ([[1, 2]], "not a list"),
    ],
)
def test_wrong_images_are_refused(array: object, words: str) -> None:
    with pytest.raises(UserError, match=words):
        datasets.as_images(array)  # type: ignore[arg-type]


def grey(count: int, side: int = 4) -> np.ndarray:
    return np.zeros((count, side, side), dtype=np.uint8)


def test_arrays_become_a_dataset() -> None:
    data = datasets.from_arrays(grey(3), [0, 1, 1], grey(2), np.array([1, 0], dtype=np.uint8), ["cat", "dog"])
    assert data.class_names == ("cat", "dog")
    assert data.train.labels.tolist() == [0, 1, 1]
    assert data.test.labels.dtype == torch.int64
    assert datasets.from_arrays(grey(2), torch.tensor([1, 0]), grey(2), [0, 1]).class_names == ("0", "1")


@pytest.mark.parametrize(
    ("train", "labels", "test", "test_labels", "names", "words"),
    [
        (grey(2), [0], grey(2), [0, 1], None, "2 images have 1 labels"),
        (grey(2), [0.0, 1.0], grey(2), [0, 1], None, "whole numbers"),
        (grey(2), [[0], [1]], grey(2), [0, 1], None, "one dimension"),
        (grey(2), [-1, 0], grey(2), [0, 1], None, "count from 0, not -1"),
        (grey(2), [0, 1], grey(2, 5), [0, 1], None, "4x4 and test images of 5x5"),
        (grey(2), [0, 1], grey(2), [0, 1], ["cat"], "Label 1 is too high for 1 class names"),
        (grey(2), [0, 10**12], grey(2), [0, 1], None, "Label 1000000000000 is too high for 2 training"),
        (grey(3), [0, 2, 0], grey(2), [0, 2], None, "Class '1' of arrays: no training image"),
        (grey(2), [0, 1], grey(2), [0, 0], ["cat", "dog"], "Class 'dog' of arrays: no test image"),
    ],
)
def test_wrong_arrays_are_refused(train, labels, test, test_labels, names, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError, match=words):
        datasets.from_arrays(train, labels, test, test_labels, names)


def test_without_the_extra_hugging_face_datasets_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"need the extra `hub`: pip install 'dytox\[hub\]'"):
        datasets.load(DataConfig(dataset="hf:some/thing"))
