"""`dytox paper`."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from dytox.cli.result_tables import show_table
from dytox.published.tables import PRINTED, find_table

Program = Callable[..., Any]


def test_all_tables(dytox: Program) -> None:
    outcome = dytox("paper")
    assert outcome.code == 0
    assert all(f"{name}: " in outcome.out for name in PRINTED)


def test_one_table(dytox: Program) -> None:
    text = dytox("paper", "cifar100").out
    rows = [line.split() for line in text.splitlines()]
    assert [
        "DyTox",
        "global",
        "10.73",
        "67.33",
        "51.68",
        "10.74",
        "67.30",
        "48.45",
        "10.77",
        "64.39",
        "43.47",
    ] in rows
    assert "Compare a run only with figures of its own memory setting." in text
    assert "imagenet100" not in text


def test_an_unknown_table(refused: Callable[..., str]) -> None:
    assert refused("paper", "cifar10") == "Unknown table 'cifar10': did you mean 'cifar100'?"


@pytest.mark.parametrize("name", PRINTED)
def test_tables_fit_80_columns(name: str) -> None:
    file = io.StringIO()
    show_table(
        Console(file=file, width=80, force_terminal=True, color_system=None), find_table(name).as_published()
    )
    drawn = [line for line in file.getvalue().splitlines() if "─" in line]
    assert drawn
    assert max(map(len, drawn)) <= 80
    assert "…" not in file.getvalue()
