"""Everything that the commands print goes through here.

Text is shown as it is, without rich's markup; characters that steer a terminal are shown as escapes, because
names of files and classes may come from strangers. In a pipe, lines are as long as they need to be.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 200  # columns of a table that is not written to a terminal

# Control characters except tab and newline, marks that reverse the direction of text, and halves of surrogate
# pairs, as which Python reads file names that are not UTF-8.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


class SafeConsole(Console):
    """A console on which no text can steer the terminal; rich's own control codes pass."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render with unsafe characters escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(safe(segment.text), segment.style)


def safe(text: str) -> str:
    """Replace characters that steer a terminal by their escapes, such as `\\x1b`."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """The console of standard output or standard error; of several processes all but one are quiet."""
    found = SafeConsole(stderr=stderr, quiet=quiet, highlight=False)
    if found.is_terminal:
        return found
    return SafeConsole(stderr=stderr, quiet=quiet, highlight=False, width=PIPE_WIDTH)


def say(to: Console, text: str, style: str = "") -> None:
    """Print a sentence; brackets, colons and long paths in it stay what they are."""
    to.print(Text(safe(text), style=style), soft_wrap=True)


def printable_json(content: Any, indent: int | None = None) -> str:
    """JSON with readable letters of every language; characters that steer a terminal are escaped."""
    text = json.dumps(content, indent=indent, ensure_ascii=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def table(to: Console, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; columns whose name begins with a capital letter are text, all others numbers."""
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        text = column[:1].isupper()
        drawn.add_column(Text(safe(column)), justify="left" if text else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(safe(cell).replace("\n", "\\n")) for cell in row))
    to.print(drawn)


def open_streams() -> None:
    """Make the standard streams usable whatever they are.

    A closed one is opened again, so that no other file gets its number; writing to a closed standard output
    fails, as it should. What a stream's encoding does not have is written as an escape.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            stream = open(number, "r" if name == "stdin" else "w", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    for written in (sys.stdout, sys.stderr):
        if hasattr(written, "reconfigure"):
            written.reconfigure(errors="backslashreplace")


def lost_output() -> OSError | None:
    """Write out what standard output still holds; give the error and drop the rest if that fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return error
    return None


def finish(skipped: Sequence[str]) -> None:
    """Leave with exit code 3 if some inputs were skipped, each of them named on standard error."""
    for sentence in skipped:
        say(console(stderr=True), f"Skipped: {sentence}", style="yellow")
    if skipped:
        raise typer.Exit(3)


def listed(names: Sequence[str], most: int = 6) -> str:
    """The first `most` names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def duration(seconds: float) -> str:
    """A number of seconds in words, as in "3.5 minutes"."""
    for name, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {name}" if seconds >= 10 * size else f"{seconds / size:.1f} {name}"
    whole = max(1, round(seconds))
    return f"{whole} second{'s' if whole > 1 else ''}"


def volume(size: int) -> str:
    """A number of bytes in words, as in "1.2 MB"."""
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
