"""The loop: what observers see, and what a loss that is no number leaves behind."""

from __future__ import annotations

import math

import pytest
import torch

from dytox import ContinualLearner
from dytox.engine.evaluate import Fitting
from dytox.engine.observer import Observer, Observers
from dytox.engine.schedule import learning_rate
from dytox.errors import UserError
from dytox.losses import Term
from dytox.methods.dytox import DyToxMethod


class Log(Observer):
    """All that happens, in order."""

    def __init__(self) -> None:
        self.events: list[tuple] = []

    def phase_started(self, lesson, phase):
        self.events.append(("phase", phase.name))

    def epoch_started(self, lesson, *, steps, done):
        self.events.append(("epoch", lesson.position.epoch, steps, done))

    def step_ended(self, lesson, total):
        assert math.isfinite(total.item())
        self.events.append(("step", lesson.position.epoch, lesson.position.step))

    def epoch_ended(self, lesson, record):
        self.events.append(("record", record))

    def state_reached(self, lesson, state, *, stopping):
        assert state.position == lesson.position
        self.events.append(("state", state.position.phase, state.position.epoch, state.position.step))


def learn(learner: ContinualLearner, samples, observer=None) -> None:
    learner.learn(samples.images, samples.labels, observer=observer)


def state_of(learner: ContinualLearner) -> dict[str, torch.Tensor]:
    memory = {f"memory.{name}": tensor for name, tensor in learner.memory.tensors().items()}
    return {name: tensor.clone() for name, tensor in {**learner.method.state_dict(), **memory}.items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_what_observers_see(tiny, made):
    log = Log()
    learn(ContinualLearner(tiny()), made(0, 2, each=10), Observers([Observer(), log]))
    plain = [event for event in log.events if event[0] != "record"]
    assert plain == [
        *[("phase", "expand"), ("state", 1, 0, 0)],
        *[("phase", "train"), ("epoch", 0, 1, 0), ("step", 0, 0), ("state", 1, 1, 0)],  # 20 images: one batch
        *[("epoch", 1, 1, 0), ("step", 1, 0), ("state", 2, 0, 0)],
        *[("phase", "tidy"), ("state", 3, 0, 0), ("phase", "memory"), ("state", 4, 0, 0)],
    ]


def test_the_record_of_an_epoch(tiny, made):
    over = {"training": {"epochs": 4, "schedule": {"name": "cosine", "warmup_epochs": 2}}}
    config = tiny(**over)
    learner, log = ContinualLearner(config), Log()
    learn(learner, made(0, 2))
    learn(learner, made(2, 4), log)
    records = [event[1] for event in log.events if event[0] == "record"]
    assert [(each["task"], each["phase"], each["epoch"]) for each in records] == [
        *[(1, "train", epoch) for epoch in range(4)],
        *[(1, "finetune", epoch) for epoch in range(2)],
    ]
    assert [each["lr"] for each in records[:4]] == [
        learning_rate(config.training, epoch) for epoch in range(4)
    ]
    for each in records[:4]:
        losses = each["losses"]
        assert set(losses) == {"clf", "kd", "div", "total"}
        total = 0.5 * losses["clf"] + 0.5 * losses["kd"] + 0.1 * losses["div"]
        assert losses["total"] == pytest.approx(total, rel=1e-5)
        assert each["images_per_second"] > 0
    for each in records[4:]:
        assert set(each["losses"]) == {"clf", "total"}
        assert each["losses"]["clf"] == each["losses"]["total"]


def test_the_rate_of_the_epoch_reaches_the_weights(tiny, made):
    """With a rate of 0 in the first epoch of the warm-up nothing moves in it."""
    schedule = {"name": "constant", "warmup_epochs": 1, "warmup_lr": 0.0}
    learner = ContinualLearner(tiny(training={"epochs": 2, "schedule": schedule}))
    weights = []

    class Watch(Observer):
        def step_ended(self, lesson, total):
            weights.append((lesson.position.epoch, lesson.method.model.tokens().detach().clone()))

    learn(learner, made(0, 2, each=24), Watch())
    assert [epoch for epoch, _ in weights] == [0, 0, 0, 1, 1, 1]
    tokens = [token for _, token in weights]
    assert torch.equal(tokens[0], tokens[2])
    assert not torch.equal(tokens[2], tokens[3])


def test_a_run_is_a_function_of_its_seed(tiny, made):
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(len(states))  # the global generator does not count
        learner = ContinualLearner(tiny(seed=seed, augment={"mixup": 0.8}))
        learn(learner, made(0, 2))
        learn(learner, made(2, 4))
        states.append(state_of(learner))
    assert same(states[0], states[1])
    assert not same(states[0], states[2])


def test_a_loss_that_is_no_number_is_refused_and_nothing_has_changed(tiny, made, monkeypatch):
    learner = ContinualLearner(tiny())
    learn(learner, made(0, 2, each=24))
    before, history = state_of(learner), list(learner.history)
    scores = learner.predict_proba(made(0, 2).images)
    calls = []

    def broken(method, batch, output):
        calls.append(batch.phase)
        loss = method.classification(batch, output)
        return {"clf": Term(loss.sum * float("nan"), loss.count)} if len(calls) == 5 else {"clf": loss}

    monkeypatch.setattr(DyToxMethod, "losses", broken)
    with pytest.raises(UserError) as refused:
        learn(learner, made(2, 4, each=20))  # 40 + 14 in memory: three steps an epoch
    message = str(refused.value)
    assert "step 2 of epoch 2 of phase 'train' of task 2" in message
    assert "with a learning rate below 0.001 " in message
    assert "\n" not in message
    assert same(state_of(learner), before)
    assert (learner.class_names, learner.increments, learner.history) == (["0", "1"], [2], history)
    assert (learner.predict_proba(made(0, 2).images) == scores).all()
    monkeypatch.undo()
    learn(learner, made(2, 4))
    assert learner.classes_ == ["0", "1", "2", "3"]


def test_the_first_bad_step_is_named_though_later_ones_are_bad_too(tiny, made):
    learner = ContinualLearner(tiny(training={"lr": 1e30}))
    with pytest.raises(UserError, match=r"NaN or infinite at step 2 of epoch 1 of phase 'train' of task 1"):
        learn(learner, made(0, 3, each=16))
    assert learner.classes_ == []
    assert len(learner.memory) == 0
    with pytest.raises(UserError, match="learned no class yet"):
        learner.predict(made(0, 1).images)


def test_a_batch_that_does_not_fit_is_halved():
    """Where a GPU has the memory for three images at a time, seven come out as they went in.

    The size that fitted is remembered: of the next batch no larger part is tried.
    """
    seen, tried = [], []

    def double(pixels: torch.Tensor, part: slice) -> torch.Tensor:
        tried.append(len(pixels))
        if len(pixels) > 3:
            raise torch.OutOfMemoryError
        seen.append((part.start, part.stop))
        return pixels * 2

    fitting = Fitting(double)
    assert fitting(torch.arange(7), slice(20, 27)).tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert seen == [(20, 22), (22, 24), (24, 26), (26, 27)]
    assert tried == [7, 4, 2, 2, 2, 1]
    assert fitting(torch.arange(5), slice(27, 32)).tolist() == [0, 2, 4, 6, 8]
    assert tried[6:] == [2, 2, 1]
    with pytest.raises(torch.OutOfMemoryError):
        Fitting(lambda pixels, part: double(torch.arange(4), part))(torch.arange(3), slice(0, 3))


def test_flips_are_averaged_at_test_time(tiny, made):
    learner = ContinualLearner(tiny())
    samples = made(0, 2)
    learner.learn_task(samples, ["a", "b"])
    plain, mirrored = learner.scores(samples.images), learner.scores(samples.images.flip(-1))
    learner.method.config = tiny(evaluation={"flip": True})
    torch.testing.assert_close(learner.scores(samples.images), (plain + mirrored) / 2)
    assert not torch.allclose(plain, mirrored)
