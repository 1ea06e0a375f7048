"""Several runs: groups, tables, exports, page."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from made import make_run

from dytox.report import charts, comparison_page, results
from dytox.report.record import Group, group, read_record
from dytox.report.style import colour
from dytox.text import with_deviation


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> list[Group]:
    """Three orders of DyTox and one run each of two other methods."""
    folder = tmp_path_factory.mktemp("several")
    common = {"recipe": "cifar100-10", "tasks": 10, "classes": 100}
    paths = [
        make_run(folder / f"dytox-{order}", overrides=[f"scenario.order={order}", f"seed={order}"], **common)
        for order in (1, 2, 3)
    ]
    paths.append(make_run(folder / "replay", method="replay", better=-20, **common))
    paths.append(make_run(folder / "finetune", method="finetune", better=-50, **common))
    return group([read_record(path) for path in paths])


def test_orders_and_seeds_make_one_group(several: list[Group]) -> None:
    assert [(each.label, len(each.records)) for each in several] == [
        ("DyTox", 3),
        ("replay", 1),
        ("finetune", 1),
    ]
    assert {each.scenario for each in several} == {"CIFAR-100 in 10 steps"}
    values = [(record.metrics or {})["avg_top1"] for record in several[0].records]
    found = several[0].spread("avg_top1")
    assert found is not None
    mean, std = found
    assert mean == pytest.approx(sum(values) / 3)
    assert std == pytest.approx((sum((value - mean) ** 2 for value in values) / 2) ** 0.5)
    assert several[1].spread("avg_top1") == ((several[1].records[0].metrics or {})["avg_top1"], None)


def test_ablations_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    changes = [[], ["method.divergence=0.0"], ["training.epochs=50"], ["method.temperature=2.0"]]
    paths = [make_run(tmp_path / f"run-{place}", overrides=each) for place, each in enumerate(changes)]
    found = group([read_record(path) for path in paths])
    assert [each.label for each in found] == [
        "DyTox (method.temperature 1.0, training.epochs 100)",
        "DyTox w/o divergence",
        "DyTox (method.temperature 1.0, training.epochs 50)",
        "DyTox (method.temperature 2.0, training.epochs 100)",
    ]
    table = results.collect(found)
    assert set(table.settings) == {"method.divergence", "training.epochs", "method.temperature"}
    assert set(table.heads) == {"divergence", "epochs", "temperature"}
    assert "| epochs |" in results.to_markdown(table)


def test_switches_are_ticks(tmp_path: Path) -> None:
    changes = [[], ["method.finetuning=false"]]
    paths = [make_run(tmp_path / f"run-{place}", overrides=each) for place, each in enumerate(changes)]
    lines = results.collect(group([read_record(path) for path in paths])).lines
    assert [line.settings for line in lines] == [["✓"], [""]]


def test_a_run_that_is_behind_does_not_count(tmp_path: Path) -> None:
    paths = [
        make_run(tmp_path / "whole", overrides=["seed=1"]),
        make_run(tmp_path / "half", tasks=2, classes=4, killed=True),
        make_run(tmp_path / "other", method="replay", tasks=3, classes=6, killed=True),
    ]
    found = group([read_record(path) for path in paths])
    assert [record.name for record in found[0].records] == ["whole"]
    notes = results.collect(found).notes
    assert "half has learned only 2 tasks and is left out." in notes
    assert "replay has learned 3 of 5 tasks, so its figures are not final." in notes


def test_scenarios_have_names(tmp_path: Path) -> None:
    names = {
        "digits in 5 steps": ("digits", []),
        "digits, 4 classes in 2 steps": ("digits", ["scenario.classes=4"]),
        "digits, 4 classes first, in 4 steps": ("digits", ["scenario.first=4"]),
        "digits in 2 steps": ("digits", ["scenario.increments=[7, 3]"]),
        "digits, jointly": ("digits", ["scenario.joint=true"]),
        "folder, 2 classes a step": ("digits", ["data.dataset=folder"]),
        "CIFAR-100 in 50 steps": ("cifar100-50", []),
    }
    for place, (name, (recipe, overrides)) in enumerate(names.items()):
        run = make_run(tmp_path / str(place), recipe=recipe, overrides=overrides, tasks=1, classes=2)
        assert group([read_record(run)])[0].scenario == name


def test_the_table_has_the_papers_form(several: list[Group]) -> None:
    table = results.collect(several)
    assert list(table.columns.values()) == ["#P", "Avg", "Last", "Forgetting"]
    own = [line for line in table.lines if not line.published]
    assert [(line.label, line.memory) for line in own] == [
        ("DyTox", "global"),
        ("replay", "global"),
        ("finetune", "none"),
    ]
    published = {(line.label, line.memory): line for line in table.lines if line.published}
    assert published["DyTox", "global"].figures["CIFAR-100 in 10 steps"]["avg_top1"] == (67.33, None)
    assert ("DyTox", "original") not in published
    assert all("forgetting" not in line.figures["CIFAR-100 in 10 steps"] for line in published.values())
    assert any("global setting" in note for note in table.notes)


def test_csv(several: list[Group]) -> None:
    rows = list(csv.DictReader(io.StringIO(results.to_csv(results.collect(several)))))
    first = rows[0]
    assert (first["scenario"], first["method"], first["source"], first["runs"]) == (
        "CIFAR-100 in 10 steps",
        "DyTox",
        "run",
        "3",
    )
    found = several[0].spread("last_top1")
    assert found is not None
    assert (float(first["last_top1"]), float(first["last_top1_std"])) == pytest.approx(found, abs=1e-4)
    assert rows[1]["avg_top1_std"] == ""
    assert {row["source"] for row in rows} == {"run", "published"}


def test_markdown(several: list[Group]) -> None:
    text = results.to_markdown(results.collect(several))
    lines = text.splitlines()
    assert lines[0] == "CIFAR-100 in 10 steps"
    assert lines[2] == "| Method | Memory | #P | Avg | Last | Forgetting |"
    assert lines[4].startswith(
        f"| DyTox | global | 10.73 | {with_deviation(*(several[0].spread('avg_top1') or (None, None)))} |"
    )
    assert "| WA, published | global | 11.22 | 69.46 ± 0.29 | 53.78 | – |" in lines


def test_latex(several: list[Group]) -> None:
    text = results.to_latex(results.collect(several))
    assert text.startswith("\\begin{tabular}{llrrrr}\n\\toprule\n")
    assert "\\multicolumn{4}{c}{CIFAR-100 in 10 steps} \\\\\n\\cmidrule(lr){3-6}\n" in text
    assert "WA, published & global & 11.22 & 69.46 $\\pm$ 0.29 & 53.78 & -- \\\\" in text
    assert text.count("\\midrule") == 2
    columns = {
        line.count(" & ") for line in text.splitlines() if line.endswith("\\\\") and "multicolumn" not in line
    }
    assert columns == {5}


def test_names_of_runs_stay_text_in_every_export(tmp_path: Path) -> None:
    changes = [f"training.epochs={place + 50}" for place in range(2)]
    more = ["training.lr=1e-5", "model.dim=96", "memory.size=77"]
    paths = [
        make_run(tmp_path / name, overrides=[change, *more[place:]])
        for place, (name, change) in enumerate(zip(["=1+1|`<b>`", "a_b%\\n[c]"], changes, strict=True))
    ]
    found = group([read_record(path) for path in paths])
    found = [replace(each, label=each.records[0].name) for each in found]
    table = results.collect(found)
    rows = list(csv.DictReader(io.StringIO(results.to_csv(table))))
    assert [row["method"] for row in rows] == ["'=1+1|`<b>`", "a_b%\\n[c]"]
    assert "| =1+1\\|\\`&lt;b&gt;\\` |" in results.to_markdown(table)
    assert "a\\_b\\%\\textbackslash{}n{[}c{]} & " in results.to_latex(table)


def test_one_colour_a_method_in_every_scenario(tmp_path: Path) -> None:
    paths = [
        make_run(tmp_path / "a", method="dytox"),
        make_run(tmp_path / "b", method="replay"),
        make_run(tmp_path / "c", method="replay", overrides=["scenario.classes=4"], tasks=2, classes=4),
    ]
    found = group([read_record(path) for path in paths])
    panels = comparison_page.panels(found)
    assert [len(panel) for panel in panels] == [2, 1]
    drawn = charts.comparison_curves(panels, 900)
    second = drawn.axes[1].get_lines()[0].get_color()
    assert second == drawn.axes[0].get_lines()[1].get_color() == colour(1)


def test_the_page_links_to_the_runs_pages(several: list[Group], tmp_path: Path) -> None:
    record = several[0].records[0]
    (record.path / "report.html").write_text("")
    text = comparison_page.render_comparison(several, record.path.parent)
    assert '<a href="dytox-1/report.html">dytox-1</a>' in text
    assert "3 methods side by side" in text
    assert "±" in text
    assert "What differs" in text
    assert len(text.encode()) < 3_000_000
