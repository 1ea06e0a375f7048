"""A run leaves a directory whose every figure can be checked, and depends on its seed alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dytox.config import Config
from dytox.errors import UserError
from dytox.experiments.train import prepare, train
from dytox.experiments.watchers import Watcher
from dytox.learner import ContinualLearner
from dytox.methods import registry
from dytox.runs.run_directory import RunDirectory

Tiny = Callable[..., Config]
Result = Callable[[Path], dict[str, Any]]

METRICS = [
    *("format", "method", "dataset", "seed", "order", "flipped", "steps", "accuracy_matrix"),
    *("avg_top1", "last_top1", "avg_top5", "last_top5"),
    *("forgetting", "forgetting_per_task", "backward_transfer", "seconds"),
]
STEP = [
    *("task", "classes_seen", "top1", "top5", "task_aware_top1", "calibration_error"),
    *("parameters", "memory_images", "seconds"),
]


class Listener(Watcher):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def run_started(self, tasks: Any, run: Any) -> None:
        self.heard.append(f"{len(tasks)} tasks")

    def phase_started(self, lesson: Any, phase: Any) -> None:
        self.heard.append(f"{lesson.task.index} {phase.name}")

    def task_ended(self, step: Any) -> None:
        self.heard.append(f"{step.task} ended")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_run: Tiny) -> Path:
    path = tmp_path_factory.mktemp("runs") / "straight"
    train(tiny_run(), path, Watcher())
    return path


@pytest.fixture(scope="module")
def run(finished: Path) -> RunDirectory:
    return RunDirectory(finished)


@pytest.fixture(scope="module")
def metrics(finished: Path) -> dict[str, Any]:
    content = json.loads((finished / "metrics.json").read_text())
    assert isinstance(content, dict)
    return content


@pytest.fixture(scope="module")
def evaluations(run: RunDirectory) -> list[dict[str, torch.Tensor]]:
    return [run.load_evaluation(task)[0] for task in range(3)]


def test_the_run_directory_is_the_designs(finished: Path) -> None:
    names = {path.name for path in finished.iterdir() if not path.name.startswith(".")}
    files = {"config.yaml", "environment.json", "log.jsonl", "metrics.json"}
    assert names == files | {"evaluation", "checkpoints", "model"}
    evaluations = [path.name for path in sorted((finished / "evaluation").iterdir())]
    assert evaluations == [f"task-0{task}.safetensors" for task in range(3)]
    assert list((finished / "checkpoints").iterdir()) == []
    assert (finished / "model" / "config.json").is_file()


def test_the_config_reads_back_equal(run: RunDirectory, tiny_run: Tiny) -> None:
    assert run.read_config() == registry.complete(tiny_run())
    assert run.read_config() == prepare(tiny_run())[0]


def test_the_environment_says_what_was_used(run: RunDirectory) -> None:
    environment = run.read_environment()
    assert environment["torch"] == torch.__version__
    assert environment["threads"] == 1
    assert {"started", "command", "python", "dytox", "numpy", "platform", "cpus"} <= set(environment)


def test_the_watcher_hears_of_every_task_and_phase(tmp_path: Path, tiny_run: Tiny) -> None:
    listener = Listener()
    train(tiny_run(scenario={"classes": 4}), tmp_path / "run", listener)
    first = ["0 expand", "0 train", "0 tidy", "0 memory", "0 ended"]
    second = ["1 teacher", "1 expand", "1 train", "1 tidy", "1 memory", "1 finetune", "1 ended"]
    assert listener.heard == ["2 tasks", *first, *second]


def test_the_log_has_a_line_an_epoch_with_every_named_loss(run: RunDirectory) -> None:
    lines = run.log_lines()
    places = [(line["task"], line["phase"], line["epoch"]) for line in lines]
    assert places == [
        *((0, "train", 0), (0, "train", 1)),
        *((1, "train", 0), (1, "train", 1), (1, "finetune", 0), (1, "finetune", 1)),
        *((2, "train", 0), (2, "train", 1), (2, "finetune", 0), (2, "finetune", 1)),
    ]
    for line in lines:
        keys = {"task", "phase", "phase_index", "epoch", "losses", "lr", "images_per_second"}
        assert set(line) == keys
        later = line["phase"] == "train" and line["task"] > 0
        assert set(line["losses"]) == ({"clf", "kd", "div", "total"} if later else {"clf", "total"})
        assert all(math.isfinite(value) for value in line["losses"].values())
        assert line["images_per_second"] > 0


def test_the_logged_losses_add_up_to_the_total(run: RunDirectory) -> None:
    """eq. 9: (1 - α) clf + α kd + 0.1 div, α = old / seen classes."""
    for line in run.log_lines():
        losses, old = line["losses"], 2 * line["task"]
        alpha = old / (old + 2) if "kd" in losses else 0.0
        total = (1 - alpha) * losses["clf"] + alpha * losses.get("kd", 0) + 0.1 * losses.get("div", 0)
        assert losses["total"] == pytest.approx(total, rel=1e-5)


def test_the_logged_learning_rate_is_the_schedules(run: RunDirectory) -> None:
    lines = run.log_lines()
    train = [line["lr"] for line in lines if line["phase"] == "train"]
    assert train == pytest.approx([5e-3, 1e-5 + (5e-3 - 1e-5) / 2] * 3)  # cosine over two epochs
    assert {line["lr"] for line in lines if line["phase"] == "finetune"} == {1e-3}


def test_the_metrics_have_the_designs_keys(metrics: dict[str, Any]) -> None:
    assert list(metrics) == METRICS
    assert [list(step) for step in metrics["steps"]] == [STEP] * 3
    assert (metrics["method"], metrics["dataset"]) == ("dytox", "digits")
    assert (metrics["seed"], metrics["order"]) == (0, "natural")
    assert [step["task"] for step in metrics["steps"]] == [0, 1, 2]
    assert [step["classes_seen"] for step in metrics["steps"]] == [2, 4, 6]
    assert [step["memory_images"] for step in metrics["steps"]] == [24, 24, 24]
    assert [step["top5"] is None for step in metrics["steps"]] == [True, True, False]
    assert metrics["seconds"] == pytest.approx(sum(step["seconds"] for step in metrics["steps"]))


def test_the_evaluations_agree_with_the_metrics(
    metrics: dict[str, Any], evaluations: list[dict[str, torch.Tensor]]
) -> None:
    for step, row, found in zip(metrics["steps"], metrics["accuracy_matrix"], evaluations, strict=True):
        targets, best = found["targets"].tolist(), found["top_classes"].tolist()
        classes, count = step["classes_seen"], len(targets)
        assert sorted(set(targets)) == list(range(classes))
        assert found["top_scores"].shape == found["top_classes"].shape == (count, min(5, classes))
        right = [places[0] == target for places, target in zip(best, targets, strict=True)]
        assert step["top1"] == pytest.approx(100 * sum(right) / count)
        if classes > 5:
            among = [target in places for places, target in zip(best, targets, strict=True)]
            assert step["top5"] == pytest.approx(100 * sum(among) / count)
        for task, accuracy in enumerate(row):
            own = [r for r, target in zip(right, targets, strict=True) if target // 2 == task]
            assert accuracy == pytest.approx(100 * sum(own) / len(own))
        confusion = [[0] * classes for _ in range(classes)]
        for places, target in zip(best, targets, strict=True):
            confusion[target][places[0]] += 1
        assert found["confusion"].tolist() == confusion
        assert step["calibration_error"] == pytest.approx(
            calibration(found["top_scores"][:, 0], right), abs=1e-6
        )


def calibration(confidence: torch.Tensor, right: list[bool]) -> float:
    bins: dict[int, list[tuple[float, bool]]] = {}
    for value, hit in zip(confidence.tolist(), right, strict=True):
        bins.setdefault(max(0, math.ceil(value * 15) - 1), []).append((value, hit))
    gaps = [abs(sum(hit for _, hit in each) - sum(value for value, _ in each)) for each in bins.values()]
    return 100 * sum(gaps) / len(right)


def test_the_summary_follows_from_the_matrix(metrics: dict[str, Any]) -> None:
    a, steps = metrics["accuracy_matrix"], metrics["steps"]
    assert [len(row) for row in a] == [1, 2, 3]
    top1 = [step["top1"] for step in steps]
    assert metrics["avg_top1"] == pytest.approx(sum(top1) / 3)
    assert metrics["last_top1"] == top1[-1]
    assert metrics["avg_top5"] == metrics["last_top5"] == steps[-1]["top5"]
    forgetting = [max(a[0][0], a[1][0]) - a[2][0], a[1][1] - a[2][1]]
    assert metrics["forgetting_per_task"] == pytest.approx(forgetting)
    assert metrics["forgetting"] == pytest.approx(sum(forgetting) / 2)
    assert metrics["backward_transfer"] == pytest.approx((a[2][0] - a[0][0] + a[2][1] - a[1][1]) / 2)


def test_the_evaluation_keeps_what_a_report_shows(evaluations: list[dict[str, torch.Tensor]]) -> None:
    for task, found in enumerate(evaluations):
        tokens, patches = task + 1, 4
        assert found["images"].shape[1:] == (3, 8, 8)
        assert found["images"].dtype == torch.uint8
        shown = len(found["images"])
        assert 0 < shown <= 8
        assert found["image_labels"].shape == (shown,)
        assert found["token_distances"].shape == (tokens, tokens)
        assert torch.allclose(found["token_distances"].diagonal(), torch.zeros(tokens), atol=1e-3)
        assert found["attention"].shape == (shown, tokens, patches)


def test_the_model_loads_and_predicts_what_the_evaluation_says(
    run: RunDirectory, metrics: dict[str, Any], evaluations: list[dict[str, torch.Tensor]], tiny_run: Tiny
) -> None:
    learner = ContinualLearner.load(run.model)
    assert learner.classes_ == [str(digit) for digit in range(6)]
    assert learner.method.model.count_parameters() == metrics["steps"][-1]["parameters"]
    assert len(learner.memory) == metrics["steps"][-1]["memory_images"]
    _, tasks = prepare(tiny_run())
    test = tasks.test_samples
    scores = learner.scores(test.images)
    best = scores.topk(5, dim=1)
    assert torch.equal(test.labels, evaluations[-1]["targets"])
    assert torch.equal(best.values, evaluations[-1]["top_scores"])
    assert torch.equal(best.indices, evaluations[-1]["top_classes"])
    told = [
        int(row[2 * (label // 2) : 2 * (label // 2) + 2].argmax()) + 2 * (label // 2) == label
        for row, label in zip(scores, test.labels.tolist(), strict=True)
    ]
    assert metrics["steps"][-1]["task_aware_top1"] == pytest.approx(100 * sum(told) / len(told))
    assert learner.predict(test.images)[:5] == [str(int(place)) for place in best.indices[:5, 0]]


def test_one_seed_one_result_bit_by_bit(
    finished: Path, tmp_path: Path, tiny_run: Tiny, result: Result
) -> None:
    found = train(tiny_run(), tmp_path / "again", Watcher())
    assert found == json.loads((tmp_path / "again" / "metrics.json").read_text())
    again, first = result(tmp_path / "again"), result(finished)
    for part in first:
        assert again[part] == first[part], part


def test_another_seed_another_result(finished: Path, tmp_path: Path, tiny_run: Tiny, result: Result) -> None:
    train(tiny_run(seed=1), tmp_path / "other", Watcher())
    other, first = result(tmp_path / "other"), result(finished)
    assert other["evaluations"]["2"]["targets"] == first["evaluations"]["2"]["targets"]  # the same test set
    for part in ("metrics", "weights", "memory", "log"):
        assert other[part] != first[part], part


@pytest.mark.parametrize("method", ["replay", "finetune", "joint"])
def test_every_method_makes_a_run(tmp_path: Path, tiny_run: Tiny, method: str) -> None:
    found = train(tiny_run(method), tmp_path / "run", Watcher())
    assert found["method"] == method
    assert [step["memory_images"] for step in found["steps"]] == [24 if method == "replay" else 0] * 3
    assert {line["phase"] for line in RunDirectory(tmp_path / "run").log_lines()} == {"train"}
    assert {"targets", "confusion"} <= set(RunDirectory(tmp_path / "run").load_evaluation(2)[0])


def test_one_task_alone_has_no_forgetting(tmp_path: Path, tiny_run: Tiny) -> None:
    found = train(tiny_run("joint", scenario={"joint": True}), tmp_path / "run", Watcher())
    assert len(found["steps"]) == 1
    assert found["forgetting"] is None
    assert found["backward_transfer"] is None
    assert found["avg_top1"] == found["last_top1"]


def test_a_run_is_never_overwritten(finished: Path, tiny_run: Tiny, result: Result) -> None:
    before = result(finished)
    with pytest.raises(UserError, match=r"already holds a run: `dytox resume .*` or another --out"):
        train(tiny_run(seed=7), finished, Watcher())
    assert result(finished) == before


def test_what_cannot_work_is_refused_before_anything_is_written(tmp_path: Path, tiny_run: Tiny) -> None:
    for over, words in [
        ({"scenario": {"classes": 11}}, "scenario.classes is 11, but there are only 10 classes"),
        ({"scenario": {"increments": [4, 4]}}, "add up to 8 classes, but there are 6"),
        ({"memory": {"size": 5}}, "memory.size 5 leaves no image for each of 6 classes"),
        ({"data": {"dataset": "mnist"}}, "Unknown dataset 'mnist'"),
        ({"data": {"image_size": 9}}, "data.image_size 9 is not a multiple of model.patch_size 4"),
        ({"scenario": {"order": [0, 1, 12]}}, "label 12"),
        ({"runtime": {"device": "abacus"}}, "there is no 'abacus' here"),
        (
            {"sam": {"rho": 1.0, "phases": ["train", "finetun"]}},
            "phase in sam.phases 'finetun': did you mean 'finetune'?",
        ),
        ({"sam": {"rho": 1.0, "phases": ["all"]}}, "'all': there is finetune, refresh, train."),
    ]:
        with pytest.raises(UserError) as error:
            train(tiny_run(**over), tmp_path / "run", Watcher())
        assert words in str(error.value)
        assert not (tmp_path / "run").exists(), over


def test_a_first_task_of_one_class_is_refused_before_anything_is_written(
    tmp_path: Path, tiny_run: Tiny
) -> None:
    with pytest.raises(UserError, match="one class"):
        train(tiny_run(scenario={"increment": 1}), tmp_path / "run", Watcher())
    assert not (tmp_path / "run").exists()
