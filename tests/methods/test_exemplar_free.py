"""Methods that keep sums: the same model in any order of lessons, and exact when they forget."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from dytox import ContinualLearner
from dytox.errors import UserError
from dytox.models.computed_heads import Mahalanobis

METHODS = ("ncm", "slda", "ranpac", "fecam")
DIM = 24
torch.manual_seed(0)
ENCODER = nn.Sequential(nn.Conv2d(3, DIM, 4, stride=4), nn.ReLU())  # (batch, 24, 2, 2)
VALUES = {"data": {"image_size": 8}, "runtime": {"device": "cpu", "precision": "fp64"}}


def learned(method, lessons, **options):
    """A learner after lessons, each a list of (class, first image, last image)."""
    values = {**VALUES, "method": options}
    learner = ContinualLearner.create("digits", method=method, config=values, encoder=ENCODER)
    for lesson in lessons:
        images = torch.cat([pictures(name)[first:last] for name, first, last in lesson])
        learner.learn(images, [name for name, first, last in lesson for _ in range(first, last)])
    return learner


def pictures(name):
    """Twelve images of a class, 8 pixels, whose colours are the class's."""
    source = torch.Generator().manual_seed(ord(name))
    colours = torch.randint(40, 200, (1, 3, 8, 8), generator=source)
    noise = torch.randint(-40, 40, (12, 3, 8, 8), generator=source)
    return (colours + noise).to(torch.uint8)


@pytest.fixture(scope="module")
def tests():
    """Images of all classes, three of each."""
    return torch.cat([pictures(name)[9:] for name in "abcd"])


def answers(learner, images):
    """The confidences in the classes in alphabetical order."""
    order = [learner.classes_.index(name) for name in sorted(learner.classes_)]
    return learner.confidences(images)[:, order].numpy()


@pytest.mark.parametrize("method", METHODS)
def test_any_order_and_any_number_of_lessons_give_the_same_model(method, tests):
    once = answers(learned(method, [[(name, 0, 9) for name in "abcd"]]), tests)
    assert (once.argmax(axis=1) == np.arange(12) // 3).mean() > 0.9
    one_by_one = [[(name, 0, 9)] for name in "dbac"]
    in_halves = [[("c", 5, 9), ("a", 0, 3)], [("d", 0, 9), ("a", 3, 9)], [("b", 0, 9), ("c", 0, 5)]]
    for lessons in (one_by_one, in_halves):
        np.testing.assert_allclose(answers(learned(method, lessons), tests), once, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_forgotten_class_leaves_a_model_that_never_saw_it(method, tests, tmp_path):
    learner = learned(method, [[("a", 0, 9), ("b", 0, 9)], [("c", 0, 9), ("d", 0, 9)]])
    learner.forget("b")
    assert learner.method.forgets_exactly
    assert learner.increments == [1, 2]
    never = learned(method, [[("a", 0, 9)], [("c", 0, 9), ("d", 0, 9)]])
    np.testing.assert_allclose(answers(learner, tests), answers(never, tests), atol=1e-9)
    learner.save(tmp_path / "model")
    again = ContinualLearner.load(tmp_path / "model", encoder=ENCODER)
    assert np.array_equal(answers(again, tests), answers(learner, tests))
    again.learn(pictures("b")[:9], ["b"] * 9)
    whole = learned(method, [[(name, 0, 9) for name in "abcd"]])
    np.testing.assert_allclose(answers(again, tests), answers(whole, tests), atol=1e-6)


@pytest.mark.parametrize("method", ["slda", "ranpac"])
def test_a_shared_scatter_predicts_alike_and_does_not_claim_to_forget_exactly(method, tests):
    lessons = [[("a", 0, 9), ("b", 0, 9)], [("c", 0, 9), ("d", 0, 9)]]
    own, shared = learned(method, lessons), learned(method, lessons, scatter="shared")
    np.testing.assert_allclose(answers(shared, tests), answers(own, tests), atol=1e-6)
    assert len(shared.method.model.moments.factors) == 1
    assert not shared.method.forgets_exactly
    shared.forget("a")
    assert shared.classes_ == ["b", "c", "d"]


def test_a_random_projection_is_drawn_from_the_seed_and_not_saved(tests, tmp_path):
    lessons = [[(name, 0, 9) for name in "abcd"]]
    learner = learned("ranpac", lessons, projection=64)
    assert learner.method.model.moments.dim == 64
    learner.save(tmp_path / "model")
    assert not any("projector" in name for name in learner.method.state_dict())
    again = ContinualLearner.load(tmp_path / "model", encoder=ENCODER)
    assert np.array_equal(answers(again, tests), answers(learner, tests))


def test_fecam_keeps_a_covariance_of_each_class():
    head = learned("fecam", [[("a", 0, 9), ("b", 0, 5)]]).method.model.head
    assert isinstance(head, Mahalanobis)
    assert head.rows.shape == (2, 9, DIM)  # 8 rows of 9 centred images, and one of the mean covariance
    assert not head.rows[1, 5:].any()


def test_no_image_is_kept():
    learner = learned("ranpac", [[("a", 0, 9), ("b", 0, 9)]])
    assert len(learner.memory) == 0
    assert not any(tensor.dtype == torch.uint8 for tensor in learner.method.state_dict().values())


def test_features_that_learn_are_refused():
    with pytest.raises(UserError, match=r"ranpac computes its classifier .* model.frozen must be true"):
        ContinualLearner.create("digits", method="ranpac", config=VALUES, encoder=ENCODER, frozen=False)
