"""The parts of a pass are those of the model, with their operations and bytes counted by hand."""

from __future__ import annotations

import pytest
import torch

from dytox.bench import timing
from dytox.bench.parts import of_parts, parts_of
from dytox.bench.steps import Ours, grown, some_batch
from dytox.bench.timing import Settings

CPU = torch.device("cpu")


def test_parts_count_what_the_pass_computes(tiny):
    """Two SABs of dim 12, 4 patches, a batch of 3: all products together are those of the pass."""
    config = tiny()
    method = grown(Ours, config, 1, CPU).eval()
    with torch.no_grad():
        parts = parts_of(method, some_batch(method, 3).images)
        for part in parts.values():
            part.work()
    assert sum(part.times * part.operations for part in parts.values()) == 3 * timing.operations(config, 1)
    values = 3 * 4 * 12 * 4  # bytes of the patches of a batch
    moved = {name: (part.times, part.moved / values) for name, part in parts.items() if part.moved}
    assert moved == {
        "values, head by head": (2, 2),
        "gate": (2, 3),
        "GELU": (2, 8),
        "norms": (4, 2),
        "residual sums": (4, 3),
    }


def test_shares_and_bounds(tiny):
    found = of_parts(tiny(), Settings((1,), 4, 2, CPU), lambda _: None)
    assert sum(row["share"] for row in found["rows"]) + found["rest"] == pytest.approx(1)
    rows = {row["part"]: row for row in found["rows"]}
    for row in rows.values():
        assert row["share"] == pytest.approx(row["seconds"] / found["evaluation"]["median"])
        assert row["of_bound"] == pytest.approx(row["bound"] / row["seconds"])
    position, gelu = rows["attention by position"], rows["GELU"]
    assert (position["bounded_by"], gelu["bounded_by"]) == ("products", "copying")
    # a batch of 4, 4 patches, dim 12, two SABs: 2 B N² d operations each; read and written 2 · 4 B N 4d bytes
    assert position["bound"] == pytest.approx(2 * 2 * 4 * 16 * 12 / found["products_per_second"])
    assert gelu["bound"] == pytest.approx(2 * 2 * 4 * 4 * 4 * 48 / found["bytes_per_second"])
