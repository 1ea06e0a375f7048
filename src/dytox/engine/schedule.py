"""The learning rate, a function of the position in a phase alone: a resumed run computes the same."""

from __future__ import annotations

import math

from dytox.config import PhaseConfig, ScheduleConfig


def learning_rate(
    phase: PhaseConfig, epoch: int, step: int = 0, steps: int = 1, *, peak: float | None = None
) -> float:
    """The learning rate at a step of an epoch of `steps`, where the phase's highest is `peak`.

    It rises linearly from `warmup_lr` in the warm-up. The clock of a cosine starts with the warm-up, that of
    the linear decay after it. Unless the schedule is `per_step`, it stays the same for a whole epoch.
    """
    schedule = phase.schedule
    peak = phase.effective_lr if peak is None else peak
    now = epoch + step / steps if schedule.per_step else epoch  # in epochs
    warmup = schedule.warmup_share * phase.epochs or schedule.warmup_epochs
    if now < warmup:
        return schedule.warmup_lr + (peak - schedule.warmup_lr) * now / warmup
    if schedule.name == "cosine":
        turn = 1 + math.cos(math.pi * now / phase.epochs)
        return schedule.min_lr + (peak - schedule.min_lr) * turn / 2
    if schedule.name == "linear":
        return schedule.min_lr + (peak - schedule.min_lr) * (phase.epochs - now) / (phase.epochs - warmup)
    if schedule.name == "step":
        return float(peak * schedule.gamma ** sum(now >= each for each in schedule.milestones))
    return peak


def stretched(phase: PhaseConfig, epochs: int) -> ScheduleConfig:
    """The schedule of a phase for another number of epochs.

    The milestones of a step schedule and its warm-up stay at the same share of the phase. Other schedules do
    not change: the warm-up of DyTox's cosine has five epochs at every scale.
    """
    schedule = phase.schedule
    if schedule.name != "step" or not phase.epochs:
        return schedule
    first, *others = (
        round(each * epochs / phase.epochs) for each in (schedule.warmup_epochs, *schedule.milestones)
    )
    return schedule.model_copy(update={"warmup_epochs": first, "milestones": others})
