"""Where a method steps in: when, how often, and on which gradients."""

from __future__ import annotations

import pytest
import torch

from dytox import ContinualLearner
from dytox.engine.moment import Moment
from dytox.engine.observer import Interrupted, Observer
from dytox.methods import registry
from dytox.methods.replay import Replay


class Stepping(Replay):
    """Writes down what it is told, and steps in everywhere."""

    name = "stepping"

    def __init__(self, config):
        super().__init__(config)
        self.told: list[tuple] = []
        self.before: list[torch.Tensor] = []

    def before_epoch(self, moment: Moment) -> None:
        self.told.append(("epoch", moment))
        with torch.no_grad(), moment.seeded("reset"):
            self.model.heads.tasks[-1].bias.normal_()

    def before_forward(self, moment: Moment) -> None:
        self.told.append(("forward", moment))
        self.before = [each.clone() for each in self.model.parameters()]

    def after_backward(self, moment: Moment) -> None:
        self.told.append(("backward", moment))
        for now, before in zip(self.model.parameters(), self.before, strict=True):
            assert torch.equal(now, before)  # between SAM's passes they were others
        for weight in self.model.parameters():
            if weight.grad is not None:
                weight.grad.zero_()
        self.model.heads.tasks[-1].bias.grad.fill_(1.0)

    def after_update(self, moment: Moment) -> None:
        self.told.append(("update", moment))
        with torch.no_grad():
            self.model.heads.tasks[-1].bias.round_(decimals=2)


class StopAt(Observer):
    """Asks to stop after so many steps, and keeps the state."""

    def __init__(self, steps: int) -> None:
        self.left, self.state = steps, None

    def step_ended(self, lesson, total):
        self.left -= 1

    def state_reached(self, lesson, state, *, stopping):
        self.state, self.lesson = state, lesson

    def stop_wanted(self):
        return self.left <= 0


@pytest.fixture
def learner(tiny, monkeypatch):
    def make(**over):
        monkeypatch.setitem(registry.BUILT_IN, "stepping", f"{__name__}:Stepping")
        plain = {"optimizer": {"name": "sgd", "momentum": 0.0, "weight_decay": 0.0}, "clip_norm": None}
        plain |= {"lr": 0.5, "lr_reference_batch": None}
        return ContinualLearner(tiny("stepping", training=plain, **over))

    return make


@pytest.mark.parametrize("sam", [{}, {"rho": 0.5, "skip_first": False}])
def test_once_an_update_in_order_on_the_gradients_that_are_used(learner, made, sam):
    one, samples = learner(sam=sam), made(0, 2)
    one.learn(samples.images, samples.labels)
    method = one.method
    steps = [("forward", 0), ("backward", 0), ("update", 0), ("forward", 1), ("backward", 1), ("update", 1)]
    told = [(name, moment.position.epoch, moment.position.step) for name, moment in method.told]
    assert told == [
        each
        for epoch in range(2)
        for each in (("epoch", epoch, 0), *((name, epoch, step) for name, step in steps))
    ]
    for _, moment in method.told:
        assert (moment.phase, moment.steps, moment.seed) == ("train", 2, 0)
        assert moment.images == (16 if moment.position.step == 0 else 8)
    last = [moment for name, moment in method.told if name == "epoch"][-1]
    with last.seeded("reset"):
        expected = torch.empty(2).normal_()
    for _ in range(2):  # gradient 1, learning rate 1/2
        expected = (expected - 0.5).round(decimals=2)
    assert torch.equal(method.model.heads.tasks[-1].bias, expected)
    assert method.model.heads.tasks[-1].weight.grad.abs().max() == 0


@pytest.mark.parametrize("steps", [2, 3])  # at the end of an epoch, in the midst of one
def test_resumed_an_epoch_does_not_begin_twice(learner, made, steps):
    samples = made(0, 2)
    straight = learner()
    straight.learn(samples.images, samples.labels)
    cut, stop = learner(), StopAt(steps)
    with pytest.raises(Interrupted):
        cut.learn(samples.images, samples.labels, observer=stop)
    again = learner()
    again.restore(stop.lesson.method.structure(), stop.lesson.method.state_dict(), None)
    again.learn_task(samples, ["0", "1"], start=stop.state)
    for name, weight in straight.method.state_dict().items():
        assert torch.equal(again.method.state_dict()[name], weight), name
    names = [name for name, _ in again.method.told]
    assert names.count("epoch") == (1 if steps == 2 else 0)
