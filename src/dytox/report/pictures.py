"""The plots of a run as files: PNG and SVG, with their titles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure

from dytox.published.comparable import compare
from dytox.published.figures import CLASSES
from dytox.report import attention, charts, heatmaps, learning, style
from dytox.report.record import Record
from dytox.runs import files

WIDTH = 760  # pixels of the wide ones


def save(record: Record, folder: Path) -> None:
    """Every plot of the run that it has the figures for."""
    files.make_folder(folder)
    for name, title, drawn in plots(record):
        style.entitle(drawn, f"{record.method}: {title}")
        files.write(folder / f"{name}.png", [style.png(drawn)])
        files.write(folder / f"{name}.svg", [style.svg(drawn)])


def plots(record: Record) -> Iterator[tuple[str, str, Figure]]:
    """Name, title and figure of each."""
    if record.log:
        yield "learning", "losses and learning rate", learning.learning(record.log, WIDTH)
    if not record.metrics:
        return
    comparison = compare(record.config)
    classes = CLASSES.get(record.config.data.dataset) if comparison.steps else None
    yield "accuracy", "accuracy after each task", charts.accuracy(record, comparison.own, classes, WIDTH)
    if len(record.steps) > 1:
        yield "accuracy-matrix", "accuracy on each task", heatmaps.accuracy_matrix(record)
        yield "forgetting", "forgetting of each task", charts.forgetting(record)
    if len(record.steps) > 1 and "confusion" in record.evaluation:
        yield "confusion", "confusion between tasks", heatmaps.confusion(record)
    if record.tokens > 1:
        yield "token-distances", "distances between tokens", heatmaps.token_distances(record)
    images = attention.shown(record)
    if images:
        yield "attention", "where the task tokens look", attention.picture(images)
    yield "parameters", "parameters", charts.parameters(record)
    yield "time", "time of each task", charts.seconds(record)
