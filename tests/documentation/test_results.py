"""The tables of results/README.md and docs/reproduction.md are what the metrics in results/ say."""

from __future__ import annotations

import runpy
import sys

import pages
import pytest

TOOL = runpy.run_path(str(pages.ROOT / "tools" / "results.py"))


def test_the_committed_tables_are_what_the_metrics_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["results", "--check"])
    try:
        TOOL["main"]()
    except SystemExit as left:
        pytest.fail(str(left))


def test_a_row_has_means_and_deviations_over_the_seeds() -> None:
    def run(first: float, last: float, forgetting: float) -> dict[str, object]:
        steps = [{"top1": first}, {"top1": last}]
        return {"steps": steps, "avg_top1": (first + last) / 2, "last_top1": last, "forgetting": forgetting}

    assert TOOL["row"]("dytox", [run(80.0, 50.0, 20.0), run(90.0, 52.0, 24.0)]) == (
        "| `dytox` | 2 | 85.0, 51.0 | 68.0 ± 4.2 | 51.0 ± 1.4 | 22.0 ± 2.8 |"
    )
    alone = TOOL["row"]("dytox", [run(80.0, 50.0, 20.0)])
    assert alone == "| `dytox` | 1 | 80.0, 50.0 | 65.0 | 50.0 | 20.0 |"


def test_a_run_of_one_task_has_no_average() -> None:
    joint = {"steps": [{"top1": 60.0}], "avg_top1": 60.0, "last_top1": 60.0, "forgetting": None}
    assert TOOL["row"]("joint", [joint]) == "| `joint`, all at once | 1 | | | 60.0 | |"
