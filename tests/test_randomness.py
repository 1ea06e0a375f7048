"""Randomness is a function of position."""

from __future__ import annotations

import pytest
import torch

from dytox.randomness import Position, generator, seed_of, seeded

HERE = Position(task=1, phase=2, epoch=3, step=4)


def test_seeds_are_the_same_everywhere():
    """Another number here would end the exact resume of older runs."""
    assert seed_of(0, Position(), "order") == 1837686351722115161
    assert seed_of(3, HERE, "augment") == 812093315505960821


def test_every_part_of_the_position_counts():
    seeds = {seed_of(0, HERE, "order"), seed_of(1, HERE, "order"), seed_of(0, HERE, "augment")}
    for other in (
        Position(0, 2, 3, 4),
        Position(1, 0, 3, 4),
        Position(1, 2, 0, 4),
        Position(1, 2, 3, 0),
        Position(2, 1, 3, 4),  # the same numbers in another order
        Position(1, 2, 34, 0),
        Position(1, 23, 4, 0),
    ):
        seeds.add(seed_of(0, other, "order"))
    assert len(seeds) == 10


def test_seeds_fit_a_generator():
    seeds = [seed_of(0, Position(step=step), "order") for step in range(1000)]
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**62  # all bits are used


def test_a_generator_knows_nothing_of_earlier_draws():
    first = generator(0, HERE, "order")
    torch.rand(10, generator=first)
    torch.rand(10)
    again = [torch.rand(5, generator=generator(0, HERE, "order")) for _ in range(2)]
    assert torch.equal(*again)
    assert not torch.equal(again[0], torch.rand(5, generator=generator(0, HERE, "repeats")))


def test_seeded_stands_at_a_position_and_leaves_no_trace():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with seeded(0, HERE, "expand"):
        inside = torch.randn(4)
        with seeded(0, Position(), "model"):
            torch.randn(4)
        after_inner = torch.randn(4)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    with seeded(0, HERE, "expand"):
        assert torch.equal(torch.randn(4), inside)
        assert torch.equal(torch.randn(4), after_inner)
    with seeded(1, HERE, "expand"):
        assert not torch.equal(torch.randn(4), inside)


def test_seeded_leaves_no_trace_of_a_failure_either():
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="shape"), seeded(0, HERE, "expand"):
        torch.randn(4).add_(torch.randn(4, 4))
    assert torch.equal(torch.get_rng_state(), before)


def test_positions_come_one_after_the_other():
    in_order = [
        Position(),
        Position(step=1),
        Position(epoch=1),
        Position(phase=1),
        Position(1),
        Position(1, 0, 0, 1),
    ]
    mixed = [in_order[place] for place in (3, 5, 0, 4, 1, 2)]
    assert sorted(mixed) == in_order
