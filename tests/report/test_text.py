"""Numbers as people read them."""

from __future__ import annotations

import pytest

from dytox.report import text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2.0 min"), (849, "14 min"), (7200, "2.0 h"), (90_000, "25.0 h")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown


def test_figures() -> None:
    assert text.percent(None) == "–"
    assert text.percent(51.68) == "51.7"
    assert text.spread((67.33, None)) == "67.33"
    assert text.spread((67.333, 0.2)) == "67.33 ± 0.20"
    assert text.spread(None) == "–"
    assert text.millions(10_733_584) == "10.73 M"
    assert (text.plural(1, "class"), text.plural(2, "class")) == ("1 class", "2 classes")
    assert text.plural(2000, "image") == "2,000 images"
    assert text.printable("a\x00b") == "a�b"
