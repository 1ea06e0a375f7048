"""Every registered method, as runs: cut off and resumed, in two processes, and shown in a report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from dytox import ContinualLearner, recipes
from dytox.engine.observer import Interrupted
from dytox.experiments.train import resume, train
from dytox.experiments.watchers import Watcher
from dytox.methods import registry
from dytox.report import comparison_page, run_page, style
from dytox.report.record import group, read_record
from dytox.runs.run_directory import RunDirectory

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import processes

ON_RESNETS = {"finetune-resnet", "replay-resnet", "joint-resnet"}
METHODS = sorted({*registry.BUILT_IN, *ON_RESNETS, "der-pruned"})
TINY = [
    "scenario.classes=6",  # three tasks: in the third, RPSNet draws its second path
    "data.test_share=0.95",
    "data.validation_share=0.3",  # few images to learn, and fewer to test
    "model.dim=16",
    "model.heads=2",
    "model.depth=1",
    "training.epochs=2",
    "training.batch=8",
    "training.schedule.warmup_epochs=1",
    "training.schedule.warmup_lr=1e-4",
    "training.schedule.milestones=[]",
    "finetuning.epochs=1",
    "finetuning.batch=6",
    "runtime.precision=fp64",
    "runtime.report=false",
]

SHORTER = {"bic": ["method.correction.epochs=2"], "simple_der": ["method.recovery_epochs=1"]}


def options(name: str) -> list[str]:
    method = registry.find_method(recipes.compose("digits", method=name).method.name)
    memory = ["memory.size=12", "memory.per_class=null"] if method.uses_memory else []
    return [*TINY, *memory, *SHORTER.get(name, [])]


WITHOUT_TRAINING = {"ncm", "slda", "ranpac", "fecam"}


class Stopper(Watcher):
    """Counts the steps of the second and third task, and wants to stop after so many.

    For methods that compute their classifier and train nothing, it counts the phases instead.
    """

    def __init__(self, name: str, limit: float = float("inf")) -> None:
        self.by_phase, self.steps, self.limit = name in WITHOUT_TRAINING, 0, limit

    def phase_started(self, lesson, phase):
        self.steps += self.by_phase and lesson.task.index > 0

    def step_ended(self, lesson, total):
        assert not self.by_phase
        self.steps += lesson.task.index > 0

    def stop_wanted(self):
        return self.steps >= self.limit


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """All methods in one go, in one process and in two."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    variants = {name: [f"--method={name}", *options(name)] for name in METHODS}
    world = processes.start(2, variants, two)
    for name in METHODS:
        watcher = Stopper(name)
        train(recipes.compose("digits", method=name, overrides=options(name)), one / name, watcher)
        (one / f"{name}.steps").write_text(str(watcher.steps))
    while not world.join():
        pass
    return {"one": one, "two": two}


def content(run: Path) -> tuple[dict, dict, list]:
    """The tensors of a run's model and memory, its metrics and its log, without times."""
    learner = ContinualLearner.load(run / "model")
    tensors = {**learner.method.state_dict(), **learner.memory.tensors()}
    metrics = json.loads((run / "metrics.json").read_text())
    for step in [*metrics["steps"], metrics]:
        step.pop("seconds")
        step.pop("calibration_error", None)
    log = RunDirectory(run).log_lines()
    return tensors, metrics, [{**line, "images_per_second": 0} for line in log]


@pytest.mark.parametrize("name", METHODS)
def test_cut_off_twice_and_resumed_it_ends_the_same_bit_by_bit(runs, tmp_path, name):
    steps = int((runs["one"] / f"{name}.steps").read_text())
    config = recipes.compose("digits", method=name, overrides=options(name))
    with pytest.raises(Interrupted):  # in the midst of the second task's first epoch
        train(config, tmp_path / "run", Stopper(name, 1))
    with pytest.raises(Interrupted):  # near the end of the third task's last training
        resume(tmp_path / "run", Stopper(name, steps - 1 - 1))
    resume(tmp_path / "run", Watcher())
    expected, found = content(runs["one"] / name), content(tmp_path / "run")
    assert expected[0].keys() == found[0].keys()
    for key, tensor in expected[0].items():
        assert torch.equal(tensor, found[0][key]), key
    assert expected[1:] == found[1:]


@pytest.mark.parametrize("name", METHODS)
def test_two_processes_agree_with_one(runs, name):
    (weights, metrics, log), (again, others, lines) = (content(runs[size] / name) for size in ("one", "two"))
    for key, tensor in weights.items():
        torch.testing.assert_close(again[key], tensor, atol=1e-9, rtol=1e-9, msg=key)
    assert torch.equal(weights["images"], again["images"])
    assert metrics == others
    assert [line["lr"] for line in log] == [line["lr"] for line in lines]
    for line, other in zip(log, lines, strict=True):
        assert other["losses"] == pytest.approx(line["losses"], abs=1e-8)


@pytest.mark.parametrize("name", METHODS)
def test_its_run_has_a_page(runs, name, monkeypatch):
    """Composed as ever, figures and all; that they become drawings is tested elsewhere, and takes longer."""
    figures = {}
    monkeypatch.setattr(style, "inline", lambda figure, name, about: str(figures.setdefault(name, figure)))
    record = read_record(runs["one"] / name)
    assert "6 classes in 3 tasks" in run_page.render_run(record)
    assert {"accuracy", "matrix", "forgetting", "confusion"} <= figures.keys()
    assert ("learning" in figures) == (name not in WITHOUT_TRAINING)
    if name in WITHOUT_TRAINING:
        return
    words = {text.get_text() for axes in figures["learning"].axes for text in axes.texts}
    assert {term for line in record.log for term in line["losses"]} - {"total"} <= words


def test_all_of_them_side_by_side(runs, tmp_path):
    found = group([read_record(runs["one"] / name) for name in METHODS])
    comparison_page.write_comparison(found, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert len({each.label for each in found}) == len(METHODS)
    assert all(each.label in page for each in found)
