"""examples/simplecil.py, a method of a user's own, through the whole command line, without any `--set`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dytox import ContinualLearner
from dytox.data.samples import Samples
from dytox.engine.observer import Interrupted
from dytox.experiments.train import Watcher, train
from dytox.recipes import compose

EXAMPLE = Path(__file__).parents[2] / "examples" / "simplecil.py"
Program = Callable[..., Any]
METHOD = ["--method", "simplecil:SimpleCIL"]
NAMES = ["ant", "bee", "cat", "dog", "elk"]
RECIPE = """\
extends: digits
config:
  data: {test_share: 0.95, validation_share: 0.3}
  scenario: {classes: 6}
  model: {input_size: 32}
  runtime: {precision: fp64, device: cpu, report: false}
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, made: Callable[..., Samples]) -> Path:
    """A folder with the example and photos of two lessons."""
    folder = tmp_path_factory.mktemp("simplecil")
    shutil.copy(EXAMPLE, folder)
    (folder / "quick.yaml").write_text(RECIPE)
    for lesson, first, last in (("spring", 0, 3), ("autumn", 3, 5)):
        samples = made(first, last, each=10)
        for place, (image, label) in enumerate(zip(samples.images, samples.labels.tolist(), strict=True)):
            path = folder / lesson / NAMES[label] / f"{place:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    return folder


@pytest.fixture
def done(here: Path, dytox: Program, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """What a command prints that is run in the folder, with the method named."""
    monkeypatch.chdir(here)

    def done(*arguments: str) -> str:
        outcome = dytox(*arguments, *METHOD)
        assert outcome.code == 0, outcome.err
        return str(outcome.out)

    yield done
    sys.modules.pop("simplecil", None)


def test_it_is_short_and_imports_from_one_module() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 40
    assert [line.split()[1] for line in lines if line.startswith(("from ", "import "))] == ["dytox.method"]


def test_a_model_of_it(done: Callable[..., str]) -> None:
    """Learns twice, predicts, forgets a class, and is exported."""
    done("learn", "model", "spring")
    done("learn", "model", "autumn")
    assert "5 classes in 2 tasks" in done("info", "model")
    found = json.loads(done("predict", "model", "spring", "autumn", "--json"))
    right = [Path(each["image"]).parent.name == each["class"] for each in found]
    assert len(right) == 50
    assert np.mean(right) > 0.8
    before = ContinualLearner.load("model", method=METHOD[1])
    done("forget", "model", "bee")
    after = ContinualLearner.load("model", method=METHOD[1])
    images = torch.randint(0, 256, (6, 3, after.size, after.size), dtype=torch.uint8)
    with torch.no_grad():
        logits = [each.method.model(images / 255).logits for each in (before, after)]
    assert torch.equal(logits[0][:, [0, 2, 3, 4]], logits[1])
    done("export", "model", "--out", "model.pt2")
    exported = torch.export.load("model.pt2").module()
    torch.testing.assert_close(
        exported(images.permute(0, 2, 3, 1)), after.confidences(images), atol=1e-5, rtol=0
    )


class Stopper(Watcher):
    """Stops a run after its third phase."""

    steps = 0

    def stop_wanted(self) -> bool:
        self.steps += 1
        return self.steps == 3


def weights(run: str) -> dict[str, torch.Tensor]:
    return ContinualLearner.load(f"{run}/model", method=METHOD[1]).method.state_dict()


def test_a_run_of_it(done: Callable[..., str]) -> None:
    """In one process, in two, and cut off and resumed: the same weights."""
    done("train", "quick.yaml", "--out", "one")
    two = [*("train", "quick.yaml", "--out", "two", "--processes", "2"), *METHOD]
    subprocess.run([sys.executable, "-m", "dytox", *two], check=True, capture_output=True, timeout=300)
    with pytest.raises(Interrupted):
        train(compose("quick.yaml", method=METHOD[1]), Path("cut"), Stopper())
    done("resume", "cut")
    expected = weights("one")
    assert len(json.loads(Path("one/metrics.json").read_text())["steps"]) == 3
    for name, each in weights("cut").items():
        assert torch.equal(each, expected[name]), name
    for name, each in weights("two").items():
        torch.testing.assert_close(each, expected[name], atol=1e-9, rtol=1e-9)
