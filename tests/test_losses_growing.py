"""The losses of PODNet and DER against numbers worked out by hand."""

from __future__ import annotations

from math import log, sqrt

import pytest
import torch

from dytox.losses import cosine_distance, nca, pod_spatial, sparsity


def test_pod_by_hand():
    student, teacher = torch.tensor([[[[1.0, -2.0], [0.0, 1.0]]]]), torch.eye(2).reshape(1, 1, 2, 2)
    # squared and pooled: rows (5, 1), columns (1, 5), of length √52; the teacher's (1, 1, 1, 1) / 2
    far = sqrt(2 - 12 / sqrt(52))
    two = [torch.cat([student, teacher]), torch.cat([teacher, teacher])]  # of two images, each
    term = pod_spatial(two, [torch.cat([teacher, teacher])] * 2)
    assert term.sum.item() == pytest.approx(far / 2)  # a mean over the maps, a sum over the images
    assert term.count == 2
    again = pod_spatial([7 * each for each in two], [7 * torch.cat([teacher, teacher])] * 2)
    assert again.sum.item() == pytest.approx(far / 2)  # scale is no matter


def test_pod_is_nothing_where_the_student_is_the_teacher():
    maps = [torch.randn(3, 4, size, size, generator=torch.Generator().manual_seed(size)) for size in (4, 2)]
    mine = [each.clone().requires_grad_() for each in maps]
    term = pod_spatial(mine, maps)
    assert term.sum.item() == 0
    gradients = torch.autograd.grad(term.sum, mine)
    assert all(torch.equal(each, torch.zeros_like(each)) for each in gradients)


def test_cosine_distance_by_hand():
    term = cosine_distance(torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[10.0, 0.0], [-2.0, 0.0]]))
    assert term.sum.item() == pytest.approx((1 - 0.6) + (1 + 1))
    assert term.count == 2


def test_nca_by_hand():
    logits = torch.tensor([[log(2), log(3), log(4)], [0.0, log(3), 0.0]])
    loss = nca(logits, torch.tensor([1, 1]))
    torch.testing.assert_close(loss, torch.tensor([log(4 / 3) + log(1 + 1 / 2 + 1), log(1 + 1 / 3 + 1 / 3)]))


def test_sparsity_by_hand():
    half = torch.tensor([0.5, 0.5])
    term = sparsity([(9, torch.ones(3), half), (1, half, torch.ones(4))])
    assert term.sum.item() == pytest.approx((27 + 4) / (54 + 8))
    assert term.count == 1


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_sparsity_of_no_and_of_all_channels(value):
    masks = [torch.full((size,), value) for size in (5, 7)]
    assert sparsity([(9, torch.ones(3), masks[0]), (9, *masks), (1, masks[1], torch.ones(2))]).sum == value
