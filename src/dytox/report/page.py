"""The parts of an HTML page. A page is one file without scripts; it loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from matplotlib.figure import Figure

from dytox.report import style

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def document(title: str, *parts: str) -> str:
    """Return a whole page."""
    css = (files("dytox.report") / "page.css").read_text(encoding="utf-8")
    dark = f"@media screen and (prefers-color-scheme: dark) {{ {_variables(style.DARK)} }}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_variables(style.LIGHT)}\n{dark}\n{css}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(part for part in parts if part) + "\n</main>\n</body>\n</html>\n"
    )


def section(heading: str, *parts: str, note: str = "") -> str:
    """Return a section with a heading and a note that explains what it shows."""
    below = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section>\n<h2>{escape(heading)}</h2>\n{below}{''.join(parts)}\n</section>"


def pair(*sections: str) -> str:
    """Return sections that stand side by side where there is room."""
    there = [each for each in sections if each]
    return f'<div class="pair">{"".join(there)}</div>' if there else ""


def tiles(figures: Iterable[tuple[str, str, str]]) -> str:
    """Return headline figures, each a name, a value, and a small line under it."""
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(below)}</small></dd></div>"
        for name, value, below in figures
    )
    return f'<dl class="tiles">{cells}</dl>'


def drawing(name: str, description: str, wide: Figure, narrow: Figure | None = None) -> str:
    """Return a figure, and its `narrow` form for a phone."""
    if narrow is None:
        return f"<figure>{style.inline(wide, name, description)}</figure>"
    return (
        f'<figure class="wide">{style.inline(wide, name, description)}</figure>'
        f'<figure class="narrow">{style.inline(narrow, name + "-narrow", description)}</figure>'
    )


def html_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    classes: Sequence[str] = (),
    words: Sequence[int] = (),
    groups: Sequence[tuple[str, int]] = (),
) -> str:
    """Return a table of text.

    `classes` are the CSS classes of the rows, `words` the columns that are not numbers, `groups` the common
    headings over several columns with their widths.
    """
    over = "".join(f'<th class="group" colspan="{width}">{escape(name)}</th>' for name, width in groups)
    top = f"<tr>{over}</tr>" if groups else ""
    kinds = [' class="words"' if place in words else "" for place in range(len(head))]
    heads = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(head, kinds, strict=True))
    body = []
    for number, row in enumerate(rows):
        kind = f' class="{classes[number]}"' if number < len(classes) and classes[number] else ""
        cells = "".join(f"<td{each}>{escape(cell)}</td>" for cell, each in zip(row, kinds, strict=True))
        body.append(f"<tr{kind}>{cells}</tr>")
    return (
        f'<div class="scroll"><table><thead>{top}<tr>{heads}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def details(summary: str, *parts: str, opened: bool = False) -> str:
    """Return parts that the reader can unfold."""
    return (
        f"<details{' open' if opened else ''}><summary>{escape(summary)}</summary>{''.join(parts)}</details>"
    )


def preformatted(text: str) -> str:
    """Return text in a fixed-width font, line breaks kept."""
    return f"<pre>{escape(text)}</pre>"


def _variables(colours: dict[str, str]) -> str:
    return f":root {{ {' '.join(f'--{name}: {value};' for name, value in colours.items())} }}"
