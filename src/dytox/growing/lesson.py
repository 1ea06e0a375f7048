"""Learning a plan, all or nothing: the model directory changes by one rename, at the end.

Until then the lesson's checkpoints are in `.learning/` inside the model directory, so that the same command
goes on where it was cut off. They are dropped if the model, the images or the config are others by then.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dytox import __version__
from dytox.data.samples import Samples
from dytox.engine import keeping
from dytox.engine.lesson import Lesson
from dytox.engine.observer import Observer, Observers, State
from dytox.engine.runtime import set_up
from dytox.errors import UserError
from dytox.growing.measure import Row, right, rows
from dytox.growing.plan import Plan, state_of
from dytox.learner import ContinualLearner
from dytox.runs import files, locks
from dytox.runs.checkpoints import Checkpoints


class Keeper(Observer):
    """Keeps checkpoints of one lesson."""

    def __init__(self, checkpoints: Checkpoints, origin: dict[str, Any]) -> None:
        self.checkpoints, self.origin = checkpoints, origin

    def state_reached(self, lesson: Lesson, state: State, *, stopping: bool) -> None:
        """One more, at the wanted interval and where the lesson stops."""
        position = state.position
        if stopping or position.epoch % lesson.config.runtime.checkpoint_epochs == 0:
            tensors, content = keeping.pack(lesson, state)
            self.checkpoints.save(position, tensors, {"origin": self.origin, **content})


def learn(plan: Plan, observer: Observer) -> list[Row]:
    """Teaches the model directory the plan's images, from where an earlier attempt was cut off."""
    learner, path = plan.learner, plan.path
    measured = Samples.concatenate([learner.held_out, plan.held])
    old, given = len(learner.class_names), [learner.class_names.index(name) for name in plan.known]
    set_up(learner.config.runtime)
    before = right(learner, measured)
    with locked(path):
        if state_of(path) != plan.state:
            raise UserError(f"{path} was changed by somebody else meanwhile: start again.")
        checkpoints, origin = Checkpoints(path / ".learning"), _origin(plan)
        start = _restore(learner, checkpoints, origin)
        observers = Observers([Keeper(checkpoints, origin), observer])
        learner.learn_task(plan.learned, plan.new, held_out=plan.held, observer=observers, start=start)
        table = rows(measured.labels, before, right(learner, measured), old=old, given=given)
        learner.history[-1] |= {"held_out": list(map(asdict, table)), "fingerprint": plan.fingerprint}
        learner.save(path)
        discard(path)
    return table


def discard(path: Path) -> None:
    """Away with what a lesson that was cut off has left."""
    shutil.rmtree(path / ".learning", ignore_errors=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Within it no other process changes the model."""
    files.make_folder(path / ".learning")
    with locks.exclusive(path / ".learning" / "lock", f"The model {path}"):
        yield


def _origin(plan: Plan) -> dict[str, Any]:
    """What a checkpoint belongs to."""
    return {
        "model": plan.state,
        "images": plan.fingerprint,
        "held": len(plan.held),
        "config": plan.learner.config.decisive(),
        "version": __version__,
    }


def _restore(learner: ContinualLearner, checkpoints: Checkpoints, origin: dict[str, Any]) -> State | None:
    try:
        checkpoint = checkpoints.newest()
    except UserError:  # none that can be used: from the beginning
        return None
    if checkpoint is None or checkpoint.state["origin"] != origin:
        return None
    kept = keeping.unpack(checkpoint)
    learner.restore(kept.structure, kept.method, kept.memory)
    return kept.state
