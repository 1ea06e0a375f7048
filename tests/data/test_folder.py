from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dytox.config import DataConfig
from dytox.data import datasets, folder
from dytox.errors import UserError


def put(path: Path, shade: int = 0, side: int = 8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((side, side), shade, dtype=np.uint8)).save(path)


def fill(root: Path, classes: str = "ba", count: int = 5, side: int = 8) -> None:
    for index, name in enumerate(classes):
        for number in range(count):
            put(root / name / f"{number}.png", 50 * index + number, side)


def config(root: Path, size: int | None = 8, **more: float) -> DataConfig:
    return DataConfig(dataset="folder", root=str(root), image_size=size, **more)  # type: ignore[arg-type]


def test_training_and_validation_folders(tmp_path: Path) -> None:
    fill(tmp_path / "train")
    fill(tmp_path / "val", count=2)
    fill(tmp_path / "test", classes="xyz")  # val is there, so test is not looked at
    data = datasets.load(config(tmp_path))
    assert data.class_names == ("a", "b")
    assert data.train.labels.tolist() == [0] * 5 + [1] * 5
    assert data.train.images[:, 0, 0, 0].tolist() == [50, 51, 52, 53, 54, 0, 1, 2, 3, 4]
    assert data.test.images[:, 0, 0, 0].tolist() == [50, 51, 0, 1]


def test_a_test_folder_serves_where_there_is_no_val(tmp_path: Path) -> None:
    fill(tmp_path / "train")
    fill(tmp_path / "test", count=3)
    assert len(datasets.load(config(tmp_path)).test) == 6


@pytest.mark.parametrize("inside", ["", "train"])
def test_one_folder_is_split_the_same_way_every_time(tmp_path: Path, inside: str) -> None:
    fill(tmp_path / inside, count=10)
    one, two = (
        datasets.load(config(tmp_path, test_share=0.3)),
        datasets.load(config(tmp_path, test_share=0.3)),
    )
    assert torch.equal(one.test.images, two.test.images)
    assert torch.bincount(one.test.labels).tolist() == [3, 3]
    assert torch.bincount(one.train.labels).tolist() == [7, 7]


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    for name in ("train", "plane"):
        for number in range(2):
            put(tmp_path / name / f"{number}.png")
    assert datasets.load(config(tmp_path)).class_names == ("plane", "train")


def test_hidden_files_notes_and_nested_folders_are_passed_over(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    (tmp_path / "a" / ".hidden.png").write_text("not an image")
    (tmp_path / ".cache").mkdir()
    put(tmp_path / "a" / "nested" / "6.png")
    put(tmp_path / "a" / "UPPER.PNG")
    found = folder.find_images(tmp_path)
    assert list(found) == ["a", "b"]
    assert [path.name for path in found["a"]] == ["0.png", "1.png", "2.png", "3.png", "4.png", "UPPER.PNG"]


@pytest.mark.parametrize(("side", "expected"), [(8, 32), (63, 32), (64, 64), (300, 64)])
def test_the_default_size_follows_the_images(tmp_path: Path, side: int, expected: int) -> None:
    fill(tmp_path, side=side)
    assert datasets.load(config(tmp_path, size=None)).train.images.shape[2:] == (expected, expected)


def test_broken_files_are_counted_and_the_first_ones_named(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "a" / "1.png").write_text("broken")
    with pytest.raises(UserError, match=r"a/1\.png is not an image"):
        datasets.load(config(tmp_path))
    for number in range(4):
        (tmp_path / "b" / f"{number}.png").write_text("broken")
    with pytest.raises(UserError, match=r"^5 files .*a/1\.png, .*b/0\.png, .*b/1\.png and 2 more\)"):
        datasets.load(config(tmp_path))
    with pytest.raises(UserError, match=r"^5 files"):
        datasets.load(config(tmp_path, size=None))


def test_folders_that_are_no_dataset_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="name it with --data"):
        datasets.load(DataConfig(dataset="folder"))
    with pytest.raises(UserError, match=r"There is no folder .*gone"):
        datasets.load(config(tmp_path / "gone"))
    with pytest.raises(UserError, match=r"no class folders: put the images into .*/<class>/"):
        datasets.load(config(tmp_path))
    fill(tmp_path, classes="a")
    with pytest.raises(UserError, match=r"one class only \(a\)"):
        datasets.load(config(tmp_path))
    (tmp_path / "b").mkdir()
    with pytest.raises(UserError, match="/b: a class folder without images"):
        datasets.load(config(tmp_path))
    put(tmp_path / "b" / "0.png")
    with pytest.raises(UserError, match="Class 'b' has one image only"):
        datasets.load(config(tmp_path))


def test_classes_to_test_must_be_those_to_learn(tmp_path: Path) -> None:
    fill(tmp_path / "train", "ab")
    fill(tmp_path / "val", "abc")
    with pytest.raises(UserError, match=r"classes to test \(c\) that .*train does not have"):
        datasets.load(config(tmp_path))
    fill(tmp_path / "train", "abcd")
    with pytest.raises(UserError, match=r"no test images for some classes \(d\)"):
        datasets.load(config(tmp_path))
