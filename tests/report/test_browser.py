"""The pages in a browser: light and dark, on a desk and on a telephone."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Browser
from made import make_run

from dytox.report import comparison_page, run_page
from dytox.report.record import group, read_record

BACKGROUND = {False: "rgb(245, 246, 248)", True: "rgb(20, 23, 27)"}
LONG = ["a_class_with_a_name_that_no_telephone_could_ever_show_in_one_line" * 2, "<script>alert(1)</script>"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    runs = {
        "five": make_run(folder / "five"),
        "fifty": make_run(folder / "fifty", recipe="cifar100-50", tasks=50, classes=100, image_size=32),
        "names": make_run(folder / ("x" * 120), tasks=1, classes=2, names=LONG),
        "nothing": make_run(folder / "nothing", tasks=0, killed=True),
    }
    found = {}
    for name, run in runs.items():
        found[name] = folder / f"{name}.html"
        run_page.write_run_page(read_record(run), found[name])
    methods = [
        make_run(folder / f"of-{method}", method=method)
        for method in ("dytox", "replay", "finetune", "joint")
    ]
    found["comparison"] = folder / "comparison.html"
    comparison_page.write_comparison(
        group([read_record(path) for path in [*methods, runs["fifty"]]]), found["comparison"]
    )
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", ["five", "fifty", "names", "nothing", "comparison"])
def test_a_page_opens(browser: Browser, pages: dict[str, Path], name: str, width: int, dark: bool) -> None:
    found = browser.visit(pages[name], width=width, dark=dark)
    assert found.messages == []
    assert found.requests == []
    assert found.overflowing == []
    assert found.width <= width
    assert found.background == BACKGROUND[dark]


def test_the_telephone_gets_its_own_curves(browser: Browser, pages: dict[str, Path]) -> None:
    shown = "[...document.querySelectorAll('figure.{}')].some(each => each.offsetWidth > 0)"
    for width, wide in ((1200, True), (360, False)):
        browser.visit(pages["five"], width=width, dark=False)
        assert browser.value(shown.format("wide")) is wide
        assert browser.value(shown.format("narrow")) is not wide


def test_a_figure_can_be_read_on_a_telephone(browser: Browser, pages: dict[str, Path]) -> None:
    browser.visit(pages["five"], width=360, dark=False)
    smallest = browser.value(
        "Math.min(...[...document.querySelectorAll('figure svg')].filter(e => e.clientWidth)"
        ".map(e => e.clientWidth / e.viewBox.baseVal.width * 9.5))"
    )
    assert smallest > 8  # pixels of a letter's height


def test_the_browser_would_tell(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<body><div style='width:3000px'>x</div><img src='http://localhost:9/x.png'>"
        "<script>console.error('oh')</script></body>"
    )
    found = browser.visit(page, width=360, dark=False)
    assert found.width >= 3000
    assert found.overflowing == ["DIV."]
    assert found.requests == ["http://localhost:9/x.png"]
    assert any("oh" in message for message in found.messages)
