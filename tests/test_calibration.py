"""Temperature and threshold against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from dytox.calibration import confidences, temperature, threshold
from dytox.data.datasets import hold_out
from dytox.data.samples import Samples
from dytox.errors import UserError


def test_of_softmax_scores_it_is_temperature_scaling() -> None:
    logits = torch.randn(7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = confidences(logits.softmax(dim=1), 2.5)
    torch.testing.assert_close(found, (logits / 2.5).softmax(dim=1))


def test_scores_of_nothing_are_confidences_still() -> None:
    found = confidences(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), 1.0)
    assert found[0].tolist() == [0.5, 0.5]
    assert found[1].tolist() == pytest.approx([1, 0])


def test_the_temperature_makes_confidences_of_the_share_that_is_right() -> None:
    """Scores of 0.9 and 0.1 that are right three times in four: (0.9/0.1)^(1/T) = the odds wanted."""
    scores = torch.tensor([[0.9, 0.1]]).repeat(400, 1)
    labels = torch.tensor([0, 0, 0, 1]).repeat(100)
    share = 1 / 402  # Platt's
    wanted = (300 * (1 - share) + 100 * share) / 400
    found = temperature(scores, labels)
    assert found == pytest.approx(math.log(9) / math.log(wanted / (1 - wanted)), rel=1e-3)
    assert confidences(scores, found)[0, 0] == pytest.approx(wanted, abs=1e-4)


def test_a_few_images_that_are_all_right_do_not_make_it_sure() -> None:
    scores = torch.tensor([[0.6, 0.4]]).repeat(3, 1)
    found = temperature(scores, torch.zeros(3, dtype=torch.int64))
    assert confidences(scores, found)[0, 0] == pytest.approx(4 / 5, abs=1e-3)


def test_without_images_or_classes_there_is_nothing_to_choose() -> None:
    assert temperature(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)) == 1.0
    assert temperature(torch.ones(3, 1), torch.zeros(3, dtype=torch.int64)) == 1.0


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(0.0, 0.9), (0.2, 0.9), (0.25, 0.6), (0.34, 0.6), (0.4, 0.5), (0.99, 0.5)],
)
def test_the_threshold_accepts_as_much_as_it_may(rate: float, expected: float) -> None:
    """Errors among the answers accepted: 0/1, 0/2, then of two equals together 1/4, then 2/5."""
    confidence = torch.tensor([0.6, 0.9, 0.95, 0.6, 0.5], dtype=torch.float64)
    right = torch.tensor([True, True, True, False, False])
    assert threshold(confidence, right, rate) == expected


def test_where_the_surest_answer_is_wrong_nothing_is_accepted() -> None:
    assert threshold(torch.tensor([0.9, 0.5]), torch.tensor([False, True]), 0.1) == math.inf


def test_what_is_held_out_is_a_share_and_at_most_twenty() -> None:
    labels = torch.arange(4).repeat_interleave(torch.tensor([1, 4, 9, 300]))
    images = torch.arange(len(labels)).view(-1, 1, 1, 1).expand(-1, 3, 2, 2).to(torch.uint8)
    samples = Samples(images, labels)
    nothing = samples.take(torch.empty(0, dtype=torch.int64))
    learned, held = hold_out(samples, 0.25, nothing)
    assert torch.bincount(held.labels, minlength=4).tolist() == [0, 1, 2, 20]
    assert torch.bincount(learned.labels).tolist() == [1, 3, 7, 280]
    again = hold_out(samples, 0.25, nothing)[1]
    assert torch.equal(held.images, again.images)
    assert torch.bincount(hold_out(samples, 0.25, held)[1].labels, minlength=4).tolist() == [0, 1, 2, 0]
    assert len(hold_out(samples, 0.0, nothing)[1]) == 0
    assert len(hold_out(samples, 0.99, nothing)[0].labels.unique()) == 4  # something is left of every class
    for share in (-0.2, 1.0, math.nan):
        with pytest.raises(UserError, match=r"^The share to hold out must be at least 0 and below 1, not "):
            hold_out(samples, share, nothing)
