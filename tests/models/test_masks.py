"""Channel masks against their formulas."""

from __future__ import annotations

from math import cosh

import pytest
import torch

from dytox.models.pruning import ChannelMask, compensation, steepness


def test_the_steepness_rises_evenly_within_an_epoch():
    assert [steepness(step, 5, 4.0) for step in range(5)] == [0.25, 1.1875, 2.125, 3.0625, 4.0]
    assert steepness(0, 1, 4.0) == 4.0


@pytest.mark.parametrize("s", [0.1, 1.0, 3.0])
def test_a_gradient_times_its_compensation_is_that_of_a_mask_of_steepness_1(s):
    values = torch.tensor([-2.0, -0.3, 0.0, 0.7, 2.0], dtype=torch.float64)
    mask = ChannelMask(5).double()
    mask.e.data, mask.s = values.clone(), s
    (mask() * torch.arange(5)).sum().backward()
    factor = compensation(values, s)
    by_hand = [(cosh(s * e) + 1) / (s * (cosh(e) + 1)) for e in values.tolist()]
    torch.testing.assert_close(factor, torch.tensor(by_hand, dtype=torch.float64))
    mask.compensate()
    torch.testing.assert_close(mask.e.grad, values.sigmoid() * (1 - values.sigmoid()) * torch.arange(5))
    if s == 1:
        assert torch.equal(factor, torch.ones(5, dtype=torch.float64))


def test_a_steep_mask_still_has_a_number_for_its_gradient():
    mask = ChannelMask(3)
    mask.e.data, mask.s = torch.tensor([-6.0, 0.01, 6.0]), 400.0
    mask().sum().backward()
    mask.compensate()
    assert mask.e.grad.isfinite().all()
    assert mask.e.grad[1] == pytest.approx(0.25, rel=1e-3)  # σ'(0.01), though σ'(4) is 0.018
    mask.e.data = torch.tensor([-0.1, 0.1])
    mask.e.grad = None
    mask().sum().backward()
    mask.compensate()
    torch.testing.assert_close(mask.e.grad, torch.full((2,), 0.2493760))  # σ'(0.1), at s·e = ±40
    mask.e.data = torch.tensor([-18.0, 0.03, 18.0])
    mask.clamp()
    torch.testing.assert_close(mask.e.data, torch.tensor([-6.0, 0.03, 6.0]))


def test_in_eval_mode_a_channel_stays_or_goes():
    mask = ChannelMask(3).eval()
    mask.e.data = torch.tensor([-0.1, 0.1, -2.0])
    assert mask().tolist() == [0, 1, 0]
    mask.e.data = torch.tensor([-0.2, -0.1, -2.0])
    assert mask().tolist() == [0, 1, 0]  # the strongest, where all would go
