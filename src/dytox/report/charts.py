"""A run's figures over its tasks: accuracy, forgetting, time, parameters."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dytox.published.figures import PublishedResult
from dytox.report import style, text
from dytox.report.record import Record

HALF = 460  # pixels of a figure beside another
FEW = 12  # so many tasks have room for a number each


def accuracy(record: Record, published: PublishedResult | None, classes: int | None, width: int) -> Figure:
    """Top-1, top-5 and task-aware accuracy over the classes seen, with the published Avg and Last."""
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
        ticks_at(axes, record.seen, few=FEW if width > 600 else FEW // 2)
        axes.set_xlabel("classes seen")
        style.label_ends(axes, ends, gap=18 / (height - 60))
    return drawn


def forgetting(record: Record) -> Figure:
    """How far each task has fallen from its best."""
    values = record.metrics["forgetting_per_task"] if record.metrics else []
    with style.styled():
        drawn = style.figure(HALF, 340)
        axes = drawn.add_subplot()
        bars(axes, values, "{:.1f}", hue=1)
        axes.axhline(0, color=style.LIGHT["muted"], linewidth=1)
        axes.set_ylabel("points lost since its best")
    return drawn


def seconds(record: Record) -> Figure:
    """The time of each task."""
    values = [float(step["seconds"]) for step in record.steps]
    most = max(values, default=0.0)
    unit, name = (3600, "hours") if most >= 7200 else (60, "minutes") if most >= 120 else (1, "seconds")
    with style.styled():
        drawn = style.figure(HALF, 215)
        axes = drawn.add_subplot()
        bars(axes, [value / unit for value in values], "{:.1f}" if unit > 1 else "{:.0f}", hue=6)
        axes.set_ylabel(f"{name} a task")
    return drawn


def parameters(record: Record) -> Figure:
    """The size of the model after each task; the axis does not begin at zero."""
    values = [step["parameters"] / 1e6 for step in record.steps]
    with style.styled():
        drawn = style.figure(HALF, 215)
        axes = drawn.add_subplot()
        tasks = range(1, len(values) + 1)
        line(axes, tasks, values, 2, wide=True)
        task_axis(axes, len(values))
        axes.margins(y=0.2)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_ylabel("million parameters")
        style.label_ends(
            axes, [(values[-1], text.millions(record.steps[-1]["parameters"]), style.colour(2))], 0
        )
    return drawn


def line(axes: Axes, x: Sequence[float], y: Sequence[float | None], place: int, *, wide: bool) -> None:
    """A series of its own colour and dash; points where there is room, gaps where there is no value."""
    axes.plot(
        x,
        [float("nan") if value is None else value for value in y],
        color=style.colour(place),
        linestyle=style.dash(place),
        linewidth=2.2 if wide else 1.4,
        marker="o" if len(y) <= 2 * FEW else None,
        markersize=5 if wide else 3.5,
        clip_on=False,
    )


def bars(axes: Axes, values: Sequence[float], form: str, hue: int) -> None:
    """A bar for each task, with its number where there is room."""
    width = min(0.72, 0.24 * len(values))
    drawn = axes.bar(range(1, len(values) + 1), values, color=style.colour(hue), width=width)
    if len(values) <= FEW:
        axes.bar_label(drawn, [form.format(value) for value in values], padding=2, color=style.LIGHT["ink"])
        axes.margins(y=0.12)
    task_axis(axes, len(values))


def task_axis(axes: Axes, tasks: int) -> None:
    """Whole numbers, from the first task to the last."""
    axes.set_xlim(0.4, max(tasks, 1) + 0.6)
    ticks_at(axes, range(1, tasks + 1))
    axes.set_xlabel("task")


def ticks_at(axes: Axes, places: Sequence[float], few: int = FEW) -> None:
    """A tick at each place while they are few."""
    if len(places) <= few:
        axes.set_xticks(list(places))
    else:
        style.whole_numbers(axes.xaxis)


def percent_axis(axes: Axes) -> None:
    """All of 0 to 100."""
    axes.set_ylim(0, 100)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("accuracy in %")
