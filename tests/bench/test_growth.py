"""What is varied, and the sums on paper that stand beside the times."""

from __future__ import annotations

import pytest
import torch

from dytox.bench.suite import of_growth
from dytox.bench.timing import Settings


def test_growth_beside_the_paper(tiny):
    """8 px, patches of 4, dim 12, two SABs: 4 patches; an image of 16 px has 16."""
    found = of_growth(tiny(), Settings((1,), 4, 2, torch.device("cpu")), lambda _: None)
    rows = {row["changed"]: row for row in found["rows"]}
    first = rows["the model as it is"]
    assert (first["measured"], first["on_paper"], first["patches"], first["batch"]) == (1, 1, 4, 4)
    assert rows["patches of 8 px"]["patches"] == rows["images of 4 px"]["patches"] == 1
    assert rows["patches of 2 px"]["patches"] == rows["images of 16 px"]["patches"] == 16
    assert [row["batch"] for name, row in rows.items() if "batches" in name] == [1, 16, 32]

    def products(n: int, patch: int, classes: int = 100) -> int:
        sabs = 2 * (12 * n * 144 + 3 * n * n * 12)
        return n * 3 * patch**2 * 12 + sabs + 2 * n * 144 + 9 * 144 + 2 * n * 12 + classes * 12

    for name, count in (
        ("1,000 classes", products(4, 4, 1000)),
        ("patches of 2 px", products(16, 2)),
        ("images of 16 px", products(16, 4)),
        ("batches of 32", products(4, 4)),
    ):
        row = rows[name]
        assert row["on_paper"] == pytest.approx(count / products(4, 4))
        each = row["evaluation"]["median"] / row["batch"]
        assert row["measured"] == pytest.approx(each / (first["evaluation"]["median"] / 4))
