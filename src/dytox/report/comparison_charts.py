"""Groups of runs over each other: one colour a group, in every picture the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dytox.published.comparable import compare
from dytox.published.figures import CLASSES
from dytox.report import charts, style
from dytox.report.groups import Group

LONGEST, SHORTEST = 36, 16  # characters of a label beside a line, where there is room and where there is not


def curves(panels: Sequence[Sequence[Group]], width: int) -> Figure:
    """Top-1 over the classes seen, a panel for each scenario; the band is the deviation over runs."""
    most = max(len(panel) for panel in panels)
    height = max(340, 90 + 18 * most)
    narrow = width / len(panels) < 600
    with style.styled():
        drawn = style.figure(width, height)
        for axes, panel in zip(drawn.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            ends = [end for each in panel for end in _draw(axes, each, SHORTEST if narrow else LONGEST)]
            charts.percent_axis(axes)
            few = charts.FEW // 2 if narrow else charts.FEW
            charts.ticks_at(axes, max((each.seen for each in panel), key=len), few)
            axes.set_xlabel("classes seen")
            style.label_ends(axes, ends, gap=18 / (height - 60))
            if len(panels) > 1:
                axes.set_title(panel[0].scenario, color=style.LIGHT["muted"])
    return drawn


def _draw(axes: Axes, each: Group, longest: int) -> list[tuple[float, str, str]]:
    """One group: its line, its band, the published Last as a diamond; gives the labels at their ends."""
    hue = style.colour(each.place)
    spreads = [found or (math.nan, None) for found in each.after_each("top1")]
    means = [mean for mean, _ in spreads]
    charts.line(axes, each.seen, means, each.place, wide=True)
    if len(each.records) > 1:
        low = [mean - (std or 0) for mean, std in spreads]
        high = [mean + (std or 0) for mean, std in spreads]
        axes.fill_between(each.seen, low, high, color=hue, alpha=0.18, linewidth=0)
    ends = [(means[-1], f"{shortened(each.label, longest)} {means[-1]:.1f}", hue)]
    config = each.records[0].config
    own = compare(config).own
    if own and own.last is not None:
        axes.plot(CLASSES[config.data.dataset], own.last, "D", mfc="none", mec=hue, clip_on=False)
        ends.append((own.last, f"published {own.last:.1f}", hue))
    return ends


def averages(panel: Sequence[Group]) -> Figure:
    """Avg (hollow) and Last (full) of each group, best Last on top, with the deviation over runs."""
    order = sorted(panel, key=lambda each: (each.spread("last_top1") or (0, None))[0])
    with style.styled():
        drawn = style.figure(charts.HALF, 90 + 34 * len(panel))
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


def growth(panel: Sequence[Group]) -> Figure:
    """Parameters after each task."""
    with style.styled():
        drawn = style.figure(charts.HALF, max(260, 90 + 34 * len(panel)))
        axes = drawn.add_subplot()
        ends = []
        for each in panel:
            sizes = [found[0] / 1e6 for found in each.after_each("parameters") if found]
            charts.line(axes, range(1, len(sizes) + 1), sizes, each.place, wide=False)
            ends.append((sizes[-1], f"{shortened(each.label, 18)} {sizes[-1]:.2f}", style.colour(each.place)))
        charts.task_axis(axes, max(len(each.seen) for each in panel))
        axes.margins(y=0.15)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_ylabel("million parameters")
        style.label_ends(axes, ends, gap=18 / 200)
    return drawn


def shortened(label: str, longest: int) -> str:
    """A label that leaves room for the picture."""
    return label if len(label) <= longest else f"{label[: longest - 1].rstrip()}…"
