"""Charts over the tasks, of one run and of several groups of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dytox.published.comparable import compare
from dytox.published.figures import CLASS_COUNTS, PublishedResult
from dytox.report import style
from dytox.report.record import Group, Record
from dytox.text import millions

HALF_WIDTH = 460  # width of a figure beside another, in pixels
FEW_TASKS = 12  # up to this many tasks there is room for a number at each


def accuracy_chart(
    record: Record, published: PublishedResult | None, classes: int | None, width: int
) -> Figure:
    """Draw top-1, top-5 and task-aware accuracy over the classes seen, with the published Avg and Last."""
    height = 320
    with style.styled():
        drawn = style.figure(width, height)
        axes = drawn.add_subplot()
        percent_axis(axes)
        ends = []
        for place, (key, name) in enumerate(
            (("top1", "top-1"), ("top5", "top-5"), ("task_aware_top1", "task told"))
        ):
            values = [step.get(key) for step in record.steps]
            if any(value is not None for value in values):
                line(axes, record.seen, values, place, wide=place == 0)
                last = [value for value in values if value is not None][-1]
                ends.append((last, f"{name} {last:.1f}", style.colour(place)))
        ink = style.LIGHT["ink"]
        if published and published.last is not None:
            axes.plot([classes or record.seen[-1]], [published.last], "D", mfc="none", mec=ink, clip_on=False)
            ends.append((published.last, f"published Last {published.last:.1f}", ink))
        if published and published.avg is not None:
            axes.axhline(published.avg, color=ink, linewidth=1, linestyle=(0, (1, 2)))
            ends.append((published.avg, f"published Avg {published.avg:.1f}", ink))
        if published and record.metrics:
            axes.axhline(
                record.metrics["avg_top1"], color=style.colour(0), linewidth=1, linestyle=(0, (1, 2))
            )
            own = record.metrics["avg_top1"]
            ends.append((own, f"Avg {own:.1f}", style.colour(0)))
        ticks_at(axes, record.seen, few=FEW_TASKS if width > 600 else FEW_TASKS // 2)
        axes.set_xlabel("classes seen")
        style.label_ends(axes, ends, gap=18 / (height - 60))
    return drawn


def forgetting_chart(record: Record) -> Figure:
    """Draw how many points each task has lost since its best accuracy."""
    values = record.metrics["forgetting_per_task"] if record.metrics else []
    with style.styled():
        drawn = style.figure(HALF_WIDTH, 340)
        axes = drawn.add_subplot()
        bars(axes, values, "{:.1f}", hue=1)
        axes.axhline(0, color=style.LIGHT["muted"], linewidth=1)
        axes.set_ylabel("points lost since its best")
    return drawn


def time_chart(record: Record) -> Figure:
    """Draw the time of each task."""
    values = [float(step["seconds"]) for step in record.steps]
    most = max(values, default=0.0)
    unit, name = (3600, "hours") if most >= 7200 else (60, "minutes") if most >= 120 else (1, "seconds")
    with style.styled():
        drawn = style.figure(HALF_WIDTH, 215)
        axes = drawn.add_subplot()
        bars(axes, [value / unit for value in values], "{:.1f}" if unit > 1 else "{:.0f}", hue=6)
        axes.set_ylabel(f"{name} per task")
    return drawn


def parameters_chart(record: Record) -> Figure:
    """Draw the size of the model after each task; the axis does not start at zero."""
    values = [step["parameters"] / 1e6 for step in record.steps]
    with style.styled():
        drawn = style.figure(HALF_WIDTH, 215)
        axes = drawn.add_subplot()
        tasks = range(1, len(values) + 1)
        line(axes, tasks, values, 2, wide=True)
        task_axis(axes, len(values))
        axes.margins(y=0.2)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_ylabel("million parameters")
        style.label_ends(axes, [(values[-1], millions(record.steps[-1]["parameters"]), style.colour(2))], 0)
    return drawn


def line(axes: Axes, x: Sequence[float], y: Sequence[float | None], place: int, *, wide: bool) -> None:
    """Draw a series in its own colour and dash, with points where there is room and gaps for None."""
    axes.plot(
        x,
        [float("nan") if value is None else value for value in y],
        color=style.colour(place),
        linestyle=style.dash(place),
        linewidth=2.2 if wide else 1.4,
        marker="o" if len(y) <= 2 * FEW_TASKS else None,
        markersize=5 if wide else 3.5,
        clip_on=False,
    )


def bars(axes: Axes, values: Sequence[float], form: str, hue: int) -> None:
    """Draw a bar for each task, with its value where there is room."""
    width = min(0.72, 0.24 * len(values))
    drawn = axes.bar(range(1, len(values) + 1), values, color=style.colour(hue), width=width)
    if len(values) <= FEW_TASKS:
        axes.bar_label(drawn, [form.format(value) for value in values], padding=2, color=style.LIGHT["ink"])
        axes.margins(y=0.12)
    task_axis(axes, len(values))


def task_axis(axes: Axes, tasks: int) -> None:
    """Put whole numbers on the x axis, from the first task to the last."""
    axes.set_xlim(0.4, max(tasks, 1) + 0.6)
    ticks_at(axes, range(1, tasks + 1))
    axes.set_xlabel("task")


def ticks_at(axes: Axes, places: Sequence[float], few: int = FEW_TASKS) -> None:
    """Put a tick at each place, or round numbers where there are more than `few` places."""
    if len(places) <= few:
        axes.set_xticks(list(places))
    else:
        style.whole_numbers(axes.xaxis)


def percent_axis(axes: Axes) -> None:
    """Let the y axis go from 0 to 100 percent."""
    axes.set_ylim(0, 100)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("accuracy in %")


LONGEST, SHORTEST = 36, 16  # most characters of a label, in a wide and in a narrow chart


def comparison_curves(panels: Sequence[Sequence[Group]], width: int) -> Figure:
    """Draw top-1 over the classes seen, a panel for each scenario; the band is the deviation over runs."""
    most = max(len(panel) for panel in panels)
    height = max(340, 90 + 18 * most)
    narrow = width / len(panels) < 600
    with style.styled():
        drawn = style.figure(width, height)
        for axes, panel in zip(drawn.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            ends = [end for each in panel for end in _draw(axes, each, SHORTEST if narrow else LONGEST)]
            percent_axis(axes)
            few = FEW_TASKS // 2 if narrow else FEW_TASKS
            ticks_at(axes, max((each.seen for each in panel), key=len), few)
            axes.set_xlabel("classes seen")
            style.label_ends(axes, ends, gap=18 / (height - 60))
            if len(panels) > 1:
                axes.set_title(panel[0].scenario, color=style.LIGHT["muted"])
    return drawn


def _draw(axes: Axes, each: Group, longest: int) -> list[tuple[float, str, str]]:
    """Draw a group: its line, its band, the published Last as a diamond; return the labels at its ends."""
    hue = style.colour(each.place)
    spreads = [found or (math.nan, None) for found in each.after_each("top1")]
    means = [mean for mean, _ in spreads]
    line(axes, each.seen, means, each.place, wide=True)
    if len(each.records) > 1:
        low = [mean - (std or 0) for mean, std in spreads]
        high = [mean + (std or 0) for mean, std in spreads]
        axes.fill_between(each.seen, low, high, color=hue, alpha=0.18, linewidth=0)
    ends = [(means[-1], f"{shortened(each.label, longest)} {means[-1]:.1f}", hue)]
    config = each.records[0].config
    own = compare(config).own
    if own and own.last is not None:
        axes.plot(CLASS_COUNTS[config.data.dataset], own.last, "D", mfc="none", mec=hue, clip_on=False)
        ends.append((own.last, f"published {own.last:.1f}", hue))
    return ends


def comparison_averages(panel: Sequence[Group]) -> Figure:
    """Draw Avg (hollow) and Last (full) of each group, best Last on top, with the deviation over runs."""
    order = sorted(panel, key=lambda each: (each.spread("last_top1") or (0, None))[0])
    with style.styled():
        drawn = style.figure(HALF_WIDTH, 90 + 34 * len(panel))
        axes = drawn.add_subplot()
        axes.grid(True, axis="x")
        axes.grid(False, axis="y")
        for row, each in enumerate(order):
            hue = style.colour(each.place)
            (avg, avg_std), (last, last_std) = (
                each.spread(key) or (math.nan, None) for key in ("avg_top1", "last_top1")
            )
            axes.plot([last, avg], [row, row], color=hue, linewidth=2, alpha=0.5)
            axes.errorbar(avg, row, xerr=avg_std, fmt="o", color=hue, mfc=style.LIGHT["surface"], mew=2, ms=8)
            axes.errorbar(last, row, xerr=last_std, fmt="o", color=hue, ms=9)
        axes.set_yticks(range(len(panel)), [shortened(each.label, 24) for each in order])
        axes.tick_params(axis="y", labelcolor=style.LIGHT["ink"])
        axes.set_ylim(-0.6, len(panel) - 0.4)
        axes.set_xlim(0, 100)
        axes.set_xlabel("accuracy in %: Last (full), Avg (hollow)")
    return drawn


def comparison_sizes(panel: Sequence[Group]) -> Figure:
    """Draw the parameters of each group after each task."""
    with style.styled():
        drawn = style.figure(HALF_WIDTH, max(260, 90 + 34 * len(panel)))
        axes = drawn.add_subplot()
        ends = []
        for each in panel:
            sizes = [found[0] / 1e6 for found in each.after_each("parameters") if found]
            line(axes, range(1, len(sizes) + 1), sizes, each.place, wide=False)
            ends.append((sizes[-1], f"{shortened(each.label, 18)} {sizes[-1]:.2f}", style.colour(each.place)))
        task_axis(axes, max(len(each.seen) for each in panel))
        axes.margins(y=0.15)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_ylabel("million parameters")
        style.label_ends(axes, ends, gap=18 / 200)
    return drawn


def shortened(label: str, longest: int) -> str:
    """Cut a label to at most `longest` characters."""
    return label if len(label) <= longest else f"{label[: longest - 1].rstrip()}…"
