"""The training loop: the phases of a task, the epochs of a phase, the batches of an epoch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from torch import Tensor

from dytox.data.loader import Loader
from dytox.engine.compiling import compile_parts
from dytox.engine.encodings import encode
from dytox.engine.lesson import Lesson
from dytox.engine.moment import Moment
from dytox.engine.observer import Diverged, Interrupted, Observer, State
from dytox.engine.phase import Action, Phase, Training, freeze, set_learning
from dytox.engine.runtime import within_memory
from dytox.engine.sums import Sums
from dytox.engine.update import Update
from dytox.errors import UserError
from dytox.models.cached import cached, frozen
from dytox.randomness import Position


def learn(lesson: Lesson, observer: Observer, start: State | None = None) -> None:
    """Run the phases of the lesson's task, from `start` on."""
    task = lesson.task.index
    state = start or State(Position(task))
    phases = phases_of(lesson)
    while state.position.phase < len(phases):
        phase = phases[state.position.phase]
        lesson.position = Position(task, state.position.phase)
        observer.phase_started(lesson, phase)
        with within_memory(f"phase {phase.name!r} of task {task + 1}"):
            if isinstance(phase, Action):
                phase.run(lesson)
            else:
                train(lesson, phase, observer, state)
        state = State(Position(task, state.position.phase + 1))
        reach(lesson, state, observer)
    freeze(lesson.method)


def phases_of(lesson: Lesson) -> Sequence[Phase]:
    """The phases of the lesson's task; without new classes, the phases that refresh the known ones."""
    method, task = lesson.method, lesson.task
    phases = method.phases(task) if task.new else method.refresh(task)
    return [
        replace(phase, config=phase.config.for_task(task.index)) if isinstance(phase, Training) else phase
        for phase in phases
    ]


def reach(lesson: Lesson, state: State, observer: Observer) -> None:
    """Report a state from which the lesson can be resumed; raise `Interrupted` if any process must stop."""
    lesson.position = state.position
    stopping = lesson.world.any(observer.stop_wanted())
    observer.state_reached(lesson, state, stopping=stopping)
    if stopping:
        raise Interrupted


def train(lesson: Lesson, phase: Training, observer: Observer, state: State) -> None:
    """Run a training phase from `state` on; a phase without images is skipped."""
    samples = lesson.samples(phase.samples)
    if not len(samples):
        return
    set_learning(lesson.method, phase.learns())
    lesson.method.count_classes(samples.labels)
    if lesson.config.runtime.compile:
        compile_parts(lesson.method)
    update = Update(lesson.method, phase.config, lesson.sam(phase.name), lesson.world)
    update.load_state(state.optimizer)
    loader = Loader(
        samples,
        phase.config,
        lesson.augmentation,
        seed=lesson.config.seed,
        mixup=lesson.config.augment.mixup,
        device=lesson.method.device,
        dtype=lesson.method.dtype,
        rows=lesson.world.rows,
        workers=lesson.config.runtime.workers,
        encodings=encode(lesson, samples, phase),
    )
    refuse_idle_processes(lesson, phase, loader)
    with closing(loader), cached(frozen(lesson.method.modules())):
        while state.position.epoch < phase.config.epochs:
            run_epoch(lesson, phase, loader, update, observer, state)
            state = State(replace(lesson.position, epoch=state.position.epoch + 1, step=0), update.state())
            if state.position.epoch < phase.config.epochs:
                reach(lesson, state, observer)
    update.finish()


def run_epoch(
    lesson: Lesson, phase: Training, loader: Loader, update: Update, observer: Observer, state: State
) -> None:
    """Train on the batches of an epoch, from `state` on; no step waits for the device."""
    lesson.position = state.position
    batches = loader.epoch(state.position)
    observer.epoch_started(lesson, steps=len(batches), done=state.position.step)
    sums = Sums(state.sums if lesson.world.main else {})
    began = time.perf_counter()
    if not state.position.step:
        lesson.method.before_epoch(moment_of(lesson, phase, batches))
    decoded = loader.pixels(batches, state.position)
    for step in range(state.position.step, len(batches)):
        lesson.position = replace(state.position, step=step)
        draw = lesson.method.model.draw
        batch = loader.batch(batches[step], lesson.position, phase.name, draw, next(decoded))
        lr = update.follow_schedule(state.position.epoch, step, len(batches))
        losses = update(batch, moment_of(lesson, phase, batches))
        sums.add(losses, images=len(batches[step]), step=step)
        observer.step_ended(lesson, losses["total"])
        if step + 1 < len(batches) and lesson.world.any(observer.stop_wanted()):
            totals = finite_sums(lesson, phase, sums)
            reach(lesson, State(replace(state.position, step=step + 1), update.state(), totals), observer)
    totals = finite_sums(lesson, phase, sums)
    images = sum(len(batch) for batch in batches)
    fresh = sum(len(batch) for batch in batches[state.position.step :])
    record = {
        "task": lesson.task.index,
        "phase": phase.name,
        "phase_index": state.position.phase,
        "epoch": state.position.epoch,
        "losses": {name: total / images for name, total in totals.items()},
        "lr": lr,  # at the epoch's last step
        "images_per_second": round(fresh / (time.perf_counter() - began), 1),
    }
    observer.epoch_ended(lesson, record)


def moment_of(lesson: Lesson, phase: Training, batches: Sequence[Tensor]) -> Moment:
    """The `Moment` of the lesson's position in an epoch of these batches."""
    position, seed = lesson.position, lesson.config.seed
    return Moment(phase.name, position, len(batches), len(batches[position.step]), seed)


def refuse_idle_processes(lesson: Lesson, phase: Training, loader: Loader) -> None:
    """Raise where a batch has fewer pairs of images than there are processes."""
    smallest = min(len(batch) for batch in loader.epoch(lesson.position))
    if (smallest + 1) // 2 < lesson.world.size:
        raise UserError(
            f"{lesson.world.size} processes are more than the pairs in a batch of {smallest} images of phase "
            f"{phase.name!r}: use at most {(smallest + 1) // 2}, or a larger batch."
        )


def finite_sums(lesson: Lesson, phase: Training, sums: Sums) -> dict[str, float]:
    """The epoch's sums; a loss that is not finite raises `Diverged` before the state is saved."""
    totals, bad_step = sums.over(lesson.world)
    if bad_step is not None:
        position = replace(lesson.position, step=bad_step)
        raise Diverged(
            f"The loss is NaN or infinite at step {bad_step + 1} of epoch {lesson.position.epoch + 1} of "
            f"phase {phase.name!r} of task {lesson.task.index + 1}: start a new run with a learning rate "
            f"below {phase.config.effective_lr:g} (the state before this epoch is kept).",
            position,
        )
    return totals
