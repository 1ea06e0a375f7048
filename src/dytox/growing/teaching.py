"""Teach a model directory, or make it forget: it changes by one rename at the end, or not at all.

Until then the lesson's checkpoints are in `.learning/` inside the model directory, so that the same command
continues where it was cut off. They are dropped if the model, the images or the config have changed by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from dytox.data.samples import Samples
from dytox.engine.evaluate import remembering
from dytox.engine.observer import Observer, Observers, State
from dytox.engine.runtime import set_up
from dytox.errors import UserError
from dytox.growing.measure import AccuracyChange, accuracy_changes, right
from dytox.growing.plan import Plan, model_state
from dytox.learner import ContinualLearner
from dytox.learner.keeping import Keeper
from dytox.runs import files, locks
from dytox.runs.checkpoints import Checkpoints
from dytox.upgrade import NewerFormat


def teach(plan: Plan, observer: Observer | None = None) -> list[AccuracyChange]:
    """Teach the model directory the plan's images, continuing an attempt that was cut off."""
    learner, path, observer = plan.learner, plan.path, observer or Observer()
    measured = Samples.concatenate([learner.held_out, plan.held])
    old, given = len(learner.class_names), [learner.class_names.index(name) for name in plan.known]
    set_up(learner.config.runtime)
    with remembering(lambda: learner.method), locked(path):
        before = right(learner, measured)
        if model_state(path) != plan.state:
            raise UserError(f"{path} was changed by somebody else meanwhile: start again.")
        learned = {"model": plan.state, "images": plan.fingerprint, "held": len(plan.held)}
        keeper = Keeper(Checkpoints(path / ".learning"), learner, learned, "The lesson")
        start = _restore(keeper, observer)
        observers = Observers([keeper, observer])
        learner.learn_task(plan.learned, plan.new, held_out=plan.held, observer=observers, start=start)
        table = accuracy_changes(measured.labels, before, right(learner, measured), old=old, given=given)
        learner.history[-1] |= {"held_out": list(map(asdict, table)), "fingerprint": plan.fingerprint}
        learner.save(path)
        discard(path)
    return table


def forget(path: Path, names: Sequence[str], *, method: str | None = None) -> tuple[ContinualLearner, int]:
    """Remove classes from the model directory; returns the learner and how many images went with them.

    A custom method must be named, as `ContinualLearner.load` asks for.
    """
    ContinualLearner.load(path, method=method)  # raises if it is no model, before a lock file is made
    with locked(path):
        learner = ContinualLearner.load(path, method=method)
        before = len(learner.memory) + len(learner.held_out)
        learner.forget(*names)
        learner.save(path)
        discard(path)
    return learner, before - len(learner.memory) - len(learner.held_out)


def discard(path: Path) -> None:
    """Remove the checkpoints of a lesson that was cut off."""
    files.remove_folder(path / ".learning")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the model directory against changes by other processes."""
    files.make_folder(path)
    files.refuse_links(path, [".learning"])
    with locks.exclusive(path, f"The model {path}"):
        yield


def _restore(keeper: Keeper, observer: Observer) -> State | None:
    """Go on from the newest checkpoint; one that does not fit is dropped, and the observer is told why."""
    try:
        checkpoint = keeper.checkpoints.newest()
        return None if checkpoint is None else keeper.restore(checkpoint, observer.noticed)
    except NewerFormat:
        raise
    except UserError as error:
        observer.noticed(f"The lesson that was cut off starts from its beginning: {error}")
        return None
