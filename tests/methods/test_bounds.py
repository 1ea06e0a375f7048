"""Finetune, replay and joint: what is easily got wrong, each with its check."""

from __future__ import annotations

import pytest
import torch

from dytox import ContinualLearner
from dytox.data.loader import Batch
from dytox.errors import UserError
from dytox.methods import registry

EASY = {
    "augment": {"pad": 0},
    "model": {"drop_path": 0.0},
    "training": {"epochs": 15, "batch": 10, "lr": 4e-3},
}


@pytest.fixture(scope="module")
def accuracies(taught, made):
    """Of a method after two easy tasks: on the old classes, on the new ones; and the learner."""

    def learned(method: str, **over) -> tuple[float, float, ContinualLearner]:
        learner, _ = taught(method, increments=(2, 2), each=20, **EASY, **over)
        test = made(0, 4, each=20, noise=40)
        right = torch.tensor([int(name) for name in learner.predict(test.images)]) == test.labels
        return right[:40].float().mean().item(), right[40:].float().mean().item(), learner

    return learned


def test_finetune_forgets(accuracies):
    old, new, learner = accuracies("finetune")
    assert old < 0.05
    assert new > 0.9
    assert len(learner.memory) == 0


def test_replay_forgets_less(accuracies):
    old, new, learner = accuracies("replay", memory={"size": 40})
    assert old > 0.5
    assert new > 0.9
    assert len(learner.memory) == 40


def test_joint_forgets_nothing(accuracies):
    old, new, learner = accuracies("joint")
    assert old > 0.9
    assert new > 0.9
    assert len(learner.memory) == 0


@pytest.mark.parametrize("network", ["", "-resnet"])
@pytest.mark.parametrize("name", ["finetune", "replay", "joint"])
def test_an_old_class_learns_from_a_new_sample(tiny, made, name, network):
    method = registry.find_method(name)(tiny(name + network))
    method.model.expand(2)
    method.model.expand(3)
    samples = made(4, 5, each=3)  # of the last class alone
    batch = Batch.plain(samples.images / 255, samples.labels)
    output = method.model(batch.images)
    output.logits.retain_grad()
    terms = method.losses(batch, output)
    assert set(terms) == {"clf"}
    assert terms["clf"].count == (3 if network else 3 * 5)  # CE an image; BCE over all classes seen
    terms["clf"].sum.backward()
    assert (output.logits.grad[:, :4] > 0).all()  # no mask: every other class is told that it is not the one
    assert (output.logits.grad[:, 4] < 0).all()


@pytest.mark.parametrize("name", ["finetune", "replay", "finetune-resnet"])
def test_old_logits_are_the_same_right_after_growth(taught, made, name):
    learner, _ = taught(name, increments=(2, 3))
    model, images = learner.method.model, made(0, 5).images / 255
    before = model(images).logits
    model.expand(4)
    after = model(images).logits
    assert after.shape[1] == 9
    assert torch.equal(after[:, :5], before)


@pytest.mark.parametrize("name", ["finetune", "replay"])
def test_all_weights_learn_in_every_task_old_rows_too(taught, name):
    _, diary = taught(name, increments=(2, 2))
    chapter = diary.chapter(1, "train")
    still = {key for key, moved in chapter.moved("model.").items() if not moved}
    assert all(key.endswith(("pos_bias", "relative", "live")) for key in still)
    assert chapter.moved("model.heads.tasks.0.weight")["model.heads.tasks.0.weight"]


def test_finetune_sees_new_images_alone(taught):
    _, diary = taught("finetune", increments=(2, 2))
    labels = torch.cat([step.batch.labels for step in diary.chapter(1, "train").steps])
    assert labels.unique().tolist() == [2, 3]


def test_replay_sees_new_images_and_memory(taught):
    _, diary = taught("replay", increments=(2, 2))
    for epoch in range(2):
        steps = [step for step in diary.chapter(1, "train").steps if step.epoch == epoch]
        assert torch.bincount(torch.cat([step.batch.labels for step in steps])).tolist() == [7, 7, 12, 12]


def test_joint_sees_all_images_and_starts_anew(taught):
    learner, diary = taught("joint", increments=(2, 2, 1))
    assert (learner.increments, learner.method.model.sizes) == ([2, 2, 1], [5])
    labels = torch.cat([step.batch.labels for step in diary.chapter(2, "train").steps if step.epoch == 0])
    assert torch.bincount(labels).tolist() == [12] * 5
    restart = diary.chapter(2, "restart")
    assert restart.moved("model.encoder.tokenizer")["model.encoder.tokenizer.pos_embed"]
    assert "model.heads.tasks.1.weight" not in restart.after


def test_joint_in_one_step_is_a_head_of_all_classes(taught):
    learner, _ = taught("joint", increments=(5,))
    assert learner.method.model.increments == [5]


def test_joint_refuses_once_the_images_are_gone(taught, made, tmp_path):
    learner, _ = taught("joint", increments=(2,))
    learner.save(tmp_path / "model")
    again = ContinualLearner.load(tmp_path / "model")
    before = {name: tensor.clone() for name, tensor in again.method.state_dict().items()}
    new = made(2, 4)
    with pytest.raises(
        UserError, match=r"joint .*images of .*all tasks.*first 2 classes are gone"
    ) as refused:
        again.learn(new.images, new.labels)
    message = str(refused.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert again.classes_ == ["0", "1"]
    assert all(torch.equal(again.method.state_dict()[name], tensor) for name, tensor in before.items())
    learner.learn(new.images, new.labels)  # where they are still there
    assert learner.classes_ == ["0", "1", "2", "3"]


@pytest.mark.parametrize("name", ["finetune", "joint"])
def test_a_memory_is_refused(tiny, name):
    with pytest.raises(UserError, match=rf"{name} never has a memory, so memory.size must be 0, not 50"):
        ContinualLearner(tiny(name, memory={"size": 50}))


def test_softmax_is_an_option(tiny, made):
    method = registry.find_method("replay")(
        tiny("replay", loss={"activation": "softmax", "label_smoothing": 0.1})
    )
    method.model.expand(4)
    samples = made(1, 2, each=2)
    batch = Batch.plain(samples.images / 255, samples.labels)
    output = method.model(batch.images)
    term = method.losses(batch, output)["clf"]
    logs = output.logits.log_softmax(dim=1)
    expected = -(0.925 * logs[:, 1] + 0.025 * (logs[:, 0] + logs[:, 2] + logs[:, 3])).sum()
    torch.testing.assert_close(term.sum, expected)
    assert term.count == 2
    torch.testing.assert_close(method.predict(output).sum(dim=1), torch.ones(2))
