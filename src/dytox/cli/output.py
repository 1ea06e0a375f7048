"""Text for people: as it is, without markup; in a pipe lines are as long as they need to be."""

from __future__ import annotations

from rich.console import Console
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
