"""Tables of results, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from dytox.metrics import mean_std

MOST_STEPS = 10  # with more tasks the table has no column for each


def compare(console: Console, runs: Sequence[tuple[Path, dict[str, Any]]]) -> None:
    """A row for each run."""
    steps = max(len(found["steps"]) for _, found in runs)
    table = Table(title="Accuracy in percent", title_justify="left", pad_edge=False)
    table.add_column("run", no_wrap=True)
    if steps <= MOST_STEPS:
        for number in range(1, steps + 1):
            table.add_column(f"{number}", justify="right")
    for name in ("Avg", "Last", "forgetting", "parameters"):
        table.add_column(name, justify="right")
    for path, found in runs:
        accuracies = [_number(step["top1"]) for step in found["steps"]] if steps <= MOST_STEPS else []
        accuracies += [""] * (steps - len(accuracies)) if steps <= MOST_STEPS else []
        parameters = f"{found['steps'][-1]['parameters']:,}"
        figures = [_number(found[key]) for key in ("avg_top1", "last_top1", "forgetting")]
        table.add_row(_name(path, found), *accuracies, *figures, parameters)
    console.print(table)
    for path, _ in runs:
        console.print(f"{path}", soft_wrap=True, highlight=False)


def spread(console: Console, runs: Sequence[dict[str, Any]], folder: Path) -> None:
    """Mean ± standard deviation over runs."""
    console.print(f"Over {len(runs)} runs:")
    for name, key in (("Avg", "avg_top1"), ("Last", "last_top1"), ("forgetting", "forgetting")):
        values = [found[key] for found in runs if found[key] is not None]
        if values:
            mean, deviation = mean_std(values)
            console.print(f"  {name:<11}{mean:.2f} ± {deviation or 0.0:.2f}", highlight=False)
    console.print(f"Runs: {folder}", soft_wrap=True, highlight=False)


def _name(path: Path, found: dict[str, Any]) -> str:
    return f"{found['method']} ({path.name})" if found["method"] != path.name else path.name


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
