"""What the commands do and show."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from ruamel.yaml import YAML

import dytox as package
from dytox import recipes as presets
from dytox.checking import flat
from dytox.cli import catalogue
from dytox.cli.output import say
from dytox.cli.result_tables import show_runs
from dytox.methods import registry
from dytox.runs.run_directory import RunDirectory

Program = Callable[..., Any]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)


def metrics(path: str | Path) -> dict[str, Any]:
    content = json.loads((Path(path) / "metrics.json").read_text())
    assert isinstance(content, dict)
    return content


# What there is


def test_version(dytox: Program) -> None:
    outcome = dytox("--version")
    assert (outcome.code, outcome.out) == (0, f"dytox {package.__version__}\n")


def test_help_names_every_command(dytox: Program) -> None:
    text = dytox("--help").out
    for command in ("train", "resume", "recipes", "methods", "show", "report", "--version"):
        assert command in text
    assert max(map(len, text.splitlines())) <= 80
    for command in ("train", "resume", "recipes", "methods", "show", "report"):
        outcome = dytox(command, "--help")
        assert outcome.code == 0
        assert f"Usage: dytox {command}" in outcome.out
        assert f"Example: dytox {command}" in outcome.out


def test_recipes_are_listed_one_a_line(dytox: Program) -> None:
    lines = [line.rstrip() for line in dytox("recipes").out.splitlines()]
    assert len(lines) == 1 + len(presets.scenarios())
    for name, about in presets.scenarios().items():
        assert any(line.startswith(f"{name} ") and line.endswith(about) for line in lines)
    assert max(map(len, lines)) <= 80


def test_methods_are_listed_with_what_they_cannot_do(dytox: Program) -> None:
    lines = {line.split()[0]: line for line in dytox("methods").out.splitlines()}
    assert {*registry.places(), *presets.methods()} <= set(lines)
    assert "cannot learn once the images of earlier tasks are gone" in lines["joint"]
    assert "cannot learn once the images of earlier tasks are gone" in lines["joint-resnet"]
    assert "cannot keep a memory" in lines["finetune"]
    assert "on a residual encoder alone" in lines["rpsnet"]
    assert "on a convolutional encoder alone" in lines["podnet"]
    assert "alone" not in lines["replay"] + lines["dytox"]
    assert "cannot" not in lines["dytox"]
    assert "a token and a classifier a task" in lines["dytox"]
    assert lines["dytox-plus-plus"].startswith("dytox-plus-plus or dytox++ ")


def test_show_prints_the_whole_config_and_what_is_in_effect(dytox: Program) -> None:
    outcome = dytox("show", "cifar100-10", "--set", "training.batch=128")
    config = registry.complete(presets.compose("cifar100-10", overrides=["training.batch=128"]))
    assert YAML(typ="safe", pure=True).load(outcome.out) == config.model_dump()
    assert "# training: 500 epochs, batch 128, learning rate 0.000125\n" in outcome.out
    assert "# finetuning: 20 epochs, batch 256, learning rate 2.5e-05\n" in outcome.out
    assert "# memory: 2000 in all, selected by herding\n" in outcome.out


def test_show_says_where_every_value_comes_from(dytox: Program) -> None:
    outcome = dytox(
        "show", "cifar100-10-tuned", "--method", "dytox+", "--set", "training.epochs=7", "--origin"
    )
    lines = [line.partition(": ")[::2] for line in outcome.out.splitlines()]
    config = registry.complete(
        presets.compose("cifar100-10-tuned", method="dytox+", overrides=["training.epochs=7"])
    )
    assert [key for key, _ in lines] == list(flat(config.model_dump()))
    found = {key: re.split(r" +# ", rest) for key, rest in lines}
    assert {key: json.loads(value) for key, (value, _) in found.items()} == flat(config.model_dump())
    assert found["training.epochs"] == ["7", "--set"]
    assert found["training.batch"][1] == "base transformer (tuned)"
    assert found["model.dim"][1] == "base transformer (scale short)"
    assert found["method.distillation_scale"][1] == "method dytox (tuned)"
    assert found["augment.mixup"][1] == "method dytox-plus"
    assert found["data.dataset"][1] == "recipe cifar100-10"
    assert found["method.divergence"][1] == found["augment.pad"][1] == "default"


def test_show_says_how_much_memory_there_is(dytox: Program) -> None:
    kept = "# memory: 2000 in all, at most 20 a class, selected by herding\n"
    assert kept in dytox("show", "cifar100-b50-10").out
    assert "# memory: none\n" in dytox("show", "digits", "--method", "finetune").out


# Train


def test_train_leaves_a_run_and_shows_it(dytox: Program, tiny: list[str]) -> None:
    outcome = dytox("train", "digits", *tiny, "--out", "mine")
    assert outcome.code == 0
    assert outcome.err == ""
    found = metrics("mine")
    lines = outcome.out.splitlines()
    assert lines[0] == "4 classes in 2 tasks, run in mine"
    for line, step in zip(lines[1:3], found["steps"], strict=True):
        place = f"task {step['task'] + 1}/2"
        assert re.fullmatch(
            rf"{place}: +{step['top1']:.1f} % right over {step['classes_seen']} classes, \d+ s", line
        )
    row = next(line for line in lines if line.startswith("mine (dytox)"))
    figures = [*(step["top1"] for step in found["steps"]), found["avg_top1"], found["last_top1"]]
    expected = [f"{each:.1f}" for each in [*figures, found["forgetting"]]]
    assert row.split()[2:] == [*expected, f"{found['steps'][-1]['parameters']:,}"]
    assert lines[-1] == "mine"
    assert "\x1b" not in outcome.out  # no bars where nobody looks
    assert "\r" not in outcome.out


def test_train_takes_a_new_folder_each_time(dytox: Program, tiny: list[str]) -> None:
    for _ in range(2):
        assert dytox("train", "digits", *tiny, "--method", "replay", "--set", "training.epochs=2").code == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["digits-replay", "digits-replay-2"]
    assert RunDirectory("runs/digits-replay").read_config().method.name == "replay"


def test_seeds_and_orders_run_several_and_give_mean_and_deviation(dytox: Program, tiny: list[str]) -> None:
    command = ["train", "digits", *tiny, "--seeds", "0,1", "--orders", "1,2", "--out", "many"]
    outcome = dytox(*command)
    assert outcome.code == 0
    names = [f"seed-{seed}-order-{order}" for seed in (0, 1) for order in (1, 2)]
    assert sorted(path.name for path in Path("many").iterdir()) == names
    found = {name: metrics(Path("many") / name) for name in names}
    assert [(each["seed"], each["order"]) for each in found.values()] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert "Mean ± standard deviation over 4 runs:" in outcome.out
    for label, key in (("Avg", "avg_top1"), ("Last", "last_top1"), ("Forgetting", "forgetting")):
        values = [each[key] for each in found.values()]
        line = f"  {label:<11}{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}"
        assert line in outcome.out.splitlines()
    for name in names:
        assert f"{name} (dytox)" in outcome.out
    assert len({json.dumps(each["accuracy_matrix"]) for each in found.values()}) == 4
    shutil.rmtree(Path("many") / names[2])
    again = dytox(*command)  # goes on with what is missing
    assert again.code == 0
    assert again.out.count("run in many/") == 1
    assert metrics(Path("many") / names[2])["accuracy_matrix"] == found[names[2]]["accuracy_matrix"]


def test_one_seed_needs_no_folder_of_its_own(dytox: Program, tiny: list[str]) -> None:
    outcome = dytox("train", "digits", *tiny, "--seeds", "5", "--out", "mine")
    assert outcome.code == 0
    assert metrics("mine")["seed"] == 5
    assert "±" not in outcome.out


def test_a_recipe_of_ones_own(dytox: Program, tiny: list[str]) -> None:
    Path("mine.yaml").write_text(
        "scale: demo\nconfig: {data: {dataset: digits}, augment: {randaugment: null}}\n"
    )
    assert dytox("train", "mine.yaml", *tiny).code == 0
    assert metrics("runs/mine-dytox")["dataset"] == "digits"
    assert RunDirectory("runs/mine-dytox").read_config().recipe == "mine"


def test_a_folder_of_images_whatever_its_name(dytox: Program, tiny: list[str], tmp_path: Path) -> None:
    from PIL import Image

    for number, name in enumerate(["ant", "bee", "cat", "dog"]):
        folder = Path("2024") / name  # a number, for YAML
        folder.mkdir(parents=True)
        for shade in range(12):
            Image.new("RGB", (8, 8), (60 * number, 20 * shade, 0)).save(folder / f"{shade}.png")
    options = ["--set", "data.dataset=folder", "--data", "2024", "--out", "mine"]
    assert dytox("train", "digits", *tiny, *options).code == 0
    assert RunDirectory("mine").read_config().data.root == str(tmp_path / "2024")  # so that resume finds it


def test_the_last_of_two_settings_holds(dytox: Program) -> None:
    text = dytox("show", "digits", "--set", "seed=1", "-s", "seed=2").out
    assert "\nseed: 2\n" in text


# Resume and report


def test_resume_of_a_finished_run_shows_it(dytox: Program, tiny: list[str]) -> None:
    dytox("train", "digits", *tiny, "--out", "mine")
    before = metrics("mine")
    outcome = dytox("resume", "mine")
    assert outcome.code == 0
    assert "mine is finished: there is nothing left to do." in outcome.out
    assert "mine (dytox)" in outcome.out
    assert metrics("mine") == before


def test_report_puts_runs_side_by_side(dytox: Program, tiny: list[str]) -> None:
    for method in ("dytox", "replay"):
        dytox("train", "digits", *tiny, "--method", method, "--out", method)
    outcome = dytox("report", "dytox", "replay/")
    rows = [line.split() for line in outcome.out.splitlines()]
    for method in ("dytox", "replay"):
        found = metrics(method)
        row = next(each for each in rows if each[0] == method)
        assert row[1:3] == [f"{step['top1']:.1f}" for step in found["steps"]]
        assert row[3:5] == [f"{found['avg_top1']:.1f}", f"{found['last_top1']:.1f}"]
    assert [line.rstrip() for line in outcome.out.splitlines()][-2:] == ["dytox", "replay"]


def made_up(tasks: int, method: str = "dytox") -> dict[str, Any]:
    """Metrics whose figures take as much room as any."""
    steps = [{"top1": 100.0, "parameters": 10_733_584} for _ in range(tasks)]
    figures = {"avg_top1": 100.0, "last_top1": 100.0, "forgetting": 100.0 if tasks > 1 else None}
    return {"method": method, "steps": steps, **figures}


@pytest.mark.parametrize("tasks", [1, 2, 5, 6, 10, 50])
def test_a_report_fits_80_columns(tasks: int) -> None:
    file = io.StringIO()
    runs = [
        (Path("runs/digits-dytox"), made_up(tasks)),
        (Path("runs/digits-replay-12"), made_up(tasks, "replay")),
        (Path("a-very-long-name-that-somebody-gave-to-a-run"), made_up(tasks, "package.module:Method")),
    ]
    show_runs(Console(file=file, width=80, force_terminal=True, color_system=None), runs)
    text = file.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert text.count("10,733,584") == 3
    assert text.count("100.0") == 3 * (tasks + (3 if tasks > 1 else 2))
    for word in ("Avg", "Last", "Forgetting", "Parameters", "digits-dytox"):
        assert word in text
    if tasks == 5:
        header = next(line for line in text.splitlines() if "Avg" in line)
        assert header.split() == ["Run", "1", "2", "3", "4", "5", "Avg", "Last", "Forgetting", "Parameters"]


def test_runs_of_different_lengths_stand_side_by_side() -> None:
    file = io.StringIO()
    show_runs(Console(file=file, width=100), [(Path("a"), made_up(1)), (Path("b"), made_up(3))])
    assert "–" in file.getvalue()  # no forgetting after one task


def test_a_path_is_never_taken_for_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for tasks in (1, 50):  # with and without a column for each task
        file = io.StringIO()
        show_runs(Console(file=file, width=80), [(Path("[x]:cat:"), made_up(tasks))])
        assert sum(line.startswith("[x]:cat: (dytox)") for line in file.getvalue().splitlines()) == 1 + (
            tasks == 50
        )
    monkeypatch.setattr("dytox.recipes.scenarios", lambda: {"[x]": "a [y]:cat:"})
    catalogue.recipes()
    assert capsys.readouterr().out.splitlines()[1].split() == ["[x]", "a", "[y]:cat:"]
    file = io.StringIO()
    say(Console(file=file, width=20), "runs/[red]x[/red]/:smile:/a-name-that-is-longer-than-a-line")
    assert file.getvalue() == "runs/[red]x[/red]/:smile:/a-name-that-is-longer-than-a-line\n"


# In processes of their own


def program(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dytox", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=120, check=False, **options
    )


def test_python_m_dytox_is_dytox() -> None:
    done = program("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"dytox {package.__version__}\n", "")
    done = program("train", "digitz")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "Error: Unknown recipe 'digitz': did you mean 'digits'?\n"
