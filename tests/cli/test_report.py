"""`dytox report`, and the page that a run writes while it runs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from made import make_run

from dytox.runs.run_directory import RunDirectory

Program = Callable[..., Any]
Refused = Callable[..., str]

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def three() -> None:
    make_run(Path("many/seed-0"))
    make_run(Path("many/seed-1"), overrides=["seed=1"])
    make_run(Path("replay"), method="replay", better=-20)


def test_one_run_gets_its_page_and_plots(dytox: Program) -> None:
    make_run(Path("mine"), tasks=1, classes=2)
    outcome = dytox("report", "mine")
    assert outcome.code == 0
    assert "mine/report.html" in outcome.out
    assert "Avg" in outcome.out
    assert "DyTox on digits" in Path("mine/report.html").read_text()
    assert {path.suffix for path in Path("mine/plots").iterdir()} == {".png", ".svg"}


def test_a_run_that_was_killed_at_once_has_a_page(dytox: Program, refused: Refused) -> None:
    make_run(Path("mine"), tasks=0, killed=True)
    outcome = dytox("report", "mine")
    assert outcome.code == 0
    assert "mine has not finished a task yet: its page shows the progress so far." in outcome.out
    assert "No task has been learned yet" in Path("mine/report.html").read_text()
    sentence = "The run mine has not finished a task yet: `dytox resume mine` continues it."
    assert refused("report", "mine", "--out", "table.csv") == sentence
    make_run(Path("other"), tasks=1, classes=2)
    assert refused("report", "mine", "other") == sentence


def test_several_runs_in_every_form(dytox: Program, three: None) -> None:
    names = [f"out/all.{suffix}" for suffix in ("html", "csv", "md", "tex", "png", "svg")]
    outcome = dytox("report", "many", "replay", *(part for name in names for part in ("--out", name)))
    assert outcome.code == 0
    assert "DyTox, digits in 5 steps, 2 runs: Avg " in outcome.out
    assert outcome.out.splitlines()[-6:] == names
    assert "2 methods side by side" in Path("out/all.html").read_text()
    rows = csv.DictReader(io.StringIO(Path("out/all.csv").read_text()))
    assert [row["method"] for row in rows] == ["DyTox", "replay"]
    assert Path("out/all.md").read_text().startswith("digits in 5 steps\n\n| Method |")
    assert Path("out/all.tex").read_text().startswith("\\begin{tabular}")
    assert Path("out/all.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in Path("out/all.svg").read_text()


def test_without_out_several_runs_write_nothing(dytox: Program, three: None) -> None:
    before = set(Path().rglob("*"))
    assert dytox("report", "many", "replay").code == 0
    assert set(Path().rglob("*")) == before


def test_one_run_elsewhere(dytox: Program) -> None:
    make_run(Path("mine"), tasks=1, classes=2)
    dytox("report", "mine", "--out", "page.html")
    assert "DyTox on digits" in Path("page.html").read_text()
    assert not Path("mine/report.html").exists()


def test_an_unknown_suffix_is_refused(refused: Refused) -> None:
    make_run(Path("mine"), tasks=1, classes=2)
    assert refused("report", "mine", "--out", "x.pdf") == (
        "--out x.pdf has none of the suffixes that say what to write: .html, .csv, .md, .tex, .png, .svg."
    )


def test_a_place_that_cannot_be_written(refused: Refused) -> None:
    make_run(Path("mine"), tasks=1, classes=2)
    Path("file").write_text("")
    assert refused("report", "mine", "--out", "file/x.html").startswith("Cannot write file")


# While it runs


def wanted(tiny: list[str]) -> list[str]:
    return [*tiny, "--set", "runtime.report=true"]


def test_a_run_writes_its_page_after_each_task_and_at_the_end(
    dytox: Program, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dytox.experiments import watchers

    states: list[bool] = []
    write = watchers.PageWriter.write

    def watched(self: watchers.PageWriter, *, running: bool) -> None:
        write(self, running=running)
        states.append('class="state open">running' in Path("mine/report.html").read_text())

    monkeypatch.setattr(watchers.PageWriter, "write", watched)
    assert dytox("train", "digits", *wanted(tiny), "--out", "mine").code == 0
    assert states == [True, True, False]
    text = Path("mine/report.html").read_text()
    assert 'class="state done">finished' in text
    assert "dytox train digits" in text
    assert "taken for" in text
    assert Path("mine/plots/accuracy.svg").exists()
    kept, _ = RunDirectory("mine").load_evaluation(1)
    assert kept["targets"][kept["image_places"]].equal(
        kept["image_labels"]
    )  # what they were taken for is theirs


def test_a_run_that_diverges_keeps_a_page_too(dytox: Program, tiny: list[str]) -> None:
    assert dytox("train", "digits", *wanted(tiny), "--set", "training.lr=1e30", "--out", "mine").code == 2
    assert "not finished" in Path("mine/report.html").read_text()


def test_a_page_that_fails_does_not_end_the_run(
    dytox: Program, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dytox.report import run_page

    def fail(*arguments: object, **named: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(run_page, "write_run_page", fail)
    outcome = dytox("train", "digits", *wanted(tiny), "--out", "mine")
    assert outcome.code == 0
    assert "The page was not written (a bug): `dytox report mine` tries it again." in outcome.out
    assert len(json.loads(Path("mine/metrics.json").read_text())["steps"]) == 2


def test_no_page_where_none_is_wanted(dytox: Program, tiny: list[str]) -> None:
    dytox("train", "digits", *tiny, "--set", "runtime.report=false", "--out", "mine")
    assert not Path("mine/report.html").exists()
