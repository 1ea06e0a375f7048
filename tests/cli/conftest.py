"""The program, run as the `dytox` command runs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dytox.cli.main import run

# Two tasks of two digits, milliseconds each.
TINY = [
    *("data.test_share=0.8", "scenario.classes=4", "memory.size=24"),
    *("model.patch_size=4", "model.dim=8", "model.heads=2", "model.depth=1"),
    *("training.epochs=2", "training.batch=24", "training.schedule.warmup_epochs=1"),
    *("finetuning.epochs=2", "finetuning.batch=10", "runtime.device=cpu", "runtime.report=false"),
]


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def tiny() -> list[str]:
    """Options that make a run tiny."""
    return [part for change in TINY for part in ("--set", change)]


@pytest.fixture
def dytox(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """`dytox("train", "digits", …)` through the program's own entry."""

    def dytox(*arguments: Any) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["dytox", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            run()
        out, err = capsys.readouterr()
        return Outcome(int(left.value.code or 0), out, err)

    return dytox


@pytest.fixture
def refused(dytox: Callable[..., Outcome]) -> Callable[..., str]:
    """The one sentence with which a command is refused: exit code 2, no traceback, nothing else."""

    def refused(*arguments: Any) -> str:
        outcome = dytox(*arguments)
        assert outcome.code == 2, outcome
        assert outcome.err.startswith("Error: "), outcome.err
        assert outcome.err.count("\n") == 1, outcome.err
        assert outcome.err.rstrip("\n").endswith((".", "?")), outcome.err
        assert "Traceback" not in outcome.out + outcome.err
        return outcome.err.removeprefix("Error: ").rstrip("\n")

    return refused
