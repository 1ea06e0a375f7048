"""The learning rate, worked out by hand."""

from __future__ import annotations

from math import cos, pi

import pytest

from dytox.config import Config, PhaseConfig, ScheduleConfig
from dytox.engine.schedule import learning_rate, stretched


def test_the_papers_rates():
    config = Config()
    assert config.training.batch == config.finetuning.batch == 256
    assert config.training.effective_lr == pytest.approx(2.5e-4)
    assert config.finetuning.effective_lr == pytest.approx(2.5e-5)


def test_the_batch_scales_the_rate():
    assert PhaseConfig(lr=1e-3, batch=1024).effective_lr == pytest.approx(2e-3)
    assert PhaseConfig(lr=1e-3, batch=64, lr_reference_batch=128).effective_lr == pytest.approx(5e-4)
    assert PhaseConfig(lr=1e-3, batch=64, lr_reference_batch=None).effective_lr == 1e-3


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, 1e-6),
        (1, 1e-6 + 2.49e-4 / 5),
        (4, 1e-6 + 2.49e-4 * 4 / 5),
        (5, 1e-5 + 2.4e-4 * (1 + cos(pi / 100)) / 2),  # the cosine's clock starts with the warm-up
        (125, 1e-5 + 2.4e-4 * (1 + 0.5**0.5) / 2),
        (250, 1.3e-4),
        (375, 1e-5 + 2.4e-4 * (1 - 0.5**0.5) / 2),
        (499, 1e-5 + 2.4e-4 * (1 - cos(pi / 500)) / 2),
    ],
)
def test_the_papers_cosine_with_warm_up(epoch, expected):
    assert learning_rate(Config().training, epoch) == pytest.approx(expected, rel=1e-9)


def test_a_rate_that_the_authors_logged():
    """On one GPU (batch 128), at t = 498 of 500."""
    one_gpu = Config().training.model_copy(update={"batch": 128})
    assert learning_rate(one_gpu, 498) == pytest.approx(1.000453996e-5, rel=1e-9)


def test_constant():
    finetuning = Config().finetuning
    assert [learning_rate(finetuning, epoch) for epoch in (0, 10, 19)] == [finetuning.effective_lr] * 3


def test_steps():
    schedule = ScheduleConfig(name="step", milestones=[80, 120], gamma=0.1)
    phase = PhaseConfig(epochs=160, lr=0.1, lr_reference_batch=None, schedule=schedule)
    rates = [learning_rate(phase, epoch) for epoch in (0, 79, 80, 119, 120, 159)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_steps_after_a_warm_up():
    schedule = ScheduleConfig(name="step", milestones=[110, 130], warmup_epochs=10, warmup_lr=0.01)
    phase = PhaseConfig(epochs=170, lr=0.1, lr_reference_batch=None, schedule=schedule)
    rates = [learning_rate(phase, epoch) for epoch in (0, 5, 9, 10, 109, 110, 130)]
    assert rates == pytest.approx([0.01, 0.055, 0.091, 0.1, 0.1, 0.01, 0.001])


def test_stretched_steps_stay_at_their_share():
    schedule = ScheduleConfig(name="step", warmup_epochs=1, milestones=[13, 15])
    phase = PhaseConfig(epochs=20, schedule=schedule)
    longer, shorter = stretched(phase, 100), stretched(phase, 3)
    assert (longer.warmup_epochs, longer.milestones) == (5, [65, 75])
    assert (shorter.warmup_epochs, shorter.milestones) == (0, [2, 2])
    assert stretched(phase, 20) == schedule
    assert stretched(Config().training, 100) == Config().training.schedule  # a cosine's warm-up stays


LINEAR = ScheduleConfig(name="linear", per_step=True, warmup_share=0.2, warmup_lr=0.0, min_lr=0.0)


@pytest.mark.parametrize(
    ("epoch", "step", "expected"),
    [
        (0, 0, 0.0),
        (0, 5, 0.025),  # half an epoch of the two of the warm-up
        (1, 0, 0.05),
        (2, 0, 0.1),
        (2, 5, 0.1 * 7.5 / 8),
        (6, 0, 0.05),
        (9, 9, 0.1 * 0.1 / 8),
    ],
)
def test_linear_by_the_step(epoch, step, expected):
    phase = PhaseConfig(epochs=10, lr=0.1, lr_reference_batch=None, schedule=LINEAR)
    assert learning_rate(phase, epoch, step, 10) == pytest.approx(expected, abs=1e-12)


def test_other_schedules_by_the_step():
    cosine = ScheduleConfig(name="cosine", per_step=True, min_lr=0.0)
    phase = PhaseConfig(epochs=4, lr=1.0, lr_reference_batch=None, schedule=cosine)
    assert learning_rate(phase, 1, 1, 2) == pytest.approx((1 + cos(pi * 1.5 / 4)) / 2)
    by_epoch = phase.model_copy(update={"schedule": cosine.model_copy(update={"per_step": False})})
    assert learning_rate(by_epoch, 1, 1, 2) == learning_rate(by_epoch, 1) == pytest.approx((1 + 0.5**0.5) / 2)


def test_another_peak():
    phase = PhaseConfig(epochs=10, lr=0.1, lr_reference_batch=None, schedule=LINEAR)
    assert learning_rate(phase, 6, peak=0.002) == pytest.approx(0.001)


def test_the_first_task_may_have_other_epochs():
    phase = PhaseConfig(epochs=10, first_epochs=20)
    assert [phase.for_task(task).epochs for task in (0, 1, 2)] == [20, 10, 10]
    assert PhaseConfig(epochs=10).for_task(0).epochs == 10
