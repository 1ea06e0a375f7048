"""Numbers and names as text: formatting, and escaping for CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

_DASH = "–"
_MARKDOWN = {"<": "&lt;", ">": "&gt;", "&": "&amp;", **{each: f"\\{each}" for each in "\\`*_[]|~$"}}
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "✓": r"$\checkmark$",
    "±": r"$\pm$",
    "–": "--",
    **{each: f"{{{each}}}" for each in "[]*"},  # after the end of a row they would be its arguments
    **{each: f"\\{each}" for each in "&%$#_{}"},
}


def number_text(value: float | None, digits: int = 1) -> str:
    """Return a number with this many decimals, or a dash for None."""
    return _DASH if value is None else f"{value:.{digits}f}"


def with_deviation(mean: float | None, deviation: float | None, digits: int = 2) -> str:
    """Return `mean ± deviation`, the mean alone where there is no deviation, or a dash for None."""
    return number_text(mean, digits) + (
        "" if mean is None or deviation is None else f" ± {deviation:.{digits}f}"
    )


def short_duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours, with two or three digits: `45 s`, `2.5 min`, `14 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min" if seconds >= 600 else f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def millions(count: int) -> str:
    """Return a number of parameters in millions, as in the paper's tables: `10.73 M`."""
    return f"{count / 1e6:.2f} M"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 task`, `2 tasks`, `2 classes`."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"


def printable(text: str) -> str:
    """Replace control characters, line breaks included, which no plot, page or table cell can hold."""
    return "".join(each if each.isprintable() else "�" for each in text)


def csv_line(cells: Iterable[object]) -> str:
    """Return one line of CSV, with its line break.

    A text that a spreadsheet would run as a formula (it begins with `=`, `+`, `-`, `@`, a tab or a carriage
    return and is not a number) gets an apostrophe in front.
    """
    line = io.StringIO()
    csv.writer(line).writerow(  # with its own line end, or a carriage return in a cell is not quoted
        f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell for cell in cells
    )
    return line.getvalue().removesuffix("\r\n") + "\n"


def markdown(text: str) -> str:
    """Escape text, so that Markdown and HTML show it as it is, also within a cell of a table."""
    return re.sub(r"[\\`*_\[\]|~$<>&]", lambda found: _MARKDOWN[found[0]], printable(text))


def latex(text: str) -> str:
    """Escape text, so that LaTeX sees no command in it; `✓` needs the package amssymb."""
    return re.sub(r'[\\~^<>|"✓±–&%$#_{}\[\]*]', lambda found: _LATEX[found[0]], printable(text))


def _is_formula(text: str) -> bool:
    if len(text) < 2 or text[0] not in "=+-@\t\r":
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False
