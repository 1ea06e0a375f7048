"""Results in the form of the paper's tables, and as CSV, Markdown and LaTeX (booktabs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dytox.published.comparable import compare, memory_setting
from dytox.published.figures import PublishedResult
from dytox.report.record import Group, Spread, config_value, differing_keys, spread_of
from dytox.text import csv_line, latex, markdown, printable, with_deviation

SETTINGS = 6  # at most this many differing keys get columns

TOP1 = {"parameters_m": "#P", "avg_top1": "Avg", "last_top1": "Last", "forgetting": "Forgetting"}
TOP5 = {
    "parameters_m": "#P",
    "avg_top1": "top-1 Avg",
    "last_top1": "top-1 Last",
    "avg_top5": "top-5 Avg",
    "last_top5": "top-5 Last",
    "forgetting": "Forgetting",
}


@dataclass(frozen=True)
class ResultRow:
    """A method's figures, by scenario and key."""

    label: str
    memory: str
    published: bool = False
    settings: list[str] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    figures: dict[str, dict[str, Spread]] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """A table with `columns` for each scenario and for `settings`, in which runs of one method differ."""

    scenarios: list[str]
    columns: dict[str, str]  # key -> name
    settings: list[str]
    lines: list[ResultRow]
    notes: list[str]

    @property
    def heads(self) -> list[str]:
        """The settings without their section, where that is unambiguous."""
        short = [key.rpartition(".")[2].replace("_", " ") for key in self.settings]
        return short if len(set(short)) == len(short) else self.settings

    def set_in(self, row: ResultRow) -> list[str]:
        """Return the row's values of the settings; empty for published rows."""
        return row.settings or [""] * len(self.settings)

    def cells(self, row: ResultRow) -> list[str]:
        """Return a row as text: method, memory, settings, then the figures of each scenario."""
        label = f"{row.label}, published" if row.published else row.label
        found = [row.figures.get(scenario, {}) for scenario in self.scenarios]
        figures = [with_deviation(*each.get(key, (None, None))) for each in found for key in self.columns]
        return [label, row.memory, *self.set_in(row), *figures]


def collect(found: Sequence[Group]) -> Results:
    """Return the table of these groups, followed by the published rows that they may be compared with."""
    scenarios = list(dict.fromkeys(each.scenario for each in found))
    settings = _settings(found)
    lines: dict[tuple[str, str], ResultRow] = {}
    for each in found:
        record = each.records[0]
        shown = [_shown(config_value(record, key)) for key in settings]
        line = ResultRow(each.label, memory_setting(record.config), settings=shown)
        line = lines.setdefault((each.label, line.memory), line)
        line.runs[each.scenario] = len(each.records)
        line.figures[each.scenario] = _figures(each)
    published = _published(found)
    wide = any("top5" in key for line in published for each in line.figures.values() for key in each)
    return Results(scenarios, TOP5 if wide else TOP1, settings, [*lines.values(), *published], _notes(found))


def _settings(found: Sequence[Group]) -> list[str]:
    """The keys in which runs of one method differ; none where methods differ, or too much does."""
    records = [each.records[0] for each in found]
    if (
        len({record.config.method.name for record in records}) > 1
        or len({each.scenario for each in found}) > 1
    ):
        return []
    keys = differing_keys(records)
    return keys if len(keys) <= SETTINGS else []


def _figures(each: Group) -> dict[str, Spread]:
    found = {"parameters_m": spread_of([step.steps[-1]["parameters"] / 1e6 for step in each.records])}
    found |= {key: each.spread(key) for key in TOP5 if key != "parameters_m"}
    return {
        key: (value[0], None) if key == "parameters_m" else value for key, value in found.items() if value
    }


def _published(found: Sequence[Group]) -> list[ResultRow]:
    """The published rows that may be compared with any of the groups."""
    lines: dict[tuple[str, str], ResultRow] = {}
    for each in found:
        comparison = compare(each.records[0].config)
        for row in [*([comparison.own] if comparison.own else []), *comparison.alongside]:
            line = lines.setdefault(
                (row.method, row.memory), ResultRow(row.method, row.memory, published=True)
            )
            if row is comparison.own or each.scenario not in line.figures:
                line.figures[each.scenario] = _row_figures(row)
    order = {"all": 0, "global": 1}
    return sorted(lines.values(), key=lambda line: order.get(line.memory, 2))


def _notes(found: Sequence[Group]) -> list[str]:
    """Sentences: why these published figures, and which groups have learned fewer tasks."""
    labels: dict[str, list[str]] = {}
    notes = []
    for each in found:
        comparison = compare(each.records[0].config)
        for sentence in comparison.sentences if comparison.steps else []:
            labels.setdefault(sentence, []).append(each.label)
        most = max(len(other.seen) for other in found if other.scenario == each.scenario)
        if len(each.seen) < most:
            notes.append(
                f"{each.label} has learned {len(each.seen)} of {most} tasks, so its figures are not final."
            )
        notes += [
            f"{record.name} has learned only {len(record.steps)} tasks and is left out."
            for record in each.behind
        ]
    return [
        sentence if names[0] in sentence else f"{'; '.join(names)}: {sentence}"
        for sentence, names in labels.items()
    ] + notes


def _row_figures(row: PublishedResult) -> dict[str, Spread]:
    values = {
        "parameters_m": (row.params_m, None),
        "avg_top1": (row.avg, row.avg_std),
        "last_top1": (row.last, row.last_std),
        "avg_top5": (row.top5_avg, None),
        "last_top5": (row.top5_last, None),
    }
    return {key: (mean, std) for key, (mean, std) in values.items() if mean is not None}


def _shown(value: object) -> str:
    """A setting in a cell: a tick for what is switched on, as in the paper's ablation."""
    return {True: "✓", False: ""}.get(value, str(value)) if isinstance(value, bool) else str(value)


def to_csv(table: Results) -> str:
    """Return the table as CSV: a line for each method in each scenario; cells without a figure are empty."""
    keys = [(key, part) for key in TOP5 for part in ((0,) if key == "parameters_m" else (0, 1))]
    names = [f"{key}_std" if part else key for key, part in keys]
    lines = [["scenario", "method", "memory", "source", *table.settings, "runs", *names]]
    for scenario in table.scenarios:
        for row in table.lines:
            figures = row.figures.get(scenario)
            if figures is not None:
                source, runs = "published" if row.published else "run", str(row.runs.get(scenario, ""))
                cells = [_plain(figures.get(key), part) for key, part in keys]
                lines.append([scenario, row.label, row.memory, source, *table.set_in(row), runs, *cells])
    return "".join(map(csv_line, lines))


def to_markdown(table: Results) -> str:
    """Return the table as Markdown; columns are named in full, as Markdown cannot group them."""
    several = len(table.scenarios) > 1
    heads = [
        f"{scenario}: {name}" if several else name
        for scenario in table.scenarios
        for name in table.columns.values()
    ]
    rule = ["---", "---", *[":-:"] * len(table.settings), *["--:"] * len(heads)]
    rows = [["Method", "Memory", *table.heads, *heads], *map(table.cells, table.lines)]
    lines = [" | ".join(map(markdown, row)) for row in rows]
    lines.insert(1, " | ".join(rule))
    title = "" if several else f"{markdown(table.scenarios[0])}\n\n"
    notes = "".join(f"\n{markdown(note)}  " for note in table.notes)
    return f"{title}{''.join(f'| {line} |{chr(10)}' for line in lines)}{notes}{chr(10) if notes else ''}"


def to_latex(table: Results) -> str:
    """Return the table for LaTeX with booktabs; `\\checkmark` needs amssymb."""
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
            _latex_row(names),
            r"\midrule",
            *(_latex_row(table.cells(line)) for line in own),
            *([r"\midrule"] if published else []),
            *(_latex_row(table.cells(line)) for line in published),
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {printable(note)}" for note in table.notes),
            "",
        ]
    )


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join(latex(text) for text in texts) + r" \\"


def _plain(value: Spread | None, part: int) -> str:
    number = value[part] if value else None
    return "" if number is None else f"{number:.4f}"
