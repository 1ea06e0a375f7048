"""`report`: the page of a run, or the comparison of several runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dytox.cli.options import WHERE
from dytox.cli.output import console, say
from dytox.errors import UserError

if TYPE_CHECKING:
    from dytox.report.record import Group, Record

SUFFIXES = (".html", ".csv", ".md", ".tex", ".png", ".svg")


RunsArgument = Annotated[
    list[Path], typer.Argument(help="Run directories, or folders that hold several runs.", metavar="RUN")
]
ReportFilesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write a file, by its suffix: .html a page, .csv .md .tex the table, .png .svg the curves. "
        "Repeatable.",
        rich_help_panel=WHERE,
    ),
]


def report(runs: RunsArgument, out: ReportFilesOption = None) -> None:
    """Write the report of a run, or compare several runs: accuracy after each task, Avg, Last, forgetting.

    For one run, its report.html and plots/ are written again. For several, the table is printed, and --out
    names the files to write.

    Example: dytox report runs/digits-dytox runs/digits-replay --out comparison.html
    """
    for file in out or []:
        if file.suffix not in SUFFIXES:
            raise UserError(
                f"--out {file} has none of the suffixes that say what to write: {', '.join(SUFFIXES)}."
            )

    from dytox.report.record import read_record, runs_in

    paths = runs_in(runs)
    found = [read_record(path) for path in paths]
    if len(found) == 1 and not out:
        _renew(found[0])
    if len(found) == 1 and found[0].metrics is None and all(file.suffix == ".html" for file in out or []):
        say(console(), f"{paths[0]} has not finished a task yet: its page shows the progress so far.")
    else:
        _table(found)
    for file in out or []:
        _write(found, file)
        say(console(), f"{file}")


def _renew(record: Record) -> None:
    """Write the files again that the run itself writes."""
    from dytox.report.run_page import save_plots, write_run_page

    write_run_page(record, record.path / "report.html")
    save_plots(record, record.path / "plots")
    say(console(), f"{record.path / 'report.html'}")


def _table(records: Sequence[Record]) -> None:
    """Print the table, with mean and deviation of runs that differ only in seed or class order."""
    from dytox.cli.result_tables import RUN_FIGURES, show_runs
    from dytox.text import with_deviation

    for each in _groups(records):
        if len(each.records) > 1:
            parts = [
                f"{name} {with_deviation(*(each.spread(key) or (None, None)))}" for name, key in RUN_FIGURES
            ]
            say(console(), f"{each.label}, {each.scenario}, {len(each.records)} runs: {', '.join(parts)}")
    show_runs(console(), [(record.path, record.metrics or {}) for record in records])


def _write(records: Sequence[Record], file: Path) -> None:
    from dytox.report import charts, comparison_page, results, run_page, style
    from dytox.runs import files

    files.make_folder(file.parent)
    if file.suffix == ".html" and len(records) == 1:
        run_page.write_run_page(records[0], file)
        return
    found = _groups(records)
    if file.suffix == ".html":
        comparison_page.write_comparison(found, file)
    elif file.suffix in (".png", ".svg"):
        panels = comparison_page.panels(found)
        drawn = charts.comparison_curves(panels, 760 if len(panels) == 1 else 1000)
        style.entitle(
            drawn, f"Accuracy after each step{f': {found[0].scenario}' if len(panels) == 1 else ''}"
        )
        files.write(file, [style.png(drawn) if file.suffix == ".png" else style.svg(drawn)])
    else:
        form = {".csv": results.to_csv, ".md": results.to_markdown, ".tex": results.to_latex}[file.suffix]
        files.write(file, [form(results.collect(found)).encode()])


def _groups(records: Sequence[Record]) -> list[Group]:
    from dytox.report.record import group

    for record in records:
        record.require_metrics()
    return group(records)
