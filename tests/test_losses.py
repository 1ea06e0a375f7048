"""The losses against numbers worked out by hand."""

from __future__ import annotations

import dataclasses
from math import exp, log

import pytest
import torch

from dytox.data.loader import Batch, mixed
from dytox.losses import Term, classification, distillation, divergence_targets, probabilities

LN2, LN3 = log(2), log(3)  # σ(0) = 1/2, σ(ln 3) = 3/4; softmax(0, ln 3) = (1/4, 3/4)


def test_binary_cross_entropy_by_hand():
    logits = torch.tensor([[0.0, LN3, -LN3], [LN3, LN3, 0.0]])
    targets = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.5, 0.0]])
    right, wrong = log(4 / 3), log(4)  # -ln 3/4, -ln 1/4
    term = classification(logits, targets, "sigmoid")
    assert term.sum.item() == pytest.approx((LN2 + right + right) + (wrong + (right + wrong) / 2 + LN2))
    assert term.count == 6  # batch × classes
    assert term.weight == 1.0


def test_cross_entropy_by_hand():
    logits = torch.tensor([[0.0, LN3], [5.0, 5.0]])
    targets = torch.tensor([[0.2, 0.8], [1.0, 0.0]])
    term = classification(logits, targets, "softmax")
    assert term.sum.item() == pytest.approx(0.2 * log(4) + 0.8 * log(4 / 3) + LN2)
    assert term.count == 2  # the batch


def test_classification_gradients_by_hand():
    logits = torch.tensor([[0.0, LN3]], requires_grad=True)
    targets = torch.tensor([[1.0, 0.0]])
    (gradient,) = torch.autograd.grad(classification(logits, targets, "sigmoid").sum, logits)
    torch.testing.assert_close(gradient, torch.tensor([[-0.5, 0.75]]))  # σ(z) - y
    (gradient,) = torch.autograd.grad(classification(logits, targets, "softmax").sum, logits)
    torch.testing.assert_close(gradient, torch.tensor([[-0.75, 0.75]]))  # softmax(z) - y


def test_distillation_by_hand():
    student = torch.tensor([[0.0, LN3], [1.0, 1.0]], requires_grad=True)
    teacher = torch.tensor([[2.0, 2.0], [3.0, 3.0]])
    term = distillation(student, teacher)
    assert term.sum.item() == pytest.approx(0.5 * LN2 + 0.5 * log(2 / 3))  # KL((½, ½) ‖ (¼, ¾)), then 0
    assert term.count == 4  # batch × old classes
    (gradient,) = torch.autograd.grad(term.sum, student)
    torch.testing.assert_close(gradient, torch.tensor([[-0.25, 0.25], [0.0, 0.0]]))


def test_distillation_is_not_symmetric():
    term = distillation(torch.tensor([[2.0, 2.0]]), torch.tensor([[0.0, LN3]]))
    assert term.sum.item() == pytest.approx(0.25 * log(1 / 2) + 0.75 * log(3 / 2))  # KL((¼, ¾) ‖ (½, ½))


def test_distillation_at_a_temperature():
    student, teacher = torch.tensor([[0.0, 2 * LN3]]), torch.tensor([[4.0, 4.0]])
    assert distillation(student, teacher, 2.0).sum.item() == pytest.approx(0.5 * LN2 + 0.5 * log(2 / 3))


def test_a_student_equal_to_its_teacher_has_neither_loss_nor_gradient():
    teacher = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)) * 4
    student = teacher.clone().requires_grad_()
    term = distillation(student, teacher)
    (gradient,) = torch.autograd.grad(term.sum, student)
    assert term.sum.item() == 0.0
    torch.testing.assert_close(gradient, torch.zeros(5, 7), atol=1e-6, rtol=0)


def test_a_certain_teacher_gives_a_number():
    student = torch.tensor([[0.0, 0.0]], requires_grad=True)
    term = distillation(student, torch.tensor([[1000.0, -1000.0]]))
    assert term.sum.item() == pytest.approx(LN2)
    (gradient,) = torch.autograd.grad(term.sum, student)
    torch.testing.assert_close(gradient, torch.tensor([[-0.5, 0.5]]))


def test_divergence_targets_by_hand():
    """0 = any old class, 1 = the first new one."""
    targets = torch.eye(5)  # three old classes, two new
    expected = torch.tensor([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert torch.equal(divergence_targets(targets, 3), expected.float())


def test_divergence_targets_sum_the_mass_of_the_old_classes():
    targets = torch.tensor([[0.3, 0.7, 0.0, 0.0], [0.0, 0.6, 0.0, 0.4], [0.025, 0.025, 0.925, 0.025]])
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.0, 0.4], [0.05, 0.925, 0.025]])
    torch.testing.assert_close(divergence_targets(targets, 2), expected)


def test_targets():
    batch = Batch.plain(torch.zeros(2, 3, 4, 4), torch.tensor([2, 0]))
    assert torch.equal(batch.targets(4), torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0]]).float())
    smooth = batch.targets(4, smoothing=0.1)
    torch.testing.assert_close(
        smooth, torch.tensor([[0.025, 0.025, 0.925, 0.025], [0.925, 0.025, 0.025, 0.025]])
    )


def test_targets_take_the_type_of_the_images():
    batch = Batch.plain(torch.zeros(1, 3, 4, 4, dtype=torch.float64), torch.tensor([1]))
    assert batch.targets(2).dtype == torch.float64


def test_mixup_targets_by_hand():
    images = torch.arange(5.0).view(5, 1, 1, 1).expand(5, 3, 2, 2)
    batch = mixed(Batch.plain(images, torch.tensor([0, 1, 2, 2, 1])), 0.75)
    expected = [[0.75, 0.25, 0], [0.25, 0.75, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]]
    torch.testing.assert_close(batch.targets(3), torch.tensor(expected))
    torch.testing.assert_close(batch.images[:, 0, 0, 0], torch.tensor([0.25, 0.75, 2.25, 2.75, 4.0]))
    smooth = batch.targets(3, smoothing=0.3)
    torch.testing.assert_close(smooth[0], torch.tensor([0.7 * 0.75 + 0.1, 0.7 * 0.25 + 0.1, 0.1]))
    torch.testing.assert_close(smooth.sum(dim=1), torch.ones(5))


def test_probabilities_by_hand():
    logits = torch.tensor([[0.0, LN3]])
    torch.testing.assert_close(probabilities(logits, "sigmoid"), torch.tensor([[0.5, 0.75]]))
    torch.testing.assert_close(probabilities(logits, "softmax"), torch.tensor([[0.25, 0.75]]))


def test_probabilities_fit_their_loss():
    """-ln of the probability of the right class is the loss: both take the logits for the same thing."""
    logits, targets = torch.tensor([[0.3, -1.2, 2.0]]), torch.tensor([[0.0, 1.0, 0.0]])
    loss = classification(logits, targets, "softmax").sum
    assert probabilities(logits, "softmax")[0, 1].item() == pytest.approx(exp(-loss.item()))
    p = probabilities(logits, "sigmoid")[0]
    loss = classification(logits, targets, "sigmoid").sum
    assert ((1 - p[0]) * p[1] * (1 - p[2])).item() == pytest.approx(exp(-loss.item()))


def test_a_weight_changes_nothing_else():
    term = Term(torch.tensor(3.0), 4)
    half = term.weighted(0.5)
    assert (half.sum, half.count, half.weight) == (term.sum, 4, 0.5)
    assert term.weight == 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        term.weight = 2.0
