"""The benchmark: what it compares is equal, and what it prints is what it measured."""

from __future__ import annotations

import json
import re
import time

import pytest
import torch
from typer.testing import CliRunner

from dytox.bench import suite, task, timing
from dytox.bench.loading import pillow_augment
from dytox.bench.steps import Ours, Plain, evaluating, grown, some_batch, training_step
from dytox.cli.main import app
from dytox.config import AugmentConfig
from dytox.data.augment import Augmentation
from dytox.data.loader import Loader
from dytox.data.randaugment import OPERATIONS
from dytox.memory import herd
from dytox.methods.dytox import DyToxMethod

CPU = torch.device("cpu")


@pytest.mark.parametrize("tasks", [1, 4])
def test_both_forms_take_the_same_step(tiny, tasks):
    """The paper's formulation and ours: outputs, losses and updated weights, the teacher included."""
    methods = {kind: grown(kind, tiny(), tasks, CPU) for kind in (Plain, Ours)}
    images = some_batch(methods[Ours], 3).images
    seen, means = {}, {}
    for kind, method in methods.items():
        with evaluating(method, images) as see:
            seen[kind] = see().logits
        with training_step(method, some_batch(method, 6)) as step:
            means[kind] = step()
    torch.testing.assert_close(seen[Ours], seen[Plain], atol=1e-5, rtol=1e-5)
    assert means[Ours].keys() == ({"clf", "kd", "total"} if tasks == 1 else {"clf", "kd", "div", "total"})
    for name, mean in means[Ours].items():
        torch.testing.assert_close(mean, means[Plain][name], atol=1e-5, rtol=1e-5)
    gradients = [
        {name: weight.grad for name, weight in method.named_parameters() if weight.grad is not None}
        for method in methods.values()
    ]
    assert gradients[0].keys() == gradients[1].keys() != set()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-5, rtol=1e-5)


def test_pillow_augments_as_we_do():
    """Within a level of 256 for all but a few pixels, where rounding decides."""
    data = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.25, 0.3)}
    ours = Augmentation(AugmentConfig(), **data)
    images = torch.randint(256, (200, 3, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    draws = ours.draw(torch.Generator().manual_seed(1), 200, 16)
    draws["operation"][0], draws["argument"][0] = OPERATIONS.index("Posterize"), 0.0  # no bit is kept
    theirs = pillow_augment(images, draws, pad=4, **data)
    levels = (ours(images, draws) - theirs) * torch.tensor(data["std"]).view(3, 1, 1) * 255
    assert (levels.abs() > 1.01).double().mean() < 0.005


def test_plain_herding_chooses_as_ours_does():
    features = torch.randn(3, 40, 5, generator=torch.Generator().manual_seed(0)) + 0.5
    assert [each.tolist() for each in herd(features, 10)] == [
        suite.plain_herding(each, 10) for each in features
    ]


def test_operations_by_hand(tiny):
    """8 px, patches of 4: N = 4; dim 12, MLP ratio 4, two SABs; each product counts two operations."""
    sab = 12 * 4 * 144 + 3 * 16 * 12
    found = timing.operations(tiny(), 3)
    assert found == 2 * (4 * 48 * 12 + 2 * sab + 2 * 4 * 144 + 3 * (9 * 144 + 2 * 4 * 12) + 1200)
    assert timing.shapes(tiny(), 5)[0] == (20, 12, 24)


def test_times_are_taken_in_turn(monkeypatch):
    clock, calls = iter([0.0, 1.0, 5.0, 7.0, 10.0, 14.0, 20.0, 22.0, 30.0, 33.0, 40.0, 42.0]), []
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    found = timing.interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3, CPU)
    assert calls == ["a", "b"] + ["a", "b"] * 3  # once to warm up
    assert (found["a"].median, found["a"].low, found["a"].high) == (3.0, 2.0, 3.5)  # of 1, 4 and 3
    assert (found["b"].median, found["b"].repeats) == (2.0, 3)
    assert found["b"].rate(10)["per_second"] == 5.0
    assert found["a"].rate(10)["spread"] == 0.25  # half of 3.5 - 2.0, of 3


def test_peak_memory_is_what_is_held_at_once():
    def work() -> None:
        first = torch.ones(1000, 1000)
        second = first * 2
        del first
        torch.ones(500, 1000).add_(second[0])

    assert timing.peak_memory(work, CPU) == pytest.approx(8e6, rel=0.01)


def test_inner_parts_are_taken_from_outer_ones(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    watch = task.Stopwatch(CPU)
    watch.change("train")  # 1 s of nothing
    watch.enter("backward")  # 1 s of the rest
    watch.enter("forward")  # 1 s backward
    watch.leave()
    watch.leave()  # 1 s backward
    watch.change("memory")  # 1 s of the rest
    watch.change("")  # 1 s of the memory
    assert watch.seconds[("train", "backward")] == 2
    assert watch.seconds[("train", "forward")] == 1
    found = task.profile(watch.seconds, {"train": 10})
    assert found["seconds"] == 10 * 5 + 2  # five seconds of train, one of memory, one before
    assert found["computing"] == 30 / 52


def test_what_was_watched_is_as_before():
    """An inherited function is inherited again."""
    before = Loader.batch, DyToxMethod.forward
    with task.watched(task.Stopwatch(CPU)):
        assert Loader.batch is not before[0]
        assert "forward" in vars(DyToxMethod)
    assert (Loader.batch, DyToxMethod.forward) == before
    assert "forward" not in vars(DyToxMethod)


def test_the_command(monkeypatch):
    """All parts, tiny, as JSON and as tables."""
    arguments = ["bench", "--quick", "--tasks", "1,3", "--repeats", "2", "--batch", "4"]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [row["tasks"] for row in found["model"]["rows"]] == [1, 3]
    row = found["model"]["rows"][1]
    assert row["evaluation"]["speedup"] == pytest.approx(
        row["evaluation"]["plain"]["median"] / row["evaluation"]["ours"]["median"]
    )
    assert row["training_memory"]["plain"] > 0
    assert [row["changed"] for row in found["growth"]["rows"]][:2] == ["the model as it is", "10 classes"]
    assert found["parts"]["rows"][0]["part"] == "linear layers"
    assert 0 < found["augmentation"]["augmentation_of_step"] < 1
    assert found["herding"]["kept"] == 20
    assert found["convolutions"]["encoder"] == "conv-tiny"
    assert found["convolutions"]["share"] > 0
    assert found["loading"]["ours"].keys() == {"1", "2"}
    assert sum(found["task"]["parts"].values()) == pytest.approx(1)
    assert sum(found["task"]["phases"].values()) == pytest.approx(1)
    shown = CliRunner().invoke(app, ["bench", "herding", "growth", "parts", "convolutions", *arguments[1:]])
    assert re.search(r"Herding 20 of 30 images: [\d,.]+ ±\d+% classes/s, plain form [\d,.]+ ±", shown.output)
    assert all(words in shown.output for words in ("images of 16 px", "residual sums", "the rest", "bare"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["speed"], "part of the benchmark"), (["--tasks", "10,1"], "rising numbers from 1 to 100")],
)
def test_what_is_refused(arguments, words):
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert words in str(result.exception)
