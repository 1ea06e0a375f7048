"""BiC: what is easily got wrong, each with its check."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy

from dytox.data.loader import Batch
from dytox.methods.validation import reserved

PLAIN = {"augment": {"pad": 0, "flip": 0.0, "randaugment": None}}  # so that a batch shows which images it has


@pytest.fixture(scope="module")
def run(taught):
    return taught("bic", increments=(2, 3, 2), memory={"size": 70}, each=30, **PLAIN)


def images_of(chapter) -> set[bytes]:
    return {image.numpy().tobytes() for step in chapter.steps for image in step.batch.images}


def counts_of(chapter) -> list[int]:
    labels = torch.cat([step.batch.labels for step in chapter.steps if step.epoch == 0])
    return torch.bincount(labels).tolist()


@pytest.mark.parametrize("task", [1, 2])
def test_stage_two_moves_two_numbers_and_nothing_else(run, task):
    moved = run[1].chapter(task, "correct").moved("")
    assert {name for name, each in moved.items() if each} == {"model.head.alpha", "model.head.beta"}
    assert any(name.endswith("running_mean") for name in moved)


def test_no_image_that_is_validated_on_is_ever_learned_from(run):
    _, diary = run
    validated = {image for task in (1, 2) for image in images_of(diary.chapter(task, "correct"))}
    learned = {image for task in range(3) for image in images_of(diary.chapter(task, "train"))}
    assert len(validated) == 3 * 5 + 2 * 2  # old ones of the last task are among those before
    assert not validated & learned


def test_a_tenth_of_the_memory_and_as_many_new_images(run):
    """Memory 70: 35 a class of the first two, of 30 that there are; 14 of the first five."""
    _, diary = run
    assert counts_of(diary.chapter(0, "train")) == [30 - 3] * 2
    assert counts_of(diary.chapter(1, "correct")) == [3, 3] + [3] * 3
    assert counts_of(diary.chapter(1, "train")) == [30 - 3] * 2 + [30 - 3] * 3
    assert counts_of(diary.chapter(2, "correct")) == [2] * 5 + [2] * 2
    assert counts_of(diary.chapter(2, "train")) == [14 - 2] * 5 + [30 - 2] * 2
    memory = diary.chapter(2, "memory").memory["labels"]
    assert torch.bincount(memory).tolist() == [10] * 7


@pytest.mark.parametrize(
    ("exemplars", "expected"), [(1, 0), (2, 1), (4, 1), (11, 1), (12, 2), (20, 2), (200, 20), (500, 50)]
)
def test_how_many_are_for_validation(exemplars, expected):
    assert reserved(exemplars) == expected


def test_one_exemplar_a_class_leaves_nothing_to_correct_by(taught):
    _, diary = taught("bic", increments=(2, 2, 2), memory={"size": 7})
    assert "correct" in diary.phases(1)
    assert "correct" not in taught("bic", increments=(7, 2), memory={"size": 9})[1].phases(1)


def test_one_image_a_class_leaves_nothing_to_correct_by(taught):
    learner, diary = taught("bic", increments=(2, 2), each=1)
    assert diary.chapter(1, "correct").steps == []
    assert not any(diary.chapter(1, "correct").moved("").values())
    assert len(learner.memory) == 4


def test_with_shares_old_and_new_classes_are_validated_on_equally(taught):
    _, diary = taught("bic", increments=(2, 2), memory={"size": 24, "shares": 2})
    assert counts_of(diary.chapter(1, "correct")) == [1] * 4


def test_stage_two_minimises_the_cross_entropy_of_corrected_logits(midway, made):
    method = midway("bic", [2, 3])
    method.drop_teacher(None)
    samples = made(0, 5, each=2)
    images = samples.images / 255
    raw = method.model(images).logits
    with torch.no_grad():
        method.model.head.alpha.fill_(0.5)
        method.model.head.beta.fill_(-2.0)
    corrected = torch.cat([raw[:, :2], 0.5 * raw[:, 2:] - 2.0], dim=1)
    output = method.model(images)
    torch.testing.assert_close(output.logits, corrected)
    terms = method.losses(Batch.plain(images, samples.labels, phase="correct"), output)
    expected = cross_entropy(corrected, samples.labels, reduction="sum")
    torch.testing.assert_close(terms["clf"].sum, expected)
    assert (terms["shift"].weight, terms["shift"].sum.item(), terms["shift"].count) == (0.1, 2.0, 1)
    torch.testing.assert_close(method.predict(output), corrected.softmax(dim=1))


def test_a_correction_can_take_all_predictions_from_new_classes(run, made):
    learner = copy.deepcopy(run[0])
    head = learner.method.model.head
    with torch.no_grad():
        head.alpha.fill_(0.0)
        head.beta.fill_(-1e4)
    assert not set(learner.predict(made(0, 7).images)) & {"5", "6"}


def test_the_teacher_is_corrected_by_its_own_pair_and_the_new_one_starts_at_none(run, made):
    _, diary = run
    before = diary.chapter(2, "train").before
    pair = diary.chapter(1, "correct").after
    for name in ("alpha", "beta"):
        assert torch.equal(before[f"teacher.head.{name}"], pair[f"model.head.{name}"])
    assert (before["model.head.alpha"].item(), before["model.head.beta"].item()) == (1.0, 0.0)
    assert not diary.chapter(2, "train").moved("model.head.alpha")["model.head.alpha"]


@pytest.mark.parametrize(("increments", "share"), [([2, 3], 0.4), ([1] * 10, 0.9)])
def test_the_loss_of_stage_one(midway, made, increments, share):
    method = midway("bic", increments)
    with torch.no_grad():
        method.teacher.head.beta.fill_(3.0)
    samples = made(0, 2, each=3)
    images = samples.images / 255
    output = method.model(images)
    terms = method.losses(Batch.plain(images, samples.labels, phase="train"), output)
    assert {name: (term.weight, term.count) for name, term in terms.items()} == {
        "clf": (pytest.approx(1 - share), 6),
        "kd": (pytest.approx(share), 6),
    }
    logits = output.logits.double()
    taught = logits[:, : sum(increments[:-1])].clone()
    taught[:, sum(increments[:-2]) :] += 3.0  # its newest classes are corrected
    kd = -((taught / 2).softmax(1) * (logits[:, : taught.shape[1]] / 2).log_softmax(1)).sum()
    torch.testing.assert_close(terms["kd"].sum.double(), kd, rtol=1e-5, atol=1e-6)


def test_what_is_for_validation_stays_so_where_known_classes_are_refreshed(taught, made):
    learner, diary = taught("bic", increments=(2, 2), memory={"size": 48}, each=30, **PLAIN)
    validated = images_of(diary.chapter(1, "correct"))
    more = made(0, 2, noise=60)
    learner.learn(more.images, more.labels, observer=diary)
    assert not validated & images_of(diary.chapter(2, "refresh"))
    assert len(set(counts_of(diary.chapter(2, "refresh")))) == 1
    assert learner.method.model.head.alpha.item() != 1.0  # the correction is as it was
    assert torch.equal(learner.method.model.head.alpha, diary.chapter(1, "correct").after["model.head.alpha"])


@pytest.mark.parametrize(("gone", "left"), [(["5"], [0, 1, 2, 3, 4, 6]), (["5", "6"], [0, 1, 2, 3, 4])])
def test_forgetting_new_classes_moves_no_other_logit(run, made, gone, left):
    learner, images = copy.deepcopy(run[0]), made(0, 7).images / 255
    with torch.no_grad():
        before = learner.method.model(images).logits
        learner.forget(*gone)
        assert torch.equal(learner.method.model(images).logits, before[:, left])
