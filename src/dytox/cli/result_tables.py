"""Tables of results and of published figures, for a terminal of 80 columns and for a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as DrawnTable
from rich.text import Text

from dytox.cli.output import say
from dytox.published.layout import Cell, Table

RUN_FIGURES = (("Avg", "avg_top1"), ("Last", "last_top1"), ("Forgetting", "forgetting"))
NAME_WIDTH = 12  # the least room for the name of a run, in columns


def show_runs(console: Console, runs: Sequence[tuple[Path, dict[str, Any]]]) -> None:
    """Print a row for each run: top-1 after each task, Avg, Last, forgetting in percent, and parameters."""
    steps = max(len(found["steps"]) for _, found in runs)
    columns = [str(number + 1) for number in range(steps)]
    columns = columns if _fit(console, steps) else []
    say(console, f"Top-1 accuracy in percent{' after each task' if columns else ''}")
    table = DrawnTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, show_edge=False)
    table.add_column("Run", overflow="fold")
    for name in [*columns, *(name for name, _ in RUN_FIGURES), "Parameters"]:
        table.add_column(name, justify="right", no_wrap=True)
    for path, found in runs:
        after = [_number(step["top1"]) for step in found["steps"]] if columns else []
        after += [""] * (len(columns) - len(after))
        figures = [_number(found[key]) for _, key in RUN_FIGURES]
        parameters = f"{found['steps'][-1]['parameters']:,}"
        table.add_row(Text(_name(path, found)), *after, *figures, parameters)
    console.print(table)
    if not columns:
        for path, found in runs:
            after = [_number(step["top1"]) for step in found["steps"]]
            console.print(Text(f"{_name(path, found)}, top-1 % after each task: {' '.join(after)}"))
    for path, _ in runs:
        say(console, f"{path}")


def show_spread(console: Console, runs: Sequence[dict[str, Any]]) -> None:
    """Print mean ± standard deviation of the figures over runs."""
    from dytox.metrics import mean_std  # it imports torch, and `dytox paper` does not need that

    say(console, f"Mean ± standard deviation over {len(runs)} runs:")
    for name, key in RUN_FIGURES:
        values = [found[key] for found in runs if found[key] is not None]
        if values:
            mean, deviation = mean_std(values)
            say(console, f"  {name:<11}{mean:.2f} ± {deviation or 0.0:.2f}")


def _fit(console: Console, steps: int) -> bool:
    """Whether a column for each task leaves room for the rest."""
    return NAME_WIDTH + 6 * (steps + 2) + len(" Forgetting") + len(" 10,733,584") <= console.width


def _name(path: Path, found: dict[str, Any]) -> str:
    name, method = path.resolve().name, found["method"].rpartition(":")[2]
    return name if method in name else f"{name} ({method})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def show_table(to: Console, each: Table) -> None:
    """Print a table with its notes; one that is too wide is printed in parts."""
    say(to, f"{each.name}: {each.title}", style="bold")
    whole = _draw(each, range(len(each.columns)))
    if not each.groups or Console(width=1000).measure(whole).maximum <= to.width:
        to.print(whole)
    else:
        ends = [each.keys + sum(each.groups[: place + 1]) for place in range(len(each.groups))]
        for end, width in zip(ends, each.groups, strict=True):
            to.print(_draw(each, [*range(each.keys), *range(end - width, end)]))
    for note in each.notes:
        say(to, note, style="dim")


def _draw(each: Table, columns: Sequence[int]) -> DrawnTable:
    drawn = DrawnTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for place in columns:
        numbers = any(isinstance(row[place], float) for row in each.rows)
        drawn.add_column(each.columns[place], justify="right" if numbers else "left")
    for row in each.rows:
        drawn.add_row(*(_text(row[place]) for place in columns))
    return drawn


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)
