"""One update: what is decayed, clipping, and a state that can go on."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from dytox.config import OptimizerConfig, PhaseConfig, SamConfig
from dytox.data.loader import Batch
from dytox.engine.averaging import Average
from dytox.engine.phase import set_learning
from dytox.engine.update import Update, make_optimizer
from dytox.errors import UserError
from dytox.methods.dytox import DyToxMethod
from dytox.models.batchnorm import BatchNorm2d

SGD = {"name": "sgd", "momentum": 0.0, "weight_decay": 0.0}


@pytest.fixture
def method(tiny) -> DyToxMethod:
    """In the training of its second task."""
    torch.manual_seed(0)
    method = DyToxMethod(tiny())
    method.model.expand(2)
    method.keep_teacher(None)
    method.model.expand(2)
    set_learning(method, method.learns_in_training())
    return method


def batch(seed: int = 0) -> Batch:
    images = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    return Batch.plain(images, torch.tensor([0, 1, 2, 3, 2, 3]))


def weights(method: nn.Module) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in method.model.parameters()])


def phase(**over) -> PhaseConfig:
    return PhaseConfig(**{"lr": 1e-3, "lr_reference_batch": None, **over})


def test_vectors_are_not_decayed_but_tokens_and_positions_are(method):
    names = {weight: name for name, weight in method.named_parameters()}
    learning = [weight for weight in method.parameters() if weight.requires_grad]
    decays = {
        names[weight]: group["weight_decay"]
        for group in make_optimizer(learning, OptimizerConfig(weight_decay=0.3), 1e-3).param_groups
        for weight in group["params"]
    }
    assert len(decays) == len(learning)
    free = {name for name, decay in decays.items() if decay == 0.0}
    assert {name.rpartition(".")[2] for name in free} <= {"bias", "weight", "gate"}
    assert all("norm" in name or name.endswith(("bias", "gate")) for name in free)
    assert {
        "model.task_tokens.1",
        "model.encoder.tokenizer.pos_embed",
        "model.tab.attn.q.weight",
    } <= decays.keys() - free
    whole = make_optimizer(learning, OptimizerConfig(weight_decay=0.3, decay_vectors=True), 1e-3)
    assert [group["weight_decay"] for group in whole.param_groups] == [0.3]


def test_the_optimiser_of_the_paper(method):
    learning = [weight for weight in method.parameters() if weight.requires_grad]
    optimizer = make_optimizer(learning, OptimizerConfig(), 2.5e-4)
    assert isinstance(optimizer, torch.optim.AdamW)
    for group, decay in zip(optimizer.param_groups, (1e-6, 0.0), strict=True):
        assert (group["lr"], group["betas"], group["eps"]) == (2.5e-4, (0.9, 0.999), 1e-8)
        assert group["weight_decay"] == decay


def test_a_step_is_the_gradient_of_the_weighted_sum(method):
    """With plain SGD at rate 1 the step is the gradient itself."""
    twin = copy.deepcopy(method)
    before = weights(method)
    means = Update(method, phase(lr=1.0, optimizer=SGD))(batch())
    terms = twin(batch())
    total = sum(term.weight * term.sum / term.count for term in terms.values())
    torch.testing.assert_close(means["total"], total.detach())
    assert set(means) == {"clf", "kd", "div", "total"}
    learning = [weight for weight in twin.model.parameters() if weight.requires_grad]
    found = dict(zip(learning, torch.autograd.grad(total, learning), strict=True))
    expected = torch.cat(
        [found.get(weight, torch.zeros_like(weight)).flatten() for weight in twin.model.parameters()]
    )
    torch.testing.assert_close(before - weights(method), expected, atol=1e-6, rtol=1e-4)


def test_clipping(method):
    before = weights(method)
    twin = copy.deepcopy(method)
    Update(method, phase(lr=1.0, optimizer=SGD))(batch())
    Update(twin, phase(lr=1.0, optimizer=SGD, clip_norm=1e-2))(batch())
    whole, clipped = before - weights(method), before - weights(twin)
    assert whole.norm() > 0.1
    assert clipped.norm().item() == pytest.approx(1e-2, rel=1e-3)
    torch.testing.assert_close(clipped / clipped.norm(), whole / whole.norm(), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": {**SGD, "momentum": 0.9}},
        {"encoder": {"lr": 0.1, "optimizer": {"name": "sgd", "nesterov": True}}},
        {"ema": 0.9},
    ],
    ids=["adamw", "sgd", "encoder", "ema"],
)
def test_a_state_goes_on_where_it_was(method, options):
    straight = Update(method, phase(**options))
    straight(batch(1))
    half, state = copy.deepcopy(method), {key: each.clone() for key, each in straight.state().items()}
    straight(batch(2))
    resumed = Update(half, phase(**options))
    resumed.load_state(state)
    resumed(batch(2))
    straight.finish()
    resumed.finish()
    assert torch.equal(weights(half), weights(method))
    assert all(isinstance(tensor, torch.Tensor) for tensor in state.values())


def test_the_rate_can_be_set(method):
    before = weights(method)
    update = Update(method, phase())
    update.set_lr(0.0)
    update(batch())
    assert torch.equal(weights(method), before)


ENCODER = {"lr": 0.5, "optimizer": {"name": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.0}}


def test_the_encoder_has_an_optimiser_of_its_own(method):
    names = {weight: name for name, weight in method.named_parameters()}
    update = Update(method, phase(encoder=ENCODER))
    found = {
        part: {names[weight] for group in optimizer.param_groups for weight in group["params"]}
        for part, optimizer in update.optimizers.items()
    }
    encoder, rest = found["encoder."], found[""]
    assert {type(each) for each in update.optimizers.values()} == {torch.optim.SGD, torch.optim.AdamW}
    assert encoder == {
        name
        for name, each in method.named_parameters()
        if name.startswith("model.encoder.") and each.requires_grad
    }
    assert encoder | rest == {names[each] for each in update.parameters}
    assert not encoder & rest


def test_two_optimisers_follow_one_schedule(method):
    schedule = {"name": "linear", "per_step": True, "min_lr": 0.0}
    update = Update(method, phase(epochs=2, encoder=ENCODER, schedule=schedule))
    lr = update.follow_schedule(1, 1, 2)
    rates = {part: each.param_groups[0]["lr"] for part, each in update.optimizers.items()}
    assert lr == rates[""] == pytest.approx(1e-3 / 4)
    assert rates["encoder."] == pytest.approx(0.5 / 4)


def test_a_step_of_nesterov_momentum(method):
    """The first step: v = g, and w - lr (g + m v)."""
    twin = copy.deepcopy(method)
    before = weights(method)
    Update(twin, phase(lr=1.0, optimizer=SGD))(batch())
    Update(method, phase(lr=1.0, optimizer={**SGD, "momentum": 0.5, "nesterov": True}))(batch())
    torch.testing.assert_close(before - weights(method), 1.5 * (before - weights(twin)), atol=1e-6, rtol=1e-4)


def test_a_network_without_an_encoder_is_refused(method, monkeypatch):
    monkeypatch.setattr(type(method.model), "encoder_parts", lambda model: [])
    with pytest.raises(UserError, match="has no encoder"):
        Update(method, phase(encoder=ENCODER))


def test_the_average_of_the_weights(method):
    """The decay is n / (n + 9) until it reaches its value, here 0.15."""
    start = weights(method)
    update = Update(method, phase(ema=0.15))
    update(batch(1))
    first = weights(method)
    update(batch(2))
    second = weights(method)
    mean = 0.1 * start + 0.9 * first
    expected = 0.15 * mean + 0.85 * second  # 2 / 11 is above 0.15
    update.finish()
    torch.testing.assert_close(weights(method), expected, atol=1e-6, rtol=0)
    assert not torch.equal(weights(method), second)


def test_batchnorm_statistics_are_averaged_where_they_move():
    moving, still = BatchNorm2d(2), BatchNorm2d(2).eval()
    average = Average(nn.ModuleList([moving, still]), 0.5)
    moving(torch.randn(8, 2, 4, 4) + 3)
    last = moving.running_mean.clone()
    average.add()
    average.replace_weights()
    torch.testing.assert_close(moving.running_mean, 0.9 * last)
    assert not still.running_mean.any()


def test_the_state_of_one_optimiser_has_its_old_names(method):
    update = Update(method, phase())
    update(batch())
    places = {name.split(".")[0] for name in update.state()}
    assert places == {str(place) for place in range(len(update.parameters))}


def test_sharpness_aware_steps_report_the_loss_where_the_weights_are(method):
    twin = copy.deepcopy(method)
    plain = Update(method, phase(lr=1.0, optimizer=SGD))(batch())
    sharp = Update(twin, phase(lr=1.0, optimizer=SGD), SamConfig(rho=3.0))(batch())
    assert all(torch.equal(plain[name], sharp[name]) for name in plain)
    assert not torch.equal(weights(method), weights(twin))


def test_no_step_waits_for_the_device(method):
    """Nothing in a step with teacher asks a tensor for its value, or makes one of Python's numbers."""
    method.keep_teacher(None)
    method.model.expand(3)  # unequal heads
    set_learning(method, method.learns_in_training())
    update = Update(method, method.config.training)
    draws = method.model.draw(torch.Generator().manual_seed(0), 6)
    step = replace(batch(), draws=draws)
    update(step)  # the optimiser makes its state
    with Waits() as waits:
        update(step)
    assert waits.seen == []


class Waits(TorchDispatchMode):
    """Notes what a GPU would have to be waited for."""

    WAITING = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "unique")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if (
            name.startswith(self.WAITING) or name == "lift_fresh"
        ):  # the last makes a tensor of Python's numbers
            self.seen.append(name)
        return function(*args, **(kwargs or {}))
