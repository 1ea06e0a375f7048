"""`learn` as people call it: on a pretrained encoder, without a choice of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dytox.data.inputs import read_images
from dytox.data.samples import Samples
from dytox.learner import ContinualLearner

NAMES = ["ant", "bee", "cat"]
SMALL = ["--set", "data.image_size=32", "--set", "model.input_size=null"]  # photos have 224 pixels

Program = Callable[..., Any]


@pytest.fixture
def photos(
    made: Callable[..., Samples], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Folders of made images, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def photos(name: str, first: int, last: int, each: int) -> str:
        samples = made(first, last, size=32, each=each)
        for place, (image, label) in enumerate(zip(samples.images, samples.labels.tolist(), strict=True)):
            path = Path(name) / NAMES[label] / f"{place:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
        return name

    return photos


def test_photos_are_learned_predicted_forgotten_and_exported(
    dytox: Program, photos: Callable[..., str]
) -> None:
    first = dytox("learn", "model", photos("one", 0, 2, each=15), *SMALL)
    assert first.code == 0, first.err
    assert "Encoder efficientnet-lite0, pretrained and frozen, with ridge regression (ranpac)" in " ".join(
        first.out.split()
    )
    assert "--encoder none learns from scratch" in " ".join(first.out.split())
    second = dytox("learn", "model", photos("two", 2, 3, each=15))  # one class alone
    assert second.code == 0, second.err
    more = dytox("learn", "model", photos("three", 0, 1, each=25))  # more images of a known class
    assert more.code == 0, more.err
    learner = ContinualLearner.load("model")
    assert learner.classes_ == NAMES
    assert learner.method.model.moments.counts.sum() > 45 * 0.8
    assert learner.score("one") > 0.9
    about = json.loads(dytox("info", "model", "--json").out)
    assert (about["method"], about["memory_images"]) == ("ranpac", 0)

    pytest.importorskip("onnxruntime")
    assert dytox("export", "model", "--out", "model.onnx").code == 0
    import onnxruntime

    images = read_images("one", 32)
    (found,) = onnxruntime.InferenceSession("model.onnx").run(
        None, {"images": images.permute(0, 2, 3, 1).contiguous().numpy()}
    )
    np.testing.assert_allclose(found, learner.predict_proba("one"), atol=1e-4)

    forgotten = dytox("forget", "model", "bee")
    assert "exactly what it would be if it had never seen these classes" in " ".join(forgotten.out.split())
    assert ContinualLearner.load("model").classes_ == ["ant", "cat"]


def test_few_photos_are_told_apart_by_the_nearest_mean(dytox: Program, photos: Callable[..., str]) -> None:
    found = dytox("learn", "model", photos("one", 0, 2, each=6), *SMALL)
    assert "nearest class mean (ncm): fewer than 10 images a class" in " ".join(found.out.split())
    assert ContinualLearner.load("model").config.method.name == "ncm"


def test_an_encoder_for_a_run(dytox: Program, photos: Callable[..., str]) -> None:
    photos("one", 0, 2, each=6)
    shown = dytox("show", "digits", "--method", "ncm")
    assert "efficientnet-lite0" in shown.out
    other = dytox("train", "digits", "--method", "icarl", "--encoder", "efficientnet-lite9")
    assert other.code == 2
    assert "Unknown encoder 'efficientnet-lite9'" in other.err
