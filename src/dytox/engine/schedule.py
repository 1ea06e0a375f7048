"""The learning rate of each epoch, as a function of the epoch alone."""

from __future__ import annotations

import math

from dytox.config import PhaseConfig, ScheduleConfig


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


def stretched(phase: PhaseConfig, epochs: int) -> ScheduleConfig:
    """The schedule of a phase for other epochs: steps, and the warm-up before them, at the same share.

    The warm-up of a cosine stays: DyTox has five epochs of it at every scale.
    """
    schedule = phase.schedule
    if schedule.name != "step" or not phase.epochs:
        return schedule
    first, *others = (
        round(each * epochs / phase.epochs) for each in (schedule.warmup_epochs, *schedule.milestones)
    )
    return schedule.model_copy(update={"warmup_epochs": first, "milestones": others})
