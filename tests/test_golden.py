"""What older versions saved goes on working: it predicts the same, learns on, forgets, and is resumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dytox import ContinualLearner
from dytox.engine.observer import Observer
from dytox.experiments.train import resume
from dytox.experiments.watchers import Watcher
from dytox.growing import plan, teaching
from dytox.runs.run_directory import RunDirectory

GOLDEN = Path(__file__).parent / "fixtures" / "golden"
MODELS = sorted(path.parent for path in GOLDEN.glob("*/models/*/config.json"))
RUNS = sorted(path.parent for path in GOLDEN.glob("*/runs/*/config.yaml"))
LESSONS = sorted(GOLDEN.glob("*/lesson"))


def named(path: Path) -> str:
    return str(path.relative_to(GOLDEN))


def expected(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path.parent / f"{path.name}.safetensors")


def test_there_is_one_of_every_format() -> None:
    assert MODELS
    assert RUNS
    assert LESSONS


@pytest.mark.parametrize("path", MODELS, ids=named)
def test_a_model_predicts_as_it_did(path: Path) -> None:
    learner, recorded = ContinualLearner.load(path), expected(path)
    found = torch.from_numpy(learner.predict_proba(recorded["images"]))
    torch.testing.assert_close(found, recorded["confidences"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("path", MODELS, ids=named)
def test_a_model_learns_on_forgets_and_is_saved(path: Path, made: Any, tmp_path: Path) -> None:
    learner = ContinualLearner.load(path)
    known = learner.classes_
    samples = made(6, 8, size=8)
    learner.learn(samples.images, [f"new {label}" for label in samples.labels.tolist()])
    assert learner.classes_ == [*known, "new 6", "new 7"]
    learner.forget(known[0], "new 7")
    learner.save(tmp_path / "model")
    again = ContinualLearner.load(tmp_path / "model")
    assert again.classes_ == [*known[1:], "new 6"]
    assert (again.predict_proba(samples.images) == learner.predict_proba(samples.images)).all()


@pytest.mark.parametrize("path", RUNS, ids=named)
def test_a_run_is_resumed_to_the_same_result(path: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(path, tmp_path / "run"))
    config = (run / "config.yaml").read_text().replace("report: true", "report: false")
    (run / "config.yaml").write_text(config)
    found = resume(run, Watcher())
    recorded = json.loads((path.parent / f"{path.name}.metrics.json").read_text())
    assert [step["top1"] for step in found["steps"]] == pytest.approx(
        [step["top1"] for step in recorded["steps"]], abs=1.0
    )  # on another machine an image or two may fall on the other side
    scores, _ = RunDirectory(run).load_evaluation(recorded["steps"][-1]["task"])
    torch.testing.assert_close(scores["top_scores"], expected(path)["top_scores"], atol=1e-3, rtol=0)


@pytest.mark.parametrize("path", LESSONS, ids=named)
def test_a_lesson_goes_on_to_the_same_result(path: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(path / "model", tmp_path / "model"))
    seen = Updates()
    teaching.teach(plan.make(model, path / "spring"), seen)
    recorded = expected(path / "model")
    found = torch.from_numpy(ContinualLearner.load(model).predict_proba(recorded["images"]))
    torch.testing.assert_close(found, recorded["confidences"], atol=1e-3, rtol=0)
    assert seen.epochs == [1, 0], "what was learned before the cut was learned again"


class Updates(Observer):
    """The epochs that were begun."""

    def __init__(self) -> None:
        self.epochs: list[int] = []

    def epoch_started(self, lesson: Any, *, steps: int, done: int) -> None:
        self.epochs.append(lesson.position.epoch)
