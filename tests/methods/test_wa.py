"""WA: what is easily got wrong, each with its check."""

from __future__ import annotations

import pytest
import torch

from dytox.data.loader import Batch
from dytox.engine.moment import Moment


@pytest.fixture(scope="module")
def diary(taught):
    return taught("wa", increments=(2, 3, 2))[1]


def norms(tensors: dict[str, torch.Tensor], task: int) -> torch.Tensor:
    return tensors[f"model.head.tasks.{task}.weight"].norm(dim=1)


@pytest.mark.parametrize("task", [1, 2])
def test_after_aligning_mean_norms_are_equal_and_ratios_within_new_rows_as_before(diary, task):
    chapter = diary.chapter(task, "align")
    old = torch.cat([norms(chapter.after, each) for each in range(task)])
    new, before = norms(chapter.after, task), norms(chapter.before, task)
    torch.testing.assert_close(new.mean(), old.mean())
    assert abs(float(before.mean() / old.mean()) - 1) > 1e-3
    torch.testing.assert_close(new / new[0], before / before[0])
    assert {name for name, moved in chapter.moved("model.").items() if moved} == {
        f"model.head.tasks.{task}.weight"  # there is no bias that could be scaled too
    }


def test_once_a_task_after_training_and_not_after_the_first(diary):
    assert diary.phases(0) == ["expand", "train", "tidy", "memory"]
    assert diary.phases(1) == ["teacher", "expand", "train", "tidy", "align", "memory"]


def test_aligning_twice_changes_nothing(midway):
    method = midway("wa", [2, 3, 2])
    method.align(None)
    once = [rows.weight.clone() for rows in method.model.head.linears()]
    method.align(None)
    for rows, before in zip(method.model.head.linears(), once, strict=True):
        torch.testing.assert_close(rows.weight, before, rtol=1e-6, atol=0)


def test_no_weight_of_the_head_is_negative_after_an_update(diary, midway):
    for task in range(3):
        after = diary.chapter(task, "train").after
        assert all((after[f"model.head.tasks.{each}.weight"] >= 0).all() for each in range(task + 1))
    method = midway("wa", [2, 3])
    assert any((rows.weight < 0).any() for rows in method.model.head.linears())
    method.after_update(Moment())
    assert all((rows.weight >= 0).all() for rows in method.model.head.linears())


def test_the_teachers_logits_are_aligned_ones(diary):
    aligned = diary.chapter(1, "align").after["model.head.tasks.1.weight"]
    assert torch.equal(diary.chapter(2, "train").before["teacher.head.tasks.1.weight"], aligned)


@pytest.mark.parametrize(("increments", "share"), [([2, 3], 0.4), ([1] * 10, 0.9)])
def test_the_loss(midway, made, increments, share):
    """(1 - λ) CE + λ KL at T = 2 without T², each per image; the numbers are worked out apart."""
    method = midway("wa", increments)
    old = sum(increments[:-1])
    with torch.no_grad():
        method.model.head.linears()[0].weight.add_(0.3)  # no longer the teacher's
    samples = made(0, 2, each=3)
    images = samples.images / 255
    output = method.model(images)
    terms = method.losses(Batch.plain(images, samples.labels), output)
    assert {name: (term.weight, term.count) for name, term in terms.items()} == {
        "clf": (pytest.approx(1 - share), 6),
        "kd": (pytest.approx(share), 6),
    }
    logits, taught = output.logits.double(), method.teacher(images).logits.double()
    cross = -logits.log_softmax(1)[torch.arange(6), samples.labels].sum()
    torch.testing.assert_close(terms["clf"].sum.double(), cross)
    p, q = (taught / 2).softmax(1), (logits[:, :old] / 2).softmax(1)
    torch.testing.assert_close(terms["kd"].sum.double(), (p * (p / q).log()).sum(), atol=1e-6, rtol=1e-5)


def test_old_rows_are_not_drawn_anew_after_the_warm_up(taught):
    """As DER's code has it, where its warm-up ends; with next to no learning they are what they were."""
    schedule = {"name": "constant", "warmup_epochs": 2, "warmup_lr": 1e-9}
    training = {"epochs": 4, "lr": 1e-9, "schedule": schedule}
    _, diary = taught("wa", increments=(2, 2), training=training)
    assert len(diary.chapter(1, "train").steps) > 4
    chapter = diary.chapter(1, "train")
    rows = "model.head.tasks.0.weight"
    torch.testing.assert_close(chapter.after[rows], chapter.before[rows], atol=1e-5, rtol=0)
