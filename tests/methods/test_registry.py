"""Methods by name."""

from __future__ import annotations

import sys
import types

import pytest

from dytox import ContinualLearner
from dytox.engine.method import Method
from dytox.errors import UserError
from dytox.methods import registry
from dytox.methods.replay import Replay


class Mine(Replay):
    """Somebody else's."""

    name = "mine"
    summary = "another replay"


@pytest.fixture
def elsewhere(monkeypatch):
    """A module of somebody else's."""
    module = types.ModuleType("elsewhere")
    module.Mine, module.helper = Mine, print
    monkeypatch.setitem(sys.modules, "elsewhere", module)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_the_package_has_it(name):
    method = registry.find_method(name)
    assert issubclass(method, Method)
    assert method.name == name


def test_a_method_of_somebody_else(elsewhere, tiny, made):
    assert registry.find_method("elsewhere:Mine") is Mine
    config = tiny("elsewhere:Mine")
    learner = ContinualLearner(config)
    samples = made(0, 2)
    learner.learn(samples.images, samples.labels)
    assert isinstance(learner.method, Mine)
    assert learner.config.method.name == "elsewhere:Mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dytoks", "Unknown method 'dytoks': did you mean 'dytox'"),
        ("elsewhere:Yours", "'elsewhere:Yours' cannot be loaded"),
        ("nowhere:Mine", "cannot be loaded from nowhere:Mine"),
        ("elsewhere:helper", "is not a subclass of dytox.method.Method"),
    ],
)
def test_what_cannot_be_found_is_named(elsewhere, name, message):
    with pytest.raises(UserError, match=message) as refused:
        registry.find_method(name)
    assert "\n" not in str(refused.value)


def test_an_entry_point_does_not_hide_a_method_of_the_package(monkeypatch):
    point = types.SimpleNamespace
    points = [point(name="dytox", value="elsewhere:Mine"), point(name="mine", value="elsewhere:Mine")]
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: points if group == "dytox.methods" else []
    )
    places = registry.places()
    assert places["mine"] == "elsewhere:Mine"
    assert places["dytox"] == registry.BUILT_IN["dytox"]


def test_the_options_are_completed(tiny):
    config = registry.complete(tiny("dytox", method={"divergence": 0.3}))
    assert config.method.options["divergence"] == 0.3
    assert config.method.options["finetuning"] is True
    assert registry.complete(config) == config
