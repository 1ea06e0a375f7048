"""E2E: what is easily got wrong, each with its check."""

from __future__ import annotations

import pytest
import torch

from dytox.data.loader import Batch
from dytox.engine.moment import Moment
from dytox.randomness import Position


@pytest.fixture(scope="module")
def diary(taught):
    return taught("e2e", increments=(2, 3, 2), memory={"size": 21})[1]


def entropies(logits: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    found = torch.zeros((), dtype=torch.float64)
    for part in (logits.double() / 2).split(sizes, dim=1):
        p = part.exp() / part.exp().sum(dim=1, keepdim=True)
        found -= (p * p.log()).sum()
    return found


def test_each_head_of_the_teacher_is_distilled(midway, made):
    """By itself as a teacher, the loss is its entropy: of t - 1 heads in training, of t in finetuning."""
    method = midway("e2e", [2, 3, 2])
    samples = made(0, 7, each=1)
    batch = Batch.plain(samples.images / 255, samples.labels)
    output = method.model(batch.images)
    term = method.losses(batch, output)["kd"]
    torch.testing.assert_close(term.sum.double(), entropies(output.logits[:, :5], [2, 3]))
    assert (term.count, term.weight) == (7, 1.0)
    method.keep_teacher(None)
    term = method.losses(batch, output)["kd"]
    torch.testing.assert_close(term.sum.double(), entropies(output.logits, [2, 3, 2]))
    method.drop_teacher(None)
    assert set(method.losses(batch, output)) == {"clf"}


@pytest.mark.parametrize("epoch", [0, 3])
def test_the_noise_that_enters_an_update(midway, epoch):
    method = midway("e2e", [2, 3])
    weights = list(method.model.parameters())
    for weight in weights:
        weight.grad = torch.full_like(weight, 2.0)
    moment = Moment("train", Position(1, 2, epoch, 5), 9, 128, seed=3)
    method.after_backward(moment)
    noise = torch.cat([weight.grad.flatten() - 2.0 for weight in weights])
    assert noise.std().item() == pytest.approx(0.3 / (1 + epoch) ** 0.55 / 128, rel=0.02)
    assert abs(noise.mean().item()) < 1e-4
    for weight in weights:
        weight.grad.fill_(2.0)
    method.after_backward(moment)  # the same moment, the same noise
    torch.testing.assert_close(torch.cat([w.grad.flatten() - 2.0 for w in weights]), noise)


def test_phases(diary):
    assert diary.phases(0) == ["expand", "train", "tidy", "memory"]
    assert diary.phases(1) == [
        "teacher",
        "expand",
        "train",
        "balance",
        "second teacher",
        "finetune",
        "tidy",
        "memory",
    ]


@pytest.mark.parametrize(("task", "each"), [(1, 10), (2, 4)])
def test_finetuning_is_balanced_at_the_old_count_and_the_memory_within_its_size_afterwards(diary, task, each):
    seen = [2, 5, 7][task]
    labels = [step.batch.labels for step in diary.chapter(task, "finetune").steps if step.epoch == 0]
    assert torch.bincount(torch.cat(labels)).tolist() == [each] * seen
    assert torch.bincount(diary.chapter(task, "memory").memory["labels"]).tolist() == [21 // seen] * seen


def test_finetuning_is_taught_by_the_network_as_trained_and_moves_all_of_it(diary):
    chapter, trained = diary.chapter(2, "finetune"), diary.chapter(2, "train").after
    for name, before in chapter.before.items():
        if name.startswith("teacher."):
            assert torch.equal(before, trained[name.replace("teacher.", "model.", 1)])
            assert torch.equal(chapter.after[name], before)
    weights = {name for name in chapter.before if name.startswith("model.") and name not in chapter.buffers}
    assert all(chapter.moved("model.")[name] for name in weights)
    assert not any(name.startswith("teacher.") for name in diary.chapter(2, "tidy").after)
