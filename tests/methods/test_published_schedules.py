"""The presets at the paper's scale, against the figures that the methods' papers and codes give."""

from __future__ import annotations

import pytest
import torch

from dytox import recipes
from dytox.config import PhaseConfig
from dytox.engine.schedule import learning_rate
from dytox.methods import registry

WARM = {0: 0.01, 5: 0.055, 10: 0.1, 109: 0.1, 110: 0.01, 129: 0.01, 130: 0.001, 169: 0.001}  # of DER's code


def rates(phase: PhaseConfig, at: dict[int, float]) -> dict[int, float]:
    return {epoch: learning_rate(phase, epoch) for epoch in at}


@pytest.mark.parametrize(
    ("name", "decay", "last_relu", "activation"),
    [
        ("finetune-resnet", 5e-4, True, "softmax"),
        ("replay-resnet", 5e-4, True, "softmax"),
        ("joint-resnet", 5e-4, True, "softmax"),
        ("icarl", 5e-4, False, "sigmoid"),
        ("e2e", 1e-4, True, "softmax"),
        ("ucir", 5e-4, False, "softmax"),
        ("bic", 5e-4, True, "softmax"),
        ("wa", 5e-4, True, "softmax"),
    ],
)
def test_training_has_the_schedule_of_ders_code(name, decay, last_relu, activation):
    config = recipes.compose("cifar100-10", method=name)
    training, optimizer = config.training, config.training.optimizer
    assert (training.epochs, training.batch) == (170, 128)
    assert rates(training, WARM) == pytest.approx(WARM)
    assert (optimizer.name, optimizer.momentum, optimizer.weight_decay) == ("sgd", 0.9, decay)
    assert optimizer.decay_vectors  # BatchNorm's and biases too, as SGD has it
    assert (config.model.encoder, config.model.last_relu) == ("resnet18", last_relu)
    assert config.loss.activation == activation
    augment = config.augment
    assert (augment.pad, augment.flip, augment.randaugment) == (4, 0.5, None)
    assert augment.brightness == pytest.approx(63 / 255)


def test_e2e_finetunes_for_30_epochs_and_divides_by_ten_at_10_and_20():
    finetuning = recipes.compose("cifar100-10", method="e2e").finetuning
    expected = {0: 0.01, 9: 0.01, 10: 1e-3, 19: 1e-3, 20: 1e-4, 29: 1e-4}
    assert finetuning.epochs == 30
    assert rates(finetuning, expected) == pytest.approx(expected)
    assert finetuning.optimizer.weight_decay == 1e-4


def test_bic_corrects_for_200_epochs_with_steps_at_100_and_150():
    config = registry.complete(recipes.compose("cifar100-10", method="bic"))
    correction = PhaseConfig.model_validate(config.method.options["correction"])
    expected = {0: 0.1, 99: 0.1, 100: 0.01, 149: 0.01, 150: 0.001, 199: 0.001}
    assert (correction.epochs, correction.batch) == (200, 128)
    assert rates(correction, expected) == pytest.approx(expected)
    assert correction.optimizer.weight_decay == 0.0


@pytest.mark.parametrize(
    ("name", "besides"),
    [
        ("finetune-resnet", 0),
        ("wa", 0),
        ("icarl", 100),  # a bias
        ("e2e", 100),
        ("ucir", 1),  # σ
        ("bic", 100 + 2),  # a bias, α and β
    ],
)
def test_parameters_are_11_22_million(name, besides):
    """The backbone, a row of 512 for each of 100 classes, and what a head has besides."""
    config = registry.complete(recipes.compose("cifar100-10", method=name))
    with torch.device("meta"):
        model = registry.find_method(config.method.name)(config).model
        for _ in range(10):
            model.expand(10)
    assert model.count_parameters() == 11_168_832 + 51_200 + besides
    assert model.count_parameters() / 1e6 == pytest.approx(11.22, abs=0.005)
