"""The learning rate of each epoch, as a function of the epoch alone."""

from __future__ import annotations

import math

from dytox.config import PhaseConfig


def learning_rate(phase: PhaseConfig, epoch: int) -> float:
    """Linear warm-up from `warmup_lr`, then the schedule, whose clock starts with the warm-up."""
    peak, schedule = phase.effective_lr, phase.schedule
    if epoch < schedule.warmup_epochs:
        return schedule.warmup_lr + (peak - schedule.warmup_lr) * epoch / schedule.warmup_epochs
    if schedule.name == "cosine":
        turn = 1 + math.cos(math.pi * epoch / phase.epochs)
        return schedule.min_lr + (peak - schedule.min_lr) * turn / 2
    if schedule.name == "step":
        return float(peak * schedule.gamma ** sum(epoch >= each for each in schedule.milestones))
    return peak
