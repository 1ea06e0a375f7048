"""Every preset of the package, through two tasks of made images."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest

from dytox import ContinualLearner, recipes
from dytox.data.samples import Samples
from dytox.methods import registry

SMALL: dict[str, Any] = {
    "data": {"image_size": 8},
    "model": {"patch_size": 4, "dim": 12, "heads": 3, "depth": 1},
    "training": {"epochs": 1, "batch": 16, "schedule": {"warmup_epochs": 0, "milestones": []}},
    "finetuning": {"epochs": 1, "batch": 16, "schedule": {"warmup_epochs": 0, "milestones": []}},
    "runtime": {"device": "cpu"},
}
METHODS, SCENARIOS = list(recipes.methods()), list(recipes.scenarios())
longer, shorter = sorted((METHODS, SCENARIOS), key=len, reverse=True)
PAIRS = [
    (scenario, method)
    for one, other in zip(longer, cycle(shorter), strict=False)
    for scenario, method in [(one, other) if longer is SCENARIOS else (other, one)]
]
TUNED = {
    method
    for method in METHODS
    if registry.find_method(method.partition("-")[0]).preset.base == "transformer"
}
TUNED -= {"finetune-resnet", "joint-resnet", "replay-resnet"}
PAIRS = [
    (each if method in TUNED or not each.endswith("-tuned") else "cifar20-5-short", method)
    for each, method in PAIRS
] + [("cifar100-10-tuned", "dytox-plus"), ("cifar20-5-tuned", "dytox")]


def test_every_preset_is_among_the_pairs() -> None:
    assert {scenario for scenario, _ in PAIRS} == set(SCENARIOS)
    assert {method for _, method in PAIRS} == set(METHODS)


def test_every_scenario_goes_with_every_method() -> None:
    for scenario in SCENARIOS:
        for method in TUNED if scenario.endswith("-tuned") else METHODS:
            config = registry.complete(recipes.compose(scenario, method=method))
            assert config.recipe == scenario
            assert config.method.name == method.partition("-")[0]  # a preset is named by its method


@pytest.mark.parametrize(("scenario", "method"), PAIRS)
def test_two_tasks(scenario: str, method: str, made: Callable[..., Samples]) -> None:
    """At its own scale, with its own losses, memory and schedule; only sizes and lengths are small."""
    values, model = SMALL, recipes.compose(scenario, method=method).model
    if model.frozen:  # a pretrained encoder, on images as small as they are
        values = {**SMALL, "model": {"input_size": None}}
    elif model.decoder == "pool":
        values = {**SMALL, "model": {"encoder": "resnet8"}}
    elif model.encoder.startswith("conv"):
        values = {**SMALL, "model": {"encoder": "conv-tiny"}}
    config = recipes.compose(scenario, method=method, values=values)
    learner = ContinualLearner(config)
    for first in (0, 2):
        samples = made(first, first + 2, each=6)
        learner.learn(samples.images, samples.labels)
    scores = learner.predict_proba(made(0, 4, each=1).images)
    assert scores.shape == (4, 4)
    assert scores.sum(axis=1) == pytest.approx(1, abs=1e-4)
    assert (len(learner.memory) > 0) == (config.memory.size > 0)
