"""The paper's tables as runs: every row of every table is one, and what is done is not done again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dytox.config import Config
from dytox.engine.distributed import World
from dytox.engine.observer import Diverged
from dytox.errors import UserError
from dytox.experiments import effects, series
from dytox.experiments.grid import papers_grid
from dytox.experiments.reproduce import FinishedRun, PlannedRun, beside_published, perform, plan
from dytox.published.layout import SCALES, PaperRow, PaperTable, Setting
from dytox.published.tables import TABLES, find_table
from dytox.runs.run_directory import RunDirectory


def configs(name: str, scale: str) -> list[list[Config]]:
    """For each row of a table its configs."""
    rows = find_table(name).at(scale)
    runs, _ = plan(rows, [[]])
    settings = range(len(rows.settings))
    return [
        [runs[row, each][0].config for each in settings if (row, each) in runs]
        for row in range(len(rows.rows))
    ]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_every_table_is_a_config(name: str, scale: str) -> None:
    wanted = find_table(name).at(scale)
    runs, missing = plan(wanted, [[]])
    assert not [each for each in missing if "imagenet" not in each]
    for place, row in enumerate(wanted.rows):
        assert any((place, setting) in runs for setting in range(len(wanted.settings))) or missing
        assert len(row.label) == len(wanted.keys)
        assert set(row.published or {}) <= {setting.title for setting in find_table(name).settings}
    distinct = {run.name: run.config for group in runs.values() for run in group}
    assert scale == "paper" or {config.recipe for config in distinct.values()} == {SCALES[scale]}
    again = [config.model_dump_json() for config in distinct.values()]
    assert len(set(again)) == len(again)  # no config is run twice


def test_the_switches_of_the_ablation() -> None:
    rows = [found[0].method.options for found in configs("ablation", "demo")]
    switches = ("distillation", "finetuning", "token_expansion", "divergence", "independent_heads")
    assert [[bool(row[each]) for each in switches] for row in rows] == [
        [False, False, False, False, False],
        [True, False, False, False, False],
        [True, True, False, False, False],
        [True, True, True, False, False],
        [True, True, True, True, False],
        [True, True, True, True, True],
    ]


def test_what_the_rows_of_the_other_tables_are() -> None:
    assert [[c.model.patch_size for c in row] for row in configs("patch-size", "paper")] == [
        [4, 4],
        [8, 8],
        [16, 16],
    ]
    assert [[c.model.patch_size for c in row] for row in configs("patch-size", "demo")] == [
        [2, 2],
        [4, 4],
        [8, 8],
    ]
    assert [[c.scenario.joint for c in row] for row in configs("training", "demo")] == [[True, False]] * 3
    assert [row[1].augment.mixup for row in configs("training", "demo")] == [0.0, 0.8, 0.8]
    assert [row[0].sam.rho for row in configs("training", "demo")] == [0.0, 0.0, 3.0]
    assert not configs("training", "demo")[2][0].sam.skip_first  # in one step there is no second task
    assert [row[0].model.decoder for row in configs("decoder", "demo")] == ["adapters", "film", "tab"]
    assert [row[0].model.decoder for row in configs("tab-sharing", "demo")] == ["tab-per-task", "tab"]
    assert [row[0].model.encoder for row in configs("encoder", "paper")] == ["hybrid", "dytox", "dytox"]
    assert [(row[0].memory.shares, row[0].memory.budget) for row in configs("erratum", "paper")][:3] == [
        (1, "split"),
        (2, "split"),
        (2, "each"),
    ]
    tuned = [row[0] for row in configs("tuning", "paper")]
    assert [each.training.lr for each in tuned[:3]] == pytest.approx([1e-3, 5e-4, 1e-4])
    assert [each.training.epochs for each in tuned[3:6]] == [300, 500, 700]
    assert [each.method.options["divergence"] for each in tuned[6:9]] == [0.05, 0.1, 0.5]
    assert {each.data.validation_share for each in tuned} == {0.1}


def test_the_published_figures_are_the_fairest() -> None:
    rows = {row.label[0]: row for row in find_table("cifar100").at("paper").rows}
    assert rows["DyTox"].label == ("DyTox", "global")
    assert (rows["DyTox"].published or {})["10 steps"] == {"#P": 10.73, "Avg": 67.33, "Last": 51.68}
    assert rows["DyTox+"].label == ("DyTox+", "distributed")
    assert (rows["DyTox+"].published or {})["50 steps"]["Last"] == 51.09
    assert rows["DyTox++"].label == ("DyTox++", "original")
    assert (rows["WA"].published or {})["20 steps"] == {"#P": 11.22, "Avg": 67.33, "Last": 47.31}
    assert "E2E" not in rows
    assert find_table("imagenet100").at("paper").rows[2].label == ("E2E", "global")


def test_an_unknown_table_or_scale() -> None:
    with pytest.raises(UserError, match="Unknown table 'ablations': did you mean 'ablation'"):
        find_table("ablations")
    with pytest.raises(UserError, match="Unknown scale 'shot': did you mean 'short'"):
        find_table("ablation").at("shot")


# The runs


def made(path: Path, config: Config, avg: float, last: float, **more: Any) -> dict[str, Any]:
    """A finished run with these figures."""
    run = RunDirectory(path)
    run.create(config)
    step = {"task": 0, "parameters": 2_000_000, "calibration_error": 1.0}
    figures = {"avg_top1": avg, "last_top1": last, "forgetting": more.get("forgetting"), "steps": [step]}
    run.write_metrics(figures)
    distance = more.get("distance", 1.0)
    run.save_evaluation(0, {"token_distances": torch.tensor([[0.0, distance], [distance, 0.0]])})
    return figures


def test_a_run_is_begun_resumed_or_done_already(tmp_path: Path) -> None:
    config = series.compose_series("digits", "dytox")
    calls: list[tuple[Config | None, Path]] = []

    def runner(config: Config | None, path: Path) -> dict[str, Any]:
        calls.append((config, path))
        return {}

    path = tmp_path / "run"
    series.outcome(config, path, runner, World())
    RunDirectory(path).create(config)
    series.outcome(config, path, runner, World())
    assert calls == [(config, path), (None, path)]
    RunDirectory(path).write_metrics({"avg_top1": 3.0})
    assert series.outcome(config, path, runner, World()) == {"avg_top1": 3.0}
    assert len(calls) == 2
    other = series.compose_series("digits", "dytox", asked=["training.epochs=7"])
    with pytest.raises(UserError, match=r"holds a run of another config \(training.epochs 100, wanted 7\)"):
        series.outcome(other, path, runner, World())
    slower = series.compose_series("digits", "dytox", asked=["runtime.threads=1"])
    assert series.outcome(slower, path, runner, World()) == {"avg_top1": 3.0}


def test_what_is_asked_of_the_memory_is_not_for_methods_without_one() -> None:
    asked = ["memory.size=20", "training.epochs=50"]
    assert series.compose_series("digits", "dytox", asked=asked).memory.size == 20
    joint = series.compose_series("digits", "joint", asked=asked)
    assert (joint.memory.size, joint.training.epochs) == (0, 50)


def test_runs_of_one_name_are_one_run_and_one_that_diverges_is_named(tmp_path: Path) -> None:
    config, called = series.compose_series("digits", "dytox"), []

    def runner(config: Config | None, path: Path) -> dict[str, Any]:
        called.append(path.name)
        if path.name == "bad":
            raise Diverged("The loss is not a number.", None)  # type: ignore[arg-type]
        return {"avg_top1": 1.0}

    runs = {
        (0, 0): [PlannedRun("a", config)],
        (1, 0): [PlannedRun("bad", config)],
        (2, 0): [PlannedRun("a", config)],
    }
    found, skipped = perform(runs, tmp_path, runner, World(), lambda sentence: None)
    assert called == ["a", "bad"]
    assert skipped == ["bad: The loss is not a number."]
    assert [[run.metrics for run in found[row, 0]] for row in range(3)] == [
        [{"avg_top1": 1.0}],
        [],
        [{"avg_top1": 1.0}],
    ]


# The table


@pytest.fixture
def ablation(tmp_path: Path) -> tuple[PaperTable, dict[tuple[int, int], list[FinishedRun]]]:
    """The ablation of made runs: each row two points above the one before, but the last below the fifth."""
    rows = find_table("ablation").at("demo")
    found = {}
    for row in range(6):
        path = tmp_path / str(row)
        avg = 10.0 + 2 * row if row < 5 else 17.0
        more = {"forgetting": 20.0 - row, "distance": 1.0 + row / 10}
        figures = made(path, series.compose_series("digits", "dytox"), avg, avg - 5, **more)
        found[row, 0] = [FinishedRun(path, figures)]
    return rows, found


def test_the_table_beside_the_published_figures(ablation: Any) -> None:
    rows, found = ablation
    shown = beside_published(rows, found, small=True)
    assert shown.columns[5:] == [
        *("Avg", "Last", "Forgetting", "Distance"),
        *("paper's Avg", "paper's Last"),
    ]
    assert shown.rows[0] == [*[""] * 5, 10.0, 5.0, 20.0, pytest.approx(1.0), 60.69, 38.87]
    assert shown.rows[5] == [*["✓"] * 5, 17.0, 12.0, 15.0, pytest.approx(1.5), 70.2, 52.34]
    assert "Avg: 14 of 15 pairs of rows stand in the paper's order." in shown.notes
    assert shown.title.endswith("; here digits")
    del found[2, 0]
    shown = beside_published(rows, found, small=False)
    assert shown.rows[2][5:] == [None, None, None, None, 63.42, 42.21]
    assert "Avg: 9 of 10 pairs of rows stand in the paper's order." in shown.notes


def test_several_runs_of_a_row_are_a_mean_and_a_deviation(tmp_path: Path) -> None:
    setting = Setting("s", "digits", ("#P", "Avg"))
    rows = PaperTable("x", "x", ("Method",), (setting,), (PaperRow(("DyTox",), "dytox"),))
    config = series.compose_series("digits", "dytox")
    runs = [FinishedRun(tmp_path / str(v), made(tmp_path / str(v), config, v, v)) for v in (40.0, 42.0)]
    assert beside_published(rows, {(0, 0): runs}, small=False).rows == [["DyTox", 2.0, "41.00 ± 1.41"]]


def test_the_effects_that_the_text_names(ablation: Any) -> None:
    """Distances 1.3 and 1.4, forgetting 16 and 15."""
    distance, forgetting = effects.ablation_sentences(ablation[1])
    assert "changes by +7.7 %" in distance
    assert "(the paper: +8 %)" in distance
    assert "changes by -6.2 %" in forgetting
    assert "(the paper: -24 %)" in forgetting


def test_the_overheads(tmp_path: Path) -> None:
    rows = find_table("overheads").at("demo")
    config = series.compose_series("digits", "dytox", asked=["model.dim=8", "model.depth=1"])
    found = {}
    for row, (distance, forgetting) in enumerate([(1.2, 6.0), (1.0, 7.0), (1.1, 8.0)]):
        path = tmp_path / str(row)
        figures = made(path, config, 50.0, 40.0, distance=distance, forgetting=forgetting)
        steps = [{**figures["steps"][0], "parameters": each} for each in (1_000, 1_100, 1_250)]
        found[row, 0] = [FinishedRun(path, {**figures, "steps": [{**each, "task": 0} for each in steps]})]
    shown = effects.effects_table(rows, found)
    assert shown is not None
    here = {str(row[0]): row[1] for row in shown.rows}
    assert here["parameters of a task token"] == "8"
    assert here["parameters that the last task added, its classes' rows included"] == "150"
    assert here["least token distance, with divergence (%)"] == "+20.0"
    assert here["forgetting, with independent heads (%)"] == "-25.0"
    assert float(here["forward time of an added task (%)"]) > -100  # type: ignore[arg-type]
    del found[2, 0]
    assert effects.effects_table(rows, found) is None


def test_it_survives_json(ablation: Any) -> None:
    shown = beside_published(*ablation, small=True)
    assert json.loads(json.dumps(shown.rows)) == shown.rows


# Tuning


def test_the_papers_grid_is_the_default() -> None:
    grid = papers_grid("cifar100-10", "dytox")
    assert grid == {
        "training.lr": ["0.001", "0.0005", "0.0001"],
        "training.epochs": ["300", "500", "700"],
        "method.divergence": ["0.05", "0.1", "0.5"],
        "model.patch_size": ["4", "8", "16"],
    }
    small = papers_grid("digits", "dytox")
    assert small["training.lr"] == ["0.004", "0.002", "0.0004"]
    assert small["training.epochs"] == ["60", "100", "140"]
    assert small["model.patch_size"] == ["2", "4", "8"]
