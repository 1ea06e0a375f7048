"""iCaRL: what is easily got wrong, each with its check."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dytox import ContinualLearner
from dytox.data.augment import normalise
from dytox.data.loader import Batch
from dytox.errors import UserError


@pytest.fixture(scope="module")
def run(taught):
    return taught("icarl", increments=(2, 2))


def output_of(learner: ContinualLearner, images: torch.Tensor):
    data = learner.config.data
    with torch.no_grad():
        return learner.method.model(normalise(images, data.mean, data.std))


def test_predictions_ignore_the_length_of_features(run, made):
    learner, _ = run
    output = output_of(learner, made(0, 4, noise=90).images)
    expected = learner.method.predict(output)
    assert len(expected.argmax(dim=1).unique()) > 1
    for factor in (1e-3, 7.0):
        longer = replace(output, embeddings=output.embeddings * factor)
        torch.testing.assert_close(learner.method.predict(longer), expected)


def test_a_mean_is_that_of_the_normalised_exemplars_and_the_nearest_wins(run, made):
    learner, _ = run
    samples = learner.memory.samples
    assert learner.config.augment.flip == 0  # so mirrored images do not count
    vectors = output_of(learner, samples.images).embeddings[:, 0]
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    means = torch.stack([vectors[samples.labels == label].mean(dim=0) for label in range(4)])
    means = means / means.norm(dim=1, keepdim=True)
    torch.testing.assert_close(learner.method.means.means, means, atol=1e-5, rtol=1e-5)
    images = made(0, 4, noise=90).images
    found = output_of(learner, images).embeddings[:, 0]
    nearest = torch.cdist(found / found.norm(dim=1, keepdim=True), means).argmin(dim=1)
    assert learner.predict(images) == [str(each) for each in nearest.tolist()]


def test_mirrored_exemplars_count_where_training_mirrors(run, lesson_of):
    learner, _ = run
    lesson = lesson_of(learner, 2, 4)
    method = lesson.method
    method.config = lesson.config.model_copy(
        update={"augment": lesson.config.augment.model_copy(update={"flip": 0.5})}
    )
    method.measure(lesson)
    both = method.means.means.clone()
    images, labels = lesson.memory.samples.images, lesson.memory.samples.labels
    vectors = output_of(learner, torch.cat([images, images.flip(3)])).embeddings[:, 0]
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    first = vectors[torch.cat([labels, labels]) == 0].mean(dim=0)
    torch.testing.assert_close(both[0], first / first.norm(), atol=1e-5, rtol=1e-5)


def test_means_follow_the_weights_and_depend_on_the_memory_alone(run, lesson_of):
    learner, _ = run
    lesson = lesson_of(learner, 2, 4)
    other = lesson_of(learner, 0, 1)  # another lesson, the same memory
    for each in (lesson, other):
        each.method.measure(each)
        assert torch.equal(each.method.means.means, learner.method.means.means)
    with torch.no_grad():
        lesson.method.model.encoder.stem[0].weight.mul_(-1)
    lesson.method.measure(lesson)
    moved = (lesson.method.means.means - learner.method.means.means).abs().amax(dim=1)
    assert (moved > 1e-4).all()  # those of old classes too


def test_as_its_own_teacher_nothing_pulls_at_old_logits(midway, made):
    method = midway("icarl", [2, 3])
    samples = made(0, 5, each=2)
    images = samples.images / 255
    output = method.model(images)
    output.logits.retain_grad()
    term = method.losses(Batch.plain(images, samples.labels), output)["clf"]
    assert term.count == 10 * 5
    term.sum.backward()
    assert not output.logits.grad[:, :2].any()
    assert output.logits.grad[:, 2:].all()


def test_the_teacher_overwrites_the_labels_of_old_classes(midway, made):
    method = midway("icarl", [2, 1])
    images = made(0, 1, each=4).images / 255
    output = method.model(images)
    sums = [
        method.losses(Batch.plain(images, torch.full((4,), label)), output)["clf"].sum for label in (0, 1, 2)
    ]
    assert torch.equal(sums[0], sums[1])
    assert not torch.equal(sums[0], sums[2])
    z, target = output.logits.double(), output.logits[:, :2].double().sigmoid()
    target = torch.cat([target, torch.ones(4, 1)], dim=1)  # label 2 is the new class
    expected = -(target * z.sigmoid().log() + (1 - target) * (1 - z.sigmoid()).log()).sum()
    torch.testing.assert_close(sums[2].double(), expected, rtol=1e-5, atol=0)


def test_means_are_measured_again_where_known_classes_are_refreshed(taught, made):
    learner, diary = taught("icarl", increments=(2,))
    more = made(0, 2, noise=60)
    before = learner.method.means.means.clone()
    learner.learn(more.images, more.labels, observer=diary)
    assert diary.phases(1) == ["memory", "refresh", "means"]
    assert not torch.equal(learner.method.means.means, before)


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"memory": {"size": 0}}, r"icarl cannot do without a memory, so memory\.size must be above 0\."),
        ({"loss": {"activation": "softmax"}}, r"loss\.activation must be sigmoid"),
    ],
)
def test_what_it_cannot_do_is_refused(tiny, over, words):
    with pytest.raises(UserError, match=words):
        ContinualLearner(tiny("icarl", **over))
