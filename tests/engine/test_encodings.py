"""A frozen encoder sees each image, and its mirror image, once a phase."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dytox import ContinualLearner
from dytox.engine import loop
from dytox.errors import UserError

PLAIN = {"pad": 0, "randaugment": None, "brightness": 0.0}
VALUES = {
    "data": {"image_size": 8},
    "memory": {"size": 8},
    "training": {"epochs": 4, "batch": 8, "schedule": {"warmup_epochs": 0, "milestones": []}},
    "finetuning": {"epochs": 2, "batch": 8, "schedule": {"warmup_epochs": 0, "milestones": []}},
    "runtime": {"device": "cpu", "precision": "fp64"},
    "model": {"drop_path": 0.0},
}


class Counting(nn.Module):
    """An encoder that counts the images that it sees, in all copies of it."""

    seen: list[int] = []  # noqa: RUF012  # shared by copies on purpose

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(3, 12, 4, stride=4)

    def forward(self, images):
        self.seen.append(len(images))
        return self.layer(images)


def learned(method, made, augment, tasks=((0, 2), (2, 4))):
    values = {**VALUES, "augment": augment}
    Counting.seen.clear()
    learner = ContinualLearner.create("digits", method=method, config=values, encoder=Counting())
    for first, last in tasks:
        samples = made(first, last, each=6)
        learner.learn(samples.images, samples.labels)
    return learner, sum(Counting.seen)


@pytest.mark.parametrize("method", ["dytox", "replay", "wa"])
def test_training_on_encodings_is_training_on_images(method, made, monkeypatch):
    cached, few = learned(method, made, {**PLAIN, "flip": 0.5})
    monkeypatch.setattr(loop, "encode", lambda lesson, samples, phase: None)
    plain, many = learned(method, made, {**PLAIN, "flip": 0.5})
    assert few < many
    images = made(0, 4, each=2).images
    torch.testing.assert_close(cached.confidences(images), plain.confidences(images), rtol=1e-8, atol=1e-8)


def test_images_are_encoded_once_for_each_view(made):
    _, one = learned("replay", made, {**PLAIN, "flip": 0.0}, tasks=[(0, 2)])
    _, two = learned("replay", made, {**PLAIN, "flip": 0.5}, tasks=[(0, 2)])
    assert two - one == 12


@pytest.mark.parametrize("augment", [{"pad": 1}, {"mixup": 0.8}])
def test_images_that_are_varied_otherwise_are_encoded_in_every_epoch(made, augment):
    _, count = learned("replay", made, {**PLAIN, **augment}, tasks=[(0, 2)])
    assert count >= 4 * 12


# `cache_views`

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
