"""`reproduce` and `tune`: run once, printed beside the paper, and not run again."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Program = Callable[..., Any]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)


def test_a_table_is_run_and_printed_and_run_on_where_something_is_missing(
    dytox: Program, tiny: list[str]
) -> None:
    outcome = dytox("reproduce", "tab-sharing", "--order", "2", *tiny)
    assert outcome.code == 0, outcome
    assert "Run 2 of 2: digits-dytox-order=2" in outcome.out
    assert "10.77" in outcome.out
    assert "97.59" in outcome.out
    folder = Path("runs/reproduce-demo")
    found = json.loads((folder / "tab-sharing.json").read_text())
    assert [row[0] for row in found["rows"]] == ["one a task", "one for all"]
    for row, name in zip(
        found["rows"], ("digits-dytox-decoder=tab-per-task-order=2", "digits-dytox-order=2"), strict=True
    ):
        metrics = json.loads((folder / name / "metrics.json").read_text())
        assert row[2:4] == [metrics["avg_top1"], metrics["last_top1"]]
        assert metrics["order"] == 2
    kept, gone = folder / "digits-dytox-order=2", folder / "digits-dytox-decoder=tab-per-task-order=2"
    before = (kept / "log.jsonl").stat().st_mtime_ns
    shutil.rmtree(gone)
    again = dytox("reproduce", "tab-sharing", "--orders", "2", *tiny)
    assert again.code == 0, again
    assert (kept / "log.jsonl").stat().st_mtime_ns == before
    assert (gone / "log.jsonl").exists()
    assert json.loads((folder / "tab-sharing.json").read_text())["rows"] == found["rows"]


def test_what_is_refused(dytox: Program, refused: Callable[..., str], tiny: list[str]) -> None:
    assert refused("reproduce", "ablaton") == "Unknown table 'ablaton': did you mean 'ablation'?"
    assert "Unknown scale 'big'" in refused("reproduce", "ablation", "--scale", "big")
    assert "--orders 'x' is not a list of numbers" in refused("reproduce", "ablation", "--order", "x")
    assert "--grid 'training.lr' is not of the form key=a,b,c" in refused(
        "tune", "digits", "--grid", "training.lr"
    )
    assert "'training.rl'" in refused("tune", "digits", "--grid", "training.rl=1,2")
    twice = ["--grid", "training.lr=1e-3,1e-3"]
    assert "names a key or a value twice" in refused("tune", "digits", *twice)


def test_tuning_sorts_what_it_tried_and_tries_nothing_twice(dytox: Program, tiny: list[str]) -> None:
    command = ["tune", "digits", "--grid", "training.lr=1e-4,2e-2", "--out", "tuned", *tiny]
    outcome = dytox(*command)
    assert outcome.code == 0, outcome
    rows = list(csv.DictReader(Path("tuned/tune.csv").read_text().splitlines()))
    accuracies = [float(row["avg_top1"]) for row in rows]
    assert accuracies == sorted(accuracies, reverse=True)
    assert {row["training.lr"] for row in rows} == {"1e-4", "2e-2"}
    assert f"Best: --set training.lr={rows[0]['training.lr']}" in outcome.out
    config = Path("tuned/digits-dytox-lr=2e-2/config.yaml").read_text()
    assert "validation_share: 0.1" in config
    assert "lr: 0.02" in config
    log = Path("tuned/digits-dytox-lr=2e-2/log.jsonl")
    before = log.stat().st_mtime_ns
    assert dytox(*command).code == 0
    assert log.stat().st_mtime_ns == before
    trials = json.loads(Path("tuned/tune.json").read_text())["trials"]
    assert [trial["avg_top1"] for trial in trials] == accuracies
