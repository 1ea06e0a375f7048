"""A table of results as CSV, Markdown and LaTeX (booktabs)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from dytox.report.groups import Spread
from dytox.report.results import TOP5, Line, Results
from dytox.report.text import spread

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "✓": r"$\checkmark$",
    "±": r"$\pm$",
    "–": "--",
    **{each: f"\\{each}" for each in "&%$#_{}"},
}


def to_csv(table: Results) -> str:
    """A line for every method in every scenario, with all its figures; empty where there is none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [name for key in TOP5 for name in ([key] if key == "parameters_m" else [key, f"{key}_std"])]
    writer.writerow(["scenario", "method", "memory", "source", *table.settings, "runs", *names])
    for scenario in table.scenarios:
        for line in table.lines:
            figures = line.figures.get(scenario)
            if figures is None:
                continue
            source = "published" if line.published else "run"
            settings = line.settings or [""] * len(table.settings)
            cells = [
                _plain(figures.get(key), part)
                for key in TOP5
                for part in ((0,) if key == "parameters_m" else (0, 1))
            ]
            runs = line.runs.get(scenario, "")
            writer.writerow([scenario, line.label, line.memory, source, *settings, runs, *cells])
    return text.getvalue()


def to_markdown(table: Results) -> str:
    """The paper's form; every column is named in full, as Markdown has no groups of columns."""
    several = len(table.scenarios) > 1
    heads = [
        f"{scenario}: {name}" if several else name
        for scenario in table.scenarios
        for name in table.columns.values()
    ]
    head = ["Method", "Memory", *table.heads, *heads]
    rows = [head, ["---", "---", *[":-:"] * len(table.settings), *["--:"] * len(heads)]]
    rows += [
        [_named(line), line.memory, *_settings(line, table), *cells(line, table)] for line in table.lines
    ]
    lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
    title = "" if several else f"{table.scenarios[0]}\n\n"
    notes = "".join(f"\n{note}  " for note in table.notes)
    return f"{title}{chr(10).join(lines)}\n{notes}{chr(10) if notes else ''}"


def to_latex(table: Results) -> str:
    """The paper's form, with `\\usepackage{booktabs}`; `\\checkmark` is of amssymb."""
    width = len(table.columns)
    first = 3 + len(table.settings)
    groups = [rf"\multicolumn{{{width}}}{{c}}{{{latex(scenario)}}}" for scenario in table.scenarios]
    rules = [
        rf"\cmidrule(lr){{{start}-{start + width - 1}}}"
        for start in range(first, first + width * len(groups), width)
    ]
    names = ["Method", "Memory", *table.heads, *list(table.columns.values()) * len(groups)]
    own = [line for line in table.lines if not line.published]
    published = [line for line in table.lines if line.published]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{ll{'c' * len(table.settings)}{'r' * width * len(groups)}}}",
            r"\toprule",
            " & ".join(["", "", *[""] * len(table.settings), *groups]) + r" \\",
            "".join(rules),
            _row(names),
            r"\midrule",
            *(_row([line.label, line.memory, *_settings(line, table), *cells(line, table)]) for line in own),
            *([r"\midrule"] if published else []),
            *(
                _row([_named(line), line.memory, *_settings(line, table), *cells(line, table)])
                for line in published
            ),
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {note}" for note in table.notes),
            "",
        ]
    )


def cells(line: Line, table: Results) -> list[str]:
    """The figures of a row, scenario after scenario, in the paper's two digits."""
    return [
        spread(line.figures.get(scenario, {}).get(key))
        for scenario in table.scenarios
        for key in table.columns
    ]


def latex(text: str) -> str:
    """Text in which LaTeX sees no command."""
    return re.sub(r"[\\~^✓±–&%$#_{}]", lambda found: _LATEX[found[0]], text)


def _row(texts: Sequence[str]) -> str:
    return " & ".join(latex(text) for text in texts) + r" \\"


def _named(line: Line) -> str:
    return f"{line.label}, published" if line.published else line.label


def _settings(line: Line, table: Results) -> list[str]:
    return line.settings or [""] * len(table.settings)


def _plain(value: Spread | None, part: int) -> str:
    number = value[part] if value else None
    return "" if number is None else f"{number:.4f}"
