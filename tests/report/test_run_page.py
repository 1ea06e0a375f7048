"""The page of a run, as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made import make_run

from dytox.published.comparable import compare
from dytox.report import page, sections, style
from dytox.report.record import read_record
from dytox.report.run_page import render_run

LARGEST = 3_000_000  # bytes of any page

NASTY = ["<script>alert(1)</script>", "&amp;", '"><img src=x onerror=alert(1)>', "'; $x^2$"]


class Reader(HTMLParser):
    """Tags, what they point to, and whether all were closed."""

    VOID = ("meta", "link", "br", "img", "image", "use", "path", "rect")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href", "action", "data"):
                self.targets.append(value or "")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check(text: str) -> Reader:
    """Nothing that runs, nothing that is fetched, nothing twice, nothing left open."""
    found = Reader(text)
    assert found.open == []
    assert not {"script", "iframe", "object", "embed", "base", "form"} & set(found.tags)
    assert all(each.startswith(("data:image/png;base64,", "data:,", "#")) for each in found.targets)
    assert {each[1:] for each in found.targets if each.startswith("#")} <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(found.ids)
    assert "@import" not in text
    assert set(re.findall(r"var\(--(\w+)\)", text)) <= set(style.LIGHT)
    assert len(text.encode()) < LARGEST
    return found


@pytest.fixture(scope="module")
def page_of_five(five: Path) -> str:
    return render_run(read_record(five))


@pytest.fixture(scope="module")
def page_of_ten(ten: Path) -> str:
    return render_run(read_record(ten))


def test_a_page_has_everything(page_of_five: str) -> None:
    text = page_of_five
    found = check(text)
    for heading in (
        "DyTox on digits",
        "Accuracy after each step",
        "Accuracy matrix",
        "Forgetting",
        "Losses and learning rate",
        "Confusion between tasks",
        "Most frequent mistakes",
        "Where the task tokens look",
        "Distances between task tokens",
        "Parameters and time",
        "In numbers",
        "How it was made",
    ):
        assert f">{heading}</h" in text
    for word in (
        "finished",
        "Avg top-1",
        "Last top-1",
        "Resolved config",
        "patch_size: 2",
        "torch",
        "clf",
        "kd",
    ):
        assert word in found.text
    assert "The paper has no figures for this setting." in found.text
    assert (
        "The paper computed forgetting by another formula, so its figures cannot be compared." in found.text
    )


def test_the_figures_are_the_runs(five: Path, page_of_five: str) -> None:
    record = read_record(five)
    assert record.metrics is not None
    text = check(page_of_five).text
    assert f"{record.metrics['avg_top1']:.1f} %" in text
    assert f"{record.metrics['last_top1']:.1f} %" in text
    assert f"{record.steps[-1]['parameters']:,}" in text
    assert all(f"{step['top1']:.1f}" in text for step in record.steps)


def test_beside_the_published_figures(ten: Path, page_of_ten: str) -> None:
    record = read_record(ten)
    assert record.metrics is not None
    text = check(page_of_ten).text
    assert "the erratum's global setting" in text
    gap = record.metrics["avg_top1"] - 67.33
    assert f"Difference to the published DyTox (global memory): Avg {gap:+.2f} points" in text
    assert "published Last 51.7" in text
    assert "published Avg 67.3" in text
    assert "33.15" not in text  # the published forgetting, of another formula


def test_the_published_joint_resnet_is_an_average_over_steps(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", recipe="cifar100-10", method="joint-resnet", tasks=10, classes=100)
    record = read_record(run)
    assert record.metrics is not None
    text = Reader(sections.accuracy_section(record, compare(record.config))).text
    gap = record.metrics["avg_top1"] - 80.41
    assert f"Difference to the published ResNet18 joint (all memory): Avg {gap:+.2f} points." in text
    assert "compare it with Avg" in text
    assert "published Last 80.4" not in text
    assert "published Avg 80.4" in text


def test_the_distributed_memory_has_its_own_figures(tmp_path: Path) -> None:
    overrides = ["memory.shares=2"]
    run = make_run(tmp_path / "run", recipe="cifar100-10", tasks=10, classes=100, overrides=overrides)
    record = read_record(run)
    text = Reader(sections.accuracy_section(record, compare(record.config))).text
    assert "the erratum's distributed setting" in text
    assert "published Last 57.8" in text


def test_a_part_of_a_run_is_not_compared(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", recipe="cifar100-10", tasks=3, classes=30, killed=True)
    text = check(render_run(read_record(run))).text
    assert "Only 3 of 10 steps have been learned" in text
    assert "Difference to the published" not in text
    assert "not finished" in text
    assert f"continue it with dytox resume {run}" in text
    assert "running" in check(render_run(read_record(run), running=True)).text


def test_names_stay_text(tmp_path: Path) -> None:
    text = render_run(read_record(make_run(tmp_path / "<b>run", tasks=2, classes=4, names=NASTY)))
    found = check(text)
    assert "img" not in found.tags
    assert all(name in found.text for name in NASTY)
    assert "<b>run" in found.text


def test_one_task(tmp_path: Path) -> None:
    text = check(render_run(read_record(make_run(tmp_path / "run", tasks=1, classes=2)))).text
    assert "Shown from the second task on." in text
    assert "Forgetting" not in text.replace("Accuracy matrix, forgetting", "")


def test_nothing_learned_yet(tmp_path: Path) -> None:
    text = check(render_run(read_record(make_run(tmp_path / "run", tasks=0, killed=True)))).text
    assert "No task has been learned yet" in text
    assert "Losses and learning rate" in text


def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", tasks=2, classes=4, nan=True)
    text = render_run(read_record(run))
    assert "In 3 epochs a loss was not a finite number" in check(text).text
    assert "NaN" not in text
    assert "nan" not in re.sub(r"base64,[\w+/=]*", "", text)


def test_a_method_without_tokens(tmp_path: Path) -> None:
    text = check(render_run(read_record(make_run(tmp_path / "run", method="finetune", tokens=False)))).text
    assert "Where the task tokens look" not in text
    assert "Distances" not in text
    assert "Parameters and time" not in text  # a section each


@pytest.mark.parametrize(("tasks", "classes", "size"), [(50, 100, 32), (10, 1000, 224)])
def test_large_runs_stay_small(tmp_path: Path, tasks: int, classes: int, size: int) -> None:
    run = make_run(tmp_path / "run", tasks=tasks, classes=classes, image_size=size, epochs=30)
    text = render_run(read_record(run))
    check(text)
    assert len(text.encode()) < LARGEST / 2


def test_a_page_is_the_same_each_time(five: Path, page_of_five: str) -> None:
    assert render_run(read_record(five)) == page_of_five


def test_the_policy_forbids_what_is_not_in_the_page() -> None:
    text = page.document("x", "")
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in text
    assert "prefers-color-scheme: dark" in text
    assert set(style.LIGHT) == set(style.DARK)
