"""What is read from a run directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from made import make_run

from dytox.errors import UserError
from dytox.report.record import read_record, runs_in
from dytox.runs import files


def test_a_finished_run(five: Path) -> None:
    record = read_record(five)
    assert record.finished
    assert (record.name, record.method) == ("run", "DyTox")
    assert record.seen == [2, 4, 6, 8, 10]
    assert record.tokens == 5
    assert record.class_name(3) == "class 3"


def test_a_run_killed_before_its_first_task_was_learned(tmp_path: Path) -> None:
    record = read_record(make_run(tmp_path / "run", tasks=0, killed=True))
    assert not record.finished
    assert (record.metrics, record.steps, record.class_names) == (None, [], [])
    assert len(record.log) == 6
    with pytest.raises(UserError, match="has not finished a task yet: `dytox resume"):
        record.require_metrics()


def test_what_is_missing_is_not_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    shutil.rmtree(run / "evaluation")
    shutil.rmtree(run / "model")
    (run / "environment.json").unlink()
    (run / "log.jsonl").unlink()
    record = read_record(run)
    assert (record.evaluation, record.environment, record.log, record.tokens) == ({}, {}, [], 0)
    assert record.class_name(7) == "class 7"
    assert record.command == "dytox"


def test_what_is_damaged_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "evaluation" / "task-04.safetensors").write_bytes(b"x")
    with pytest.raises(UserError, match="is damaged"):
        read_record(run)


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["/venv/bin/dytox", "train", "digits", "--out", "a b"], "dytox train digits --out 'a b'"),
        (["/src/dytox/__main__.py", "train", "digits"], "dytox train digits"),
        (["mine.py", "--fast"], "python mine.py --fast"),
    ],
)
def test_the_command_that_made_it(tmp_path: Path, argv: list[str], command: str) -> None:
    run = make_run(tmp_path / "run", tasks=1, classes=2)
    files.write_json(run / "environment.json", {"command": argv})
    assert read_record(run).command == command


def test_a_folder_of_runs_stands_for_them(tmp_path: Path) -> None:
    seeds = [make_run(tmp_path / "many" / f"seed-{seed}", tasks=1, classes=2) for seed in (0, 1)]
    alone = make_run(tmp_path / "alone", tasks=1, classes=2)
    assert runs_in([tmp_path / "many", alone, seeds[0]]) == [*seeds, alone]
    assert runs_in([tmp_path / "none"]) == [tmp_path / "none"]


def test_a_name_that_cannot_be_printed(tmp_path: Path) -> None:
    assert read_record(make_run(tmp_path / "a\x01b", tasks=1, classes=2)).name == "a�b"
