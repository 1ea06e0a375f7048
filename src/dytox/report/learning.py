"""The chart of losses and learning rate over all epochs of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from dytox.report import style

POINTS = 1200  # at most this many points per curve; more are averaged
LogLine = dict[str, Any]  # a line of `log.jsonl`


@dataclass(frozen=True)
class PhaseLog:
    """The epochs of a training phase of a task; the first has the number `start` in the run."""

    task: int
    phase: str
    start: int
    lines: list[LogLine]

    @property
    def end(self) -> int:
        """The number of the last epoch."""
        return self.start + len(self.lines) - 1


def split_phases(log: Sequence[LogLine]) -> list[PhaseLog]:
    """Split the log at every phase; epochs count from 1 over the whole run."""
    found: list[PhaseLog] = []
    for _, group in groupby(log, key=lambda line: (line["task"], line["phase_index"])):
        lines = list(group)
        start = found[-1].end + 1 if found else 1
        found.append(PhaseLog(lines[0]["task"], str(lines[0].get("phase", "")), start, lines))
    return found


def terms(log: Sequence[LogLine]) -> list[str]:
    """Return the names of the losses, `total` last; it is left out where there is only one other."""
    names = list(dict.fromkeys(name for line in log for name in line.get("losses", {})))
    parts = [name for name in names if name != "total"]
    return [*parts, "total"] if "total" in names and len(parts) != 1 else parts


def learning_chart(log: Sequence[LogLine], width: int) -> Figure:
    """Draw the losses above, the learning rate below, and the borders of the tasks."""
    parts = split_phases(log)
    with style.styled():
        drawn = style.figure(width, 400)
        above, below = drawn.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        _mark_tasks(above, below, parts, narrow=width < 600)
        ends, values = [], []
        for place, name in enumerate(terms(log)):
            hue = style.LIGHT["ink"] if name == "total" else style.colour(place)
            x, y = curve(parts, lambda line, name=name: line.get("losses", {}).get(name))
            _draw(above, x, y, hue)
            finite = [value for value in y if not math.isnan(value)]
            ends += [(value, name, hue) for value in finite[-1:]]
            values += finite
        _loss_axis(above, values)
        style.label_ends(above, ends, gap=0.08)
        x, y = curve(parts, lambda line: line.get("lr"))
        _draw(below, x, y, style.LIGHT["muted"])
        below.set_ylabel("learning rate")
        below.yaxis.set_major_locator(MaxNLocator(3))
        below.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        below.set_xlabel("epoch of the run")
        below.set_xlim(0.5, (parts[-1].end if parts else 1) + 0.5)
        style.whole_numbers(below.xaxis)
        drawn.align_ylabels()
    return drawn


def curve(parts: Sequence[PhaseLog], value: Any) -> tuple[list[float], list[float]]:
    """Return x and y of one figure over the epochs, with a gap after each phase; NaN where it is None."""
    epochs = sum(len(part.lines) for part in parts)
    x: list[float] = []
    y: list[float] = []
    for part in parts:
        size = max(1, math.ceil(epochs / POINTS))
        for first in range(0, len(part.lines), size):
            group = [value(line) for line in part.lines[first : first + size]]
            numbers = [number for number in group if number is not None]
            x.append(part.start + first + (len(group) - 1) / 2)
            y.append(sum(numbers) / len(numbers) if numbers else math.nan)
        x.append(part.end)
        y.append(math.nan)
    return x, y


def _mark_tasks(above: Axes, below: Axes, parts: Sequence[PhaseLog], narrow: bool) -> None:
    """Draw a line where a task begins, and a shade under the phases after its first training."""
    starts = {part.task: part.start for part in reversed(parts)}
    ends = {part.task: part.end for part in parts}
    later = [(part.start - 0.5, len(part.lines)) for part in parts if part.start > starts[part.task]]
    borders = [start - 0.5 for start in starts.values() if start > 1]
    for axes in (above, below):
        across = axes.get_xaxis_transform()  # epochs along, shares of the height up
        axes.broken_barh(later, (0, 1), transform=across, color=style.LIGHT["line"], alpha=0.5, linewidth=0)
        axes.vlines(borders, 0, 1, transform=across, color=style.LIGHT["line"], linewidth=1)
    if len(starts) <= (8 if narrow else 12):
        for task, start in starts.items():
            middle = (start + ends[task]) / 2
            above.annotate(
                str(task + 1) if task and narrow else f"task {task + 1}",
                (middle, 1),
                xytext=(0, 4),
                xycoords=above.get_xaxis_transform(),
                textcoords="offset points",
                ha="center",
                color=style.LIGHT["muted"],
            )


def _draw(axes: Axes, x: Sequence[float], y: Sequence[float], hue: str) -> None:
    axes.plot(x, y, color=hue, linewidth=1.4, marker="." if len(y) < 30 else None)


def _loss_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make the axis logarithmic where the terms differ much in size."""
    axes.set_ylabel("loss")
    if values and min(values) > 0 and max(values) > 20 * min(values):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.minorticks_off()
