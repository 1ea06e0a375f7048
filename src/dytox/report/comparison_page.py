"""The page of several runs side by side."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path

from dytox.report import comparison_charts as pictures
from dytox.report import groups, page
from dytox.report.exports import cells
from dytox.report.groups import Group
from dytox.report.results import Results, results
from dytox.report.sections import NARROW, WIDE
from dytox.report.text import duration, percent, plural
from dytox.runs import files

DIFFERENCES = 40  # keys that are listed


def write(found: Sequence[Group], path: Path) -> None:
    """The page as a file."""
    files.write(path, [render(found, path.parent).encode()])


def render(found: Sequence[Group], folder: Path) -> str:
    """The page; links in it are relative to the folder that it will lie in."""
    table = results(found)
    runs = sum(len(each.records) + len(each.behind) for each in found)
    methods = len({each.records[0].method for each in found})
    title = f"{methods} methods side by side" if methods > 1 else f"{found[0].records[0].method}, run by run"
    lead = f"{plural(runs, 'run')}: {', '.join(table.scenarios)}"
    parts = [
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>',
        results_section(table),
    ]
    for number, panel in enumerate(panels(found)):
        parts += scenario_sections(panel, f"scenario-{number}")
    parts += [runs_section(found, folder), differences_section(found), made_section(found, folder)]
    return page.document(title, *parts)


def panels(found: Sequence[Group]) -> list[list[Group]]:
    """The groups of each scenario."""
    names = list(dict.fromkeys(each.scenario for each in found))
    return [[each for each in found if each.scenario == name] for name in names]


def results_section(table: Results) -> str:
    """The table in the paper's form."""
    head = ["Method", "Memory", *table.heads, *list(table.columns.values()) * len(table.scenarios)]
    rows: list[list[str]] = []
    classes: list[str] = []
    for line in table.lines:
        label = f"{line.label}, published" if line.published else line.label
        rows.append([label, line.memory, *(line.settings or [""] * len(table.settings)), *cells(line, table)])
        first = line.published and not any(classes)
        classes.append("apart rule" if first else "apart" if line.published else "")
    over = [("", 2 + len(table.settings)), *((name, len(table.columns)) for name in table.scenarios)]
    note = (
        "Accuracy in percent, #P in millions. Avg: mean over the steps, the first included; "
        "Last: after the last. Mean ± standard deviation where there are several runs. "
        "Forgetting as Chaudhry (2018) defines it, which the published figures do not follow."
    )
    why = [f'<p class="note">{escape(sentence)}</p>' for sentence in table.notes]
    shown = page.table(
        head, rows, classes=classes, words=[0, 1], groups=over if len(table.scenarios) > 1 else ()
    )
    return page.section("Results", shown, *why, note=note)


def scenario_sections(panel: Sequence[Group], name: str) -> list[str]:
    """Curves, averages and growth in one scenario."""
    wide, narrow = (pictures.curves([panel], each) for each in (WIDE, NARROW))
    note = (
        "Top-1 on all classes seen; band: deviation over runs; diamond: published Last with the same memory."
    )
    curves = page.section(
        f"Accuracy after each step: {panel[0].scenario}",
        page.drawing(f"{name}-curves", "Accuracy after each task, by method", wide, narrow),
        note=note,
    )
    averages = page.drawing(f"{name}-averages", "Avg and Last by method", pictures.averages(panel))
    growth = page.drawing(f"{name}-growth", "Parameters after each task, by method", pictures.growth(panel))
    return [
        curves,
        page.pair(
            page.section("Avg and Last", averages),
            page.section("Parameters", growth, note="The axis does not begin at zero."),
        ),
    ]


def runs_section(found: Sequence[Group], folder: Path) -> str:
    """Every run, with a link to its own page where there is one."""
    head = ["Run", "Method", "Seed", "Order", "Tasks", "Avg", "Last", "Forgetting", "Time"]
    rows = []
    for each in found:
        for record in [*each.records, *each.behind]:
            figures, order = record.metrics or {}, record.config.scenario.order
            numbers = [percent(figures.get(key), 2) for key in ("avg_top1", "last_top1", "forgetting")]
            where = [str(record.config.seed), str(order) if isinstance(order, int | str) else "own"]
            time = duration(figures["seconds"])
            rows.append([record.name, each.label, *where, str(len(record.steps)), *numbers, time])
    links = [
        f'<a href="{escape(os.path.relpath(record.path / "report.html", folder))}">{escape(record.name)}</a>'
        for each in found
        for record in [*each.records, *each.behind]
        if (record.path / "report.html").exists()
    ]
    pages = f'<p class="note">Pages of the runs: {", ".join(links)}</p>' if links else ""
    return page.section("Runs", page.table(head, rows, words=[0, 1]), pages)


def differences_section(found: Sequence[Group]) -> str:
    """Where the configs differ."""
    records = [each.records[0] for each in found]
    keys = groups.differing(records)
    if not keys:
        return ""
    rows = [[key, *(str(groups.value(record, key)) for record in records)] for key in keys[:DIFFERENCES]]
    more = f" (the first {DIFFERENCES} of {len(keys)})" if len(keys) > DIFFERENCES else ""
    table = page.table(["Key", *(each.label for each in found)], rows)
    return page.section(
        "What differs", page.details(f"{plural(len(keys), 'key')} of the configs{more}", table)
    )


def made_section(found: Sequence[Group], folder: Path) -> str:
    """The commands that make the runs and this page again."""
    records = [record for each in found for record in [*each.records, *each.behind]]
    commands = list(dict.fromkeys(record.command for record in records))
    commands.append(
        shlex.join(["dytox", "report", *(str(record.path) for record in records), "--out", "FILE.html"])
    )
    return page.section("How it was made", page.preformatted("\n".join(commands)))
