"""Numbers as people read them."""

from __future__ import annotations

NONE = "–"


def percent(value: float | None, digits: int = 1) -> str:
    """An accuracy; a dash where there is none."""
    return NONE if value is None else f"{value:.{digits}f}"


def mean_std(mean: float | None, std: float | None, digits: int = 1) -> str:
    """`mean ± std`, or the mean alone."""
    return percent(mean, digits) + ("" if mean is None or std is None else f" ± {std:.{digits}f}")


def spread(value: tuple[float, float | None] | None, digits: int = 2) -> str:
    """A mean with its deviation, in the digits of the paper's tables; a dash where there is none."""
    mean, std = value or (None, None)
    return mean_std(mean, std, digits)


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, in two or three digits."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min" if seconds >= 600 else f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def millions(count: int) -> str:
    """Parameters, as in the paper's tables."""
    return f"{count / 1e6:.2f} M"


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`, `2 classes`."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"


def printable(text: str) -> str:
    """Text without characters that no picture and no page can hold."""
    return "".join(each if each.isprintable() else "�" for each in text)
