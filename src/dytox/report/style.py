"""The common style of all figures; its colours have names that a page redefines for the dark theme."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

# Okabe and Ito's hues, which colour-blind people can tell apart, with a contrast of at least 3:1.
LIGHT = {
    "page": "#f5f6f8",
    "surface": "#fefefe",
    "ink": "#1d2228",
    "muted": "#5c6670",
    "line": "#dfe3e8",
    "heat": "#08406f",
    "c1": "#0068b3",
    "c2": "#cf5a00",
    "c3": "#008662",
    "c4": "#b0508c",
    "c5": "#96710a",
    "c6": "#2f8fc4",
    "c7": "#6b6f76",
}
DARK = {
    "page": "#14171b",
    "surface": "#1c2025",
    "ink": "#e8eaed",
    "muted": "#a3acb6",
    "line": "#343a42",
    "heat": "#8cc8f5",
    "c1": "#5ab4f0",
    "c2": "#f28a3c",
    "c3": "#2fc299",
    "c4": "#e08cbe",
    "c5": "#dcb43c",
    "c6": "#9fd6f7",
    "c7": "#9aa0a8",
}
SERIES = tuple(f"c{number}" for number in range(1, 8))
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
DPI = 100  # figures are measured in pixels of a page

RC: Any = {  # the types of the keys differ between releases of matplotlib
    "font.size": 9.5,  # points: 13 pixels
    "font.family": ["sans-serif"],
    "text.color": LIGHT["ink"],
    "axes.edgecolor": LIGHT["line"],
    "axes.labelcolor": LIGHT["muted"],
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": LIGHT["line"],
    "grid.linewidth": 0.8,
    "xtick.color": LIGHT["line"],
    "ytick.color": LIGHT["line"],
    "xtick.labelcolor": LIGHT["muted"],
    "ytick.labelcolor": LIGHT["muted"],
    "ytick.major.size": 0,
    "xtick.minor.visible": False,
    "lines.linewidth": 2,
    "lines.markersize": 5,
    "lines.solid_capstyle": "round",
    "figure.dpi": DPI,
    "figure.constrained_layout.use": True,
    "axes.facecolor": "none",
    "text.parse_math": False,  # a dollar in a name is no formula
    "svg.fonttype": "none",
    "svg.hashsalt": "dytox",
}

_CLEANING = [  # parts of matplotlib's SVG that a page does not need
    (r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", ""),
    (r'<g id="[^"]*">', "<g>"),
    (r"font-family: [^;\"]*;? ?", ""),
    (r' transform="rotate\(-0 [^"]*\)"', ""),
    (r"\s+", " "),
    (r"> <", "><"),
]


@contextmanager
def styled() -> Iterator[None]:
    """Draw figures in this style within the context."""
    with mpl.rc_context(RC):
        yield


def figure(width: int, height: int) -> Figure:
    """Create an empty figure, `width` × `height` pixels."""
    return Figure(figsize=(width / DPI, height / DPI), facecolor=LIGHT["surface"])


def colour(place: int) -> str:
    """Return the colour of a series; after the last colour they start again, with another dash."""
    return LIGHT[SERIES[place % len(SERIES)]]


def dash(place: int) -> Any:
    """Return the dash pattern of a series."""
    return DASHES[place // len(SERIES) % len(DASHES)]


def whole_numbers(axis: Axis) -> None:
    """Put ticks at round whole numbers."""
    axis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], gap: float) -> None:
    """Label the right ends of lines, given as (y, text, colour), and push colliding labels apart.

    `gap` is the smallest distance, as a share of the height.
    """
    axes.get_ylim()  # fixes the limits
    to_share = axes.transData + axes.transAxes.inverted()
    wanted = sorted((float(to_share.transform((1, y))[1]), text, hue) for y, text, hue in ends)
    places = [share for share, _, _ in wanted]
    for number in range(1, len(places)):
        places[number] = max(places[number], places[number - 1] + gap)
    excess = max(0.0, places[-1] - 1) if places else 0.0
    for number in reversed(range(len(places))):  # back under the top, pushing down those below
        ceiling = places[number + 1] - gap if number + 1 < len(places) else places[-1] - excess
        places[number] = min(places[number], ceiling)
    for place, (_, text, hue) in zip(places, wanted, strict=True):
        axes.annotate(
            text,
            (1, place),
            xytext=(6, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            color=hue,
            va="center",
            annotation_clip=False,
        )


def entitle(drawn: Figure, title: str) -> None:
    """Give a figure that stands alone a title."""
    with styled():
        drawn.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
        drawn.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")


def svg(drawn: Figure) -> bytes:
    """Return the figure as an SVG file."""
    buffer = io.BytesIO()
    with styled():
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def png(drawn: Figure) -> bytes:
    """Return the figure as a PNG file with twice the resolution."""
    buffer = io.BytesIO()
    with styled():
        drawn.savefig(buffer, format="png", dpi=2 * DPI)
    return buffer.getvalue()


def inline(drawn: Figure, name: str, description: str) -> str:
    """Return the figure as an SVG element with the page's colours and font; its ids begin with `name`."""
    drawn.patch.set_visible(False)
    text = svg(drawn).decode()
    drawn.patch.set_visible(True)
    text = text[text.index("<svg") :]
    for pattern, replacement in _CLEANING:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), text)  # not in words
    text = re.sub(r' id="([^"]*)"', rf' id="{name}-\1"', text)
    text = re.sub(r'(?<=[("])#(\w+)(?=[)"])', rf"#{name}-\1", text)
    for variable, value in LIGHT.items():
        text = text.replace(value, f"var(--{variable})")
    opening = f'<svg role="img" aria-label="{html.escape(description)}"'
    return re.sub(r'<svg xmlns:xlink="[^"]*" width="[^"]*" height="[^"]*"', lambda _: opening, text, count=1)
