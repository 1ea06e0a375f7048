"""Hugging Face datasets from the disk; nothing here asks the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dytox.config import DataConfig
from dytox.data import datasets
from dytox.data.encoded import Encoded
from dytox.errors import UserError

hf = pytest.importorskip("datasets", reason="the extra `hub` is not installed")

NAMES = ["cat", "dog"]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network, and no cache but the test's."""
    monkeypatch.setattr(hf.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(hf.config, "HF_HUB_OFFLINE", True)
    hf.disable_progress_bars()


def table(count: int = 6, image: str = "image", label: str = "label", **columns: Any) -> Any:
    """Images that are their own number, of cats and dogs in turn."""
    pictures = [Image.fromarray(np.full((12, 10, 3), number, dtype=np.uint8)) for number in range(count)]
    features = {image: hf.Image(), label: hf.ClassLabel(names=NAMES)}
    values: dict[str, Any] = {image: pictures, label: [number % 2 for number in range(count)]}
    for name, (kind, content) in columns.items():
        features[name], values[name] = kind, content
    return hf.Dataset.from_dict(values, features=hf.Features(features))


def load(path: Path | str, **more: Any) -> Any:
    return datasets.load(DataConfig(dataset="huggingface", root=str(path), **{"image_size": 8, **more}))


def numbers(samples: Any) -> list[int]:
    return samples.pixels()[:, 0, 0, 0].tolist()


def test_what_save_to_disk_wrote_with_its_splits(tmp_path: Path) -> None:
    secret = table(4).cast_column("label", hf.Value("int64")).map(lambda row: {"label": -1})
    secret = secret.cast_column("label", hf.ClassLabel(names=NAMES))
    splits = {"train": table(6), "test": secret, "validation": table(4)}
    hf.DatasetDict(splits).save_to_disk(tmp_path / "saved")
    data = load(tmp_path / "saved")
    assert data.class_names == ("cat", "dog")
    assert isinstance(data.train.images, Encoded)
    assert (numbers(data.train), data.train.labels.tolist()) == ([0, 1, 2, 3, 4, 5], [0, 1] * 3)
    assert numbers(data.test) == [0, 1, 2, 3]  # the test set has no labels
    kept = data.train.take(torch.tensor([4, 1])).kept()
    assert all(isinstance(source, bytes) for source in kept.images.sources)
    assert numbers(kept) == [4, 1]
    once = load(tmp_path / "saved", on_demand=False)
    assert torch.equal(once.train.images, data.train.pixels())


def test_parquet_and_class_folders_are_split_where_they_have_no_test_set(tmp_path: Path) -> None:
    (tmp_path / "parquet").mkdir()
    table(10, label="animal").to_parquet(tmp_path / "parquet" / "data.parquet")
    data = load(tmp_path / "parquet", image_size=None)
    assert (len(data.train), len(data.test), data.train.size) == (8, 2, 32)
    for number in range(8):
        path = tmp_path / "folders" / NAMES[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((9, 9, 3), 10 * number, dtype=np.uint8)).save(path)
    data = load(tmp_path / "folders")
    found = zip(numbers(data.train), data.train.labels.tolist(), strict=True)
    assert all(number // 10 % 2 == label for number, label in found)


def test_columns_are_found_by_type(tmp_path: Path) -> None:
    coarse = (hf.ClassLabel(names=["a", "b", "c"]), [2, 1, 0, 2, 1, 0])
    table(label="fine", coarse=coarse).save_to_disk(tmp_path / "two")
    with pytest.raises(
        UserError, match=r"several columns of classes \(fine, coarse\): choose one with data.label"
    ):
        load(tmp_path / "two")
    with pytest.raises(UserError, match=r"data.label 'fin': the columns of classes in .* are fine, coarse"):
        load(tmp_path / "two", label="fin")
    assert load(tmp_path / "two", label="coarse").class_names == ("a", "b", "c")
    table(label="fine").cast_column("fine", hf.Value("int64")).save_to_disk(tmp_path / "numbers")
    with pytest.raises(UserError, match=r"has no column of type class \(ClassLabel\), only image, fine"):
        load(tmp_path / "numbers")
    hf.DatasetDict({"all": table()}).save_to_disk(tmp_path / "all")
    with pytest.raises(UserError, match="has no split 'train', only all"):
        load(tmp_path / "all")


def test_an_image_without_a_class(tmp_path: Path) -> None:
    partly = table(4, label="other", kind=(hf.ClassLabel(names=NAMES), [0, 1, None, 1]))
    hf.DatasetDict({"train": partly, "test": partly}).save_to_disk(tmp_path / "partly")
    with pytest.raises(UserError, match=r"has images without a class \(-1 or none\)"):
        load(tmp_path / "partly", label="kind")


def test_a_broken_row_and_a_name_that_is_none(tmp_path: Path) -> None:
    broken = (hf.Image(), [{"bytes": b"no image", "path": None}] * 4)
    table(4, image="other", image_=broken).rename_column("image_", "image").save_to_disk(tmp_path / "broken")
    with pytest.raises(UserError, match=r"^Row 0 of .*broken \(train\) is not an image that can be read"):
        load(tmp_path / "broken").train.pixels()
    with pytest.raises(
        UserError, match=r"^The dataset nobody/nothing cannot be loaded \(.*\): check its name"
    ):
        datasets.load(DataConfig(dataset="hf:nobody/nothing"))
