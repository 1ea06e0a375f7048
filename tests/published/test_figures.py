"""The published figures, against the paper's own tables."""

from __future__ import annotations

import pytest

from dytox.errors import UserError
from dytox.published import figures
from dytox.published.figures import MEMORIES, PublishedResult
from dytox.published.layout import Table
from dytox.published.tables import PRINTED, find_table


def table(name: str) -> Table:
    """A table as `dytox paper` prints it."""
    return find_table(name).as_published()


def find(dataset: str, steps: int, method: str, memory: str) -> PublishedResult:
    (row,) = [row for row in figures.rows(dataset, steps) if (row.method, row.memory) == (method, memory)]
    return row


@pytest.mark.parametrize(
    ("dataset", "steps", "method", "memory", "figures"),
    [
        ("cifar100", 10, "DyTox", "global", (67.33, 51.68)),
        ("cifar100", 20, "DyTox", "distributed", (68.86, 51.47)),
        ("cifar100", 50, "DyTox", "original", (70.20, 52.34)),
        ("cifar100", 50, "DyTox+", "rerun", (74.16, 59.10)),
        ("cifar100", 10, "WA", "global", (69.46, 53.78)),
        ("cifar100", 20, "Transformer joint", "all", (None, 76.12)),
        ("imagenet100", 10, "DyTox+", "global", (77.62, 65.94)),
        ("imagenet1000", 10, "DyTox+", "distributed", (70.88, 60.00)),
    ],
)
def test_rows_are_the_papers(
    dataset: str, steps: int, method: str, memory: str, figures: tuple[float | None, float]
) -> None:
    row = find(dataset, steps, method, memory)
    assert (row.avg, row.last) == figures


def test_a_row_has_what_the_paper_prints_beside_the_figures() -> None:
    row = find("cifar100", 10, "DyTox", "original")
    assert (row.params_m, row.avg_std, row.last_std) == (10.73, 0.02, 0.34)
    row = find("imagenet100", 10, "DyTox", "global")
    assert (row.top5_avg, row.top5_last) == (90.72, 83.52)


def test_what_the_paper_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match="Unknown dataset of the paper 'digits'"):
        figures.rows("digits", 10)
    with pytest.raises(UserError, match="Unknown number of steps on imagenet100 '50'"):
        figures.rows("imagenet100", 50)
    with pytest.raises(UserError, match="Unknown table 'ablations': did you mean 'ablation'"):
        table("ablations")


def test_rpsnet_stands_only_where_the_paper_has_it() -> None:
    assert "RPSNet" in [row.method for row in figures.rows("cifar100", 10)]
    assert "RPSNet" not in [row.method for row in figures.rows("cifar100", 20)]
    wide = table("cifar100")
    row = next(row for row in wide.rows if row[0] == "RPSNet")
    assert row[2:] == [56.5, 68.6, 57.05, *[None] * 6]


@pytest.mark.parametrize("name", PRINTED)
def test_every_table_is_rectangular(name: str) -> None:
    found = table(name)
    assert found.name == name
    assert found.rows
    assert {len(row) for row in found.rows} == {len(found.columns)}
    assert found.keys > 0


def test_tables_say_which_memory_and_whose_forgetting() -> None:
    for name in ("cifar100", "imagenet100", "imagenet1000"):
        found = table(name)
        assert {row[1] for row in found.rows} <= set(MEMORIES)
        assert any("own memory setting" in note for note in found.notes)
    for name in ("training", "patch-size"):
        assert any("not what dytox prints as forgetting" in note for note in table(name).notes)
    assert table("ablation").rows[-1] == ["✓", "✓", "✓", "✓", "✓", 70.2, 52.34]
