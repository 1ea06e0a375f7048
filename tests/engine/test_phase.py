"""A phase owns what learns and what is frozen."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dytox.engine.phase import freeze, set_learning
from dytox.methods.dytox import DyToxMethod
from dytox.models.base import Constant


@pytest.fixture
def method(tiny) -> DyToxMethod:
    """In its second task: with a teacher and a divergence head."""
    method = DyToxMethod(tiny())
    method.model.expand(2)
    method.keep_teacher(None)
    method.model.expand(3)
    return method


def learning(method: nn.Module) -> set[str]:
    return {name for name, weight in method.named_parameters() if weight.requires_grad}


def training(method: nn.Module) -> set[str]:
    return {name for name, module in method.named_modules() if module.training}


def under(method: nn.Module, *prefixes: str) -> set[str]:
    """The weights under these names, without those that no phase trains."""
    constants = {name for name, weight in method.named_parameters() if isinstance(weight, Constant)}
    return {name for name, _ in method.named_parameters() if name.startswith(prefixes)} - constants


def test_in_training(method):
    set_learning(method, method.learns_in_training())
    new = (
        "model.encoder.",
        "model.tab.",
        "model.task_tokens.1",
        "model.heads.tasks.1.",
        "model.divergence_head.",
    )
    assert learning(method) == under(method, *new)
    modes = training(method)
    assert {"model.encoder", "model.encoder.sabs.1.mlp", "model.tab", "model.heads.tasks.1"} <= modes
    assert not {"model.heads.tasks.0", "teacher", "teacher.encoder", "teacher.tab", "model.heads", ""} & modes


def test_in_finetuning(method):
    method.tidy(None)
    set_learning(method, method.learns_in_training())
    set_learning(method, method.learns_in_finetuning())  # nothing is left of the phase before
    assert learning(method) == under(method, "model.tab.", "model.task_tokens.", "model.heads.")
    modes = training(method)
    assert {"model.tab", "model.heads", "model.heads.tasks.0"} <= modes
    assert not any(name.startswith("model.encoder") for name in modes)


def test_frozen(method):
    set_learning(method, [method])
    freeze(method)
    assert learning(method) == set()
    assert training(method) == set()


def test_nothing_trains_a_constant(method):
    method.requires_grad_(True)
    method.train()
    set_learning(method, [method])
    assert learning(method) == under(method, "")
    assert len(learning(method)) < len(list(method.parameters()))


def test_a_parameter_learns_alone(method):
    set_learning(method, [method.model.task_tokens[0]])
    assert learning(method) == {"model.task_tokens.0"}
    assert training(method) == set()


def test_frozen_statistics_do_not_move():
    """Freezing is more than requires_grad: BatchNorm's statistics move in train mode."""
    method = nn.ModuleDict({"old": nn.BatchNorm1d(2), "new": nn.BatchNorm1d(2)})
    set_learning(method, [method["new"]])
    for each in method.values():
        each(torch.randn(8, 2) + 5)
    assert not method["old"].running_mean.any()
    assert method["new"].running_mean.all()
