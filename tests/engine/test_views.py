"""Cached encodings of a phase with a frozen encoder."""

from __future__ import annotations

import pytest
import torch

from dytox import ContinualLearner
from dytox.errors import UserError

EXACT = {"runtime": {"device": "cpu", "precision": "fp64"}, "model": {"drop_path": 0.2}}
STILL = {"augment": {"pad": 0, "flip": 0.0, "randaugment": None}}


@pytest.fixture
def taught(tiny, made):
    """The weights after two tasks."""

    def weights(**over) -> dict[str, torch.Tensor]:
        learner = ContinualLearner(tiny(**EXACT, **over))
        for first in (0, 2):
            learner.learn_task(made(first, first + 2), [str(first), str(first + 1)])
        return learner.method.state_dict()

    return weights


def test_without_augmentation_it_changes_nothing(taught):
    plain, cached = taught(**STILL), taught(**STILL, finetuning={"cache_views": 1})
    for name, weight in plain.items():
        torch.testing.assert_close(cached[name], weight, atol=1e-10, rtol=0, msg=name)


def test_epochs_take_the_views_in_turn(taught):
    moving = {"augment": {"pad": 2, "flip": 0.5, "randaugment": None}}
    one, two = (taught(**moving, finetuning={"cache_views": views}) for views in (1, 2))
    encoder = [name for name in one if name.startswith("model.encoder.")]
    assert all(torch.equal(one[name], two[name]) for name in encoder)
    assert not torch.equal(one["model.task_tokens.0"], two["model.task_tokens.0"])


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"training": {"cache_views": 2}}, "cache_views of the phase 'train' needs one encoder"),
        ({"finetuning": {"cache_views": 2}, "augment": {"mixup": 0.8}}, "does not go with augment.mixup"),
    ],
)
def test_what_cannot_be_cached_is_refused(taught, over, words):
    with pytest.raises(UserError, match=words):
        taught(**over)
