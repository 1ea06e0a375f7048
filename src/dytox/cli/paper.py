"""`paper`: the published figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Drawn

from dytox.cli.options import beginning
from dytox.cli.output import console, say
from dytox.published.layout import Cell, Table
from dytox.published.tables import PRINTED, find_table


def paper(
    name: Annotated[
        str | None,
        typer.Argument(
            help=f"One of {', '.join(PRINTED)}; without it, all of them.",
            metavar="TABLE",
            autocompletion=beginning(PRINTED),
        ),
    ] = None,
) -> None:
    """Print the figures that were published, with the memory that each was measured with.

    Example: dytox paper cifar100
    """
    shown = [find_table(each).as_published() for each in ([name] if name else PRINTED)]
    for place, each in enumerate(shown):
        if place:
            say(console(), "")
        show_table(console(), each)


def show_table(to: Console, each: Table) -> None:
    """A table with its notes, in parts where it is too wide."""
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


def _draw(each: Table, columns: Sequence[int]) -> Drawn:
    drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
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
