"""An exported model predicts what the model predicts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dytox import ContinualLearner
from dytox.config import Config
from dytox.data.samples import Samples
from dytox.errors import UserError
from dytox.export import write_export

NAMES = ["ant", "größe", "a b", "d\"q'", "elk"]
DEPLOY = Path(__file__).parents[1] / "docs" / "deploy.md"

Make = Callable[..., Samples]
Tiny = Callable[..., Config]


def teach(tiny: Tiny, made: Make, method: str = "dytox", **over: Any) -> ContinualLearner:
    learner = ContinualLearner(tiny(method, **over))
    for first, last in [(0, 3), (3, 5)]:
        samples = made(first, last)
        learner.learn(samples.images, [NAMES[label] for label in samples.labels], held_out=0.2)
    return learner


@pytest.fixture
def taught(tiny: Tiny, made: Make) -> Callable[..., ContinualLearner]:
    """A learner of two tasks."""
    return partial(teach, tiny, made)


@pytest.fixture(scope="module")
def exported(
    tiny: Tiny, made: Make, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ContinualLearner, Path]:
    """A model and its ONNX file, which takes seconds to make."""
    learner, path = teach(tiny, made, data={"resize": 10}), tmp_path_factory.mktemp("onnx") / "model.onnx"
    pytest.importorskip("onnxruntime")
    write_export(learner, path)
    return learner, path


def bytes_for(learner: ContinualLearner, count: int) -> np.ndarray[Any, Any]:
    shape = (count, learner.size, learner.size, 3)
    return np.random.default_rng(count).integers(0, 256, shape, dtype=np.uint8)


def assert_onnx_agrees(learner: ContinualLearner, path: Path) -> Any:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path)
    for count in (1, 2, 9):
        images = bytes_for(learner, count)
        [found] = session.run(None, {"images": images})
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, learner.predict_proba(images), atol=1e-4)
    return session


def test_onnx_agrees_and_describes_itself(exported: tuple[ContinualLearner, Path]) -> None:
    learner, path = exported
    session = assert_onnx_agrees(learner, path)
    [images], [confidences] = session.get_inputs(), session.get_outputs()
    assert (images.name, images.type, images.shape) == ("images", "tensor(uint8)", ["batch", 8, 8, 3])
    assert (confidences.name, confidences.shape) == ("confidences", ["batch", 5])
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == learner.classes_
    assert (about["image_size"], about["resize"]) == ("8", "10")
    assert about["resizing"].startswith("the square of 8/10 of the short side in the middle, resized to the")
    assert [each.name for each in path.parent.iterdir()] == ["model.onnx"]


def test_onnx_agrees_for_a_resnet_with_softmax_and_gaps(
    taught: Callable[..., ContinualLearner], tmp_path: Path
) -> None:
    learner = taught("podnet")
    learner.forget("ant", "d\"q'")
    write_export(learner, tmp_path / "model.onnx")
    assert_onnx_agrees(learner, tmp_path / "model.onnx")


@pytest.mark.parametrize("method", ["dytox", "replay"])  # tokens and heads; one head
def test_torch_export_agrees(taught: Callable[..., ContinualLearner], tmp_path: Path, method: str) -> None:
    learner, path = taught(method, runtime={"precision": "fp64"}), tmp_path / "model.pt2"
    learner.forget("ant", "d\"q'", "elk")
    write_export(learner, path)
    extra = {"metadata.json": ""}
    program = torch.export.load(path, extra_files=extra).module()
    for count in (1, 2, 9):
        images = bytes_for(learner, count)
        found = program(torch.from_numpy(images)).numpy()
        np.testing.assert_allclose(found, learner.predict_proba(images), atol=1e-5)
    about = json.loads(extra["metadata.json"])
    assert json.loads(about["classes"]) == learner.classes_
    assert about["resizing"].startswith("the largest square in the middle, resized to the side")


def test_the_consumer_of_the_documentation_works(
    exported: tuple[ContinualLearner, Path], tmp_path: Path, made: Make
) -> None:
    learner, path = exported
    paths = []
    for place, image in enumerate(made(0, 5).images[::7]):
        paths.append(str(tmp_path / f"{place}.png"))
        wide = Image.fromarray(image.permute(1, 2, 0).numpy()).resize((40 + place, 24))
        wide.save(paths[-1])
    code = re.findall(r"```python\n(.*?)```", DEPLOY.read_text(encoding="utf-8"), re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], cwd=path.parent, capture_output=True, text=True, check=True
    )
    expected = zip(paths, learner.predict(paths), learner.predict_proba(paths).max(axis=1), strict=True)
    for line, (file, name, value) in zip(done.stdout.splitlines(), expected, strict=True):
        answer, shown = line.rsplit(" ", 1)
        assert answer == f"{file} {name}"
        # torch's resizing is up to two levels beside Pillow's
        assert float(shown.removesuffix("%")) == pytest.approx(100 * value, abs=0.2)


def test_what_cannot_be_exported(
    exported: tuple[ContinualLearner, Path], tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, _ = exported
    with pytest.raises(UserError, match=r"should end in \.onnx, or in \.pt2"):
        write_export(learner, tmp_path / "model.bin")
    with pytest.raises(UserError, match="has learned no class yet"):
        write_export(ContinualLearner(tiny()), tmp_path / "model.onnx")
    with pytest.raises(UserError, match="Cannot write"):
        write_export(learner, tmp_path / "nowhere" / "model.pt2")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UserError, match=r"pip install 'dytox\[export\]'"):
        write_export(learner, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
