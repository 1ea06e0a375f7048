"""Heat maps of tasks by tasks: one hue, stronger for larger values, in the light and the dark theme."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from dytox.report import charts, style
from dytox.report.record import Record

HeatValues = NDArray[np.float64]

NUMBERED = 10  # up to this many tasks each cell has room for its number
FINEST = 100  # at most this many rows of cells are drawn
FAINTEST = 0.05  # opacity of the hue for the smallest value
# Above this share of the hue, numbers take the colour of the surface: the best contrast in both themes.
TURN = 0.56
LEVELS = 32  # steps of the hue


def accuracy_map(record: Record) -> Figure:
    """Draw the accuracy matrix. Row: after which task; column: on which task."""
    rows = record.metrics["accuracy_matrix"] if record.metrics else []
    values = np.full((len(rows), len(rows)), np.nan)
    for place, row in enumerate(rows):
        values[place, : len(row)] = row  # None becomes NaN
    return heat_map(values, top=100.0, form="{:.0f}", rows="after task", columns="accuracy in % on task")


def confusion_map(record: Record) -> Figure:
    """Draw the confusion between tasks. Row: the task of an image; column: that of its predicted class."""
    values = between_tasks(record.evaluation["confusion"].double().numpy(), record.seen)
    return heat_map(
        values, top=100.0, form="{:.0f}", rows="images of task", columns="% taken for a class of task"
    )


def token_distance_map(record: Record) -> Figure:
    """Draw the Euclidean distances between task tokens."""
    values = record.evaluation["token_distances"].double().numpy().copy()
    top = float(np.nanmax(values, initial=0.0)) or 1.0
    np.fill_diagonal(values, np.nan)  # the distance of each to itself
    return heat_map(values, top=top, form="{:.2f}", rows="token", columns="distance to token")


def between_tasks(confusion: HeatValues, boundaries: Sequence[int]) -> HeatValues:
    """Return a confusion matrix of classes as one of tasks, in percent of each task's images."""
    starts = [0, *boundaries[:-1]]
    counts = np.add.reduceat(np.add.reduceat(confusion, starts, axis=0), starts, axis=1)
    return np.asarray(100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def heat_map(values: HeatValues, *, top: float, form: str, rows: str, columns: str) -> Figure:
    """Draw a cell for each value, from 0 (faint) to `top` (full), with its number where there is room."""
    size = len(values)
    with style.styled():
        drawn = style.figure(charts.HALF_WIDTH, 430)
        axes = drawn.add_subplot(aspect="equal")
        axes.grid(False)
        cells = coarse(values)
        shares = np.clip(np.nan_to_num(cells) / top, 0, 1)
        edges = np.linspace(0.5, size + 0.5, len(cells) + 1)
        _cells(
            axes, np.where(np.isnan(cells), np.nan, shares), edges, edges, gap=1.5 if size <= NUMBERED else 0
        )
        if size <= NUMBERED:
            _numbers(axes, cells, shares, form)
        else:
            _scale(axes, top, form)
        _axes(axes, size, rows, columns)
    return drawn


def coarse(values: HeatValues) -> HeatValues:
    """Average neighbouring cells until at most FINEST rows are left."""
    size = len(values)
    step = max(1, math.ceil(size / FINEST))
    starts = np.arange(0, size, step)
    there = np.add.reduceat(np.add.reduceat(~np.isnan(values), starts, 0, dtype=float), starts, 1)
    sums = np.add.reduceat(np.add.reduceat(np.nan_to_num(values), starts, 0), starts, 1)
    return np.where(there > 0, sums / np.maximum(there, 1), np.nan)


def _cells(axes: Axes, shares: HeatValues, x: HeatValues, y: HeatValues, gap: float) -> None:
    """Draw the cells, all of about the same value as one path; NaN stays empty."""
    edge = style.LIGHT["surface"] if gap else "none"
    levels = np.round(shares * (LEVELS - 1))
    for level in range(LEVELS):
        rows, columns = np.nonzero(levels == level)
        if not len(rows):
            continue
        left, right, low, high = x[columns], x[columns + 1], y[rows], y[rows + 1]
        corners = [(left, low), (right, low), (right, high), (left, high), (left, low)]
        vertices = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)  # (cells, 5, 2)
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(rows)
        hue = (*to_rgb(style.LIGHT["heat"]), FAINTEST + (1 - FAINTEST) * level / (LEVELS - 1))
        patch = PathPatch(Path(vertices.reshape(-1, 2), codes), facecolor=hue, edgecolor=edge, linewidth=gap)
        patch.set(antialiased=gap > 0, in_layout=False)
        axes.add_patch(patch)
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(y[0], y[-1])


def _numbers(axes: Axes, values: HeatValues, shares: HeatValues, form: str) -> None:
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            hue = style.LIGHT["surface" if shares[row, column] > TURN else "ink"]
            number = axes.text(column + 1, row + 1, form.format(value), ha="center", va="center", color=hue)
            number.set_in_layout(False)


def _scale(axes: Axes, top: float, form: str) -> None:
    """Draw the colour scale beside the map."""
    strip = axes.inset_axes((1.03, 0.0, 0.035, 1.0))
    strip.grid(False)
    edges = np.linspace(0, top, LEVELS + 1)
    _cells(strip, np.linspace(0, 1, LEVELS)[:, None], np.array([0.0, 1.0]), edges, gap=0)
    strip.yaxis.tick_right()
    strip.set_xticks([])
    strip.set_yticks([0, top / 2, top], [form.format(each) for each in (0, top / 2, top)])
    strip.spines["bottom"].set_visible(False)


def _axes(axes: Axes, size: int, rows: str, columns: str) -> None:
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    axes.spines["bottom"].set_visible(False)
    axes.set_ylabel(rows)
    axes.set_xlabel(columns)
    for axis in (axes.xaxis, axes.yaxis):
        if size <= NUMBERED:
            axis.set_ticks(range(1, size + 1))
        else:
            style.whole_numbers(axis)
