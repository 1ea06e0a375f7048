"""Text for people: as it is, without markup; in a pipe lines are as long as they need to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 200  # columns of a table that nobody's terminal has to hold


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Standard output or standard error; of several processes all but one are quiet."""
    found = Console(stderr=stderr, quiet=quiet, highlight=False)
    if found.is_terminal:
        return found
    return Console(stderr=stderr, quiet=quiet, highlight=False, width=PIPE_WIDTH)


def say(to: Console, text: str, style: str = "") -> None:
    """One line; brackets, colons and long paths in it stay what they are."""
    to.print(Text(text, style=style), soft_wrap=True)


def table(to: Console, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Text as it is; columns whose name begins with a capital letter are text, all others numbers."""
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        drawn.add_column(column, justify="left" if column[:1].isupper() else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*map(Text, row))
    to.print(drawn)


def finish(skipped: Sequence[str]) -> None:
    """Exit code 3 where some inputs were passed over, each named on standard error."""
    for sentence in skipped:
        say(console(stderr=True), f"Skipped: {sentence}", style="yellow")
    if skipped:
        raise typer.Exit(3)


def listed(names: Sequence[str], most: int = 6) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def duration(seconds: float) -> str:
    """So long, in words."""
    for name, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {name}" if seconds >= 10 * size else f"{seconds / size:.1f} {name}"
    whole = max(1, round(seconds))
    return f"{whole} second{'s' if whole > 1 else ''}"


def volume(size: int) -> str:
    """So many bytes, in words."""
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
