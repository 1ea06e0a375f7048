"""Numbers as people read them, and hostile names in CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io

import pytest

from dytox import text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2.0 min"), (849, "14 min"), (7200, "2.0 h"), (90_000, "25.0 h")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert text.short_duration(seconds) == shown


def test_figures() -> None:
    assert text.number_text(None) == "–"
    assert text.number_text(51.68) == "51.7"
    assert text.with_deviation(*(67.33, None)) == "67.33"
    assert text.with_deviation(*(67.333, 0.2)) == "67.33 ± 0.20"
    assert text.with_deviation(None, None) == "–"
    assert text.millions(10_733_584) == "10.73 M"
    assert (text.plural(1, "class"), text.plural(2, "class")) == ("1 class", "2 classes")
    assert text.plural(2000, "image") == "2,000 images"
    assert text.printable("a\x00b") == "a�b"


HOSTILE = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_cell_of_a_csv_file_is_a_formula(name: str) -> None:
    (row,) = csv.reader(io.StringIO(text.csv_line([name, "tulip", 3]), newline=""))
    assert row == [f"'{name}", "tulip", "3"]


def test_numbers_and_a_lone_sign_stay_as_they_are_in_csv() -> None:
    assert text.csv_line([-1.5, "-1.5000", "+2", "-", "a-b", ""]) == "-1.5,-1.5000,+2,-,a-b,\n"
    assert text.csv_line(['say "x", y\nz']) == '"say ""x"", y\nz"\n'


def test_markdown_shows_a_name_as_it_is() -> None:
    assert text.markdown("a|b `c` [d](e) <img src=x> **f** __g__ &lt; \\") == (
        r"a\|b \`c\` \[d\](e) &lt;img src=x&gt; \*\*f\*\* \_\_g\_\_ &amp;lt; \\"
    )
    assert text.markdown("two\nlines") == "two�lines"


def test_latex_sees_no_command_in_a_name() -> None:
    assert text.latex(r"50% of a_b & {c}\d #1 $x^2~") == (
        r"50\% of a\_b \& \{c\}\textbackslash{}d \#1 \$x\textasciicircum{}2\textasciitilde{}"
    )
    assert text.latex("[1ex] <x>|*\nend") == r"{[}1ex{]} \textless{}x\textgreater{}\textbar{}{*}�end"
