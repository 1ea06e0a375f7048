"""The page that compares several runs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path

from dytox.report import charts, page
from dytox.report.record import Group, config_value, differing_keys
from dytox.report.results import Results, collect
from dytox.report.sections import NARROW, WIDE
from dytox.runs import files
from dytox.text import number_text, plural, short_duration

DIFFERENCES = 40  # at most this many keys are listed


def write_comparison(found: Sequence[Group], path: Path) -> None:
    """Write the page of several runs to a file."""
    files.write(path, [render_comparison(found, path.parent).encode()])


def render_comparison(found: Sequence[Group], folder: Path) -> str:
    """Return the page as HTML; its links are relative to the folder that it will be saved in."""
    table = collect(found)
    runs = sum(len(each.records) + len(each.behind) for each in found)
    methods = len({each.records[0].method for each in found})
    title = f"{methods} methods side by side" if methods > 1 else f"{found[0].records[0].method}, run by run"
    lead = f"{plural(runs, 'run')}: {', '.join(table.scenarios)}"
    parts = [
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>',
        _results(table),
    ]
    for number, panel in enumerate(panels(found)):
        parts += _scenario(panel, f"scenario-{number}")
    parts += [_runs(found, folder), _differences(found), _commands(found, folder)]
    return page.document(title, *parts)


def panels(found: Sequence[Group]) -> list[list[Group]]:
    """Return the groups, by scenario."""
    names = list(dict.fromkeys(each.scenario for each in found))
    return [[each for each in found if each.scenario == name] for name in names]


def _results(table: Results) -> str:
    """The table in the paper's form."""
    head = ["Method", "Memory", *table.heads, *list(table.columns.values()) * len(table.scenarios)]
    rows: list[list[str]] = []
    classes: list[str] = []
    for line in table.lines:
        rows.append(table.cells(line))
        first = line.published and not any(classes)
        classes.append("apart rule" if first else "apart" if line.published else "")
    over = [("", 2 + len(table.settings)), *((name, len(table.columns)) for name in table.scenarios)]
    note = (
        "Accuracy in percent, #P in millions. Avg: mean over the steps, the first included; "
        "Last: after the last. Mean ± standard deviation where there are several runs. "
        "Forgetting as Chaudhry (2018) defines it, which the published figures do not follow."
    )
    why = [f'<p class="note">{escape(sentence)}</p>' for sentence in table.notes]
    shown = page.html_table(
        head, rows, classes=classes, words=[0, 1], groups=over if len(table.scenarios) > 1 else ()
    )
    return page.section("Results", shown, *why, note=note)


def _scenario(panel: Sequence[Group], name: str) -> list[str]:
    """Curves, averages and parameters in one scenario."""
    wide, narrow = (charts.comparison_curves([panel], each) for each in (WIDE, NARROW))
    note = (
        "Top-1 on all classes seen; band: deviation over runs; diamond: published Last with the same memory."
    )
    curves = page.section(
        f"Accuracy after each step: {panel[0].scenario}",
        page.drawing(f"{name}-curves", "Accuracy after each task, by method", wide, narrow),
        note=note,
    )
    averages = page.drawing(f"{name}-averages", "Avg and Last by method", charts.comparison_averages(panel))
    growth = page.drawing(
        f"{name}-growth", "Parameters after each task, by method", charts.comparison_sizes(panel)
    )
    return [
        curves,
        page.pair(
            page.section("Avg and Last", averages),
            page.section("Parameters", growth, note="The axis does not begin at zero."),
        ),
    ]


def _runs(found: Sequence[Group], folder: Path) -> str:
    """All runs, with links to their own pages."""
    head = ["Run", "Method", "Seed", "Order", "Tasks", "Avg", "Last", "Forgetting", "Time"]
    rows = []
    for each in found:
        for record in [*each.records, *each.behind]:
            figures, order = record.metrics or {}, record.config.scenario.order
            numbers = [number_text(figures.get(key), 2) for key in ("avg_top1", "last_top1", "forgetting")]
            where = [str(record.config.seed), str(order) if isinstance(order, int | str) else "own"]
            time = short_duration(figures["seconds"])
            rows.append([record.name, each.label, *where, str(len(record.steps)), *numbers, time])
    links = [
        f'<a href="{escape(os.path.relpath(record.path / "report.html", folder))}">{escape(record.name)}</a>'
        for each in found
        for record in [*each.records, *each.behind]
        if (record.path / "report.html").exists()
    ]
    pages = f'<p class="note">Pages of the runs: {", ".join(links)}</p>' if links else ""
    return page.section("Runs", page.html_table(head, rows, words=[0, 1]), pages)


def _differences(found: Sequence[Group]) -> str:
    """The config keys in which the groups differ."""
    records = [each.records[0] for each in found]
    keys = differing_keys(records)
    if not keys:
        return ""
    rows = [[key, *(str(config_value(record, key)) for record in records)] for key in keys[:DIFFERENCES]]
    more = f" (the first {DIFFERENCES} of {len(keys)})" if len(keys) > DIFFERENCES else ""
    table = page.html_table(["Key", *(each.label for each in found)], rows)
    return page.section(
        "What differs", page.details(f"{plural(len(keys), 'key')} of the configs{more}", table)
    )


def _commands(found: Sequence[Group], folder: Path) -> str:
    """The commands that make the runs and this page again."""
    records = [record for each in found for record in [*each.records, *each.behind]]
    commands = list(dict.fromkeys(record.command for record in records))
    commands.append(
        shlex.join(["dytox", "report", *(str(record.path) for record in records), "--out", "FILE.html"])
    )
    return page.section("How it was made", page.preformatted("\n".join(commands)))
