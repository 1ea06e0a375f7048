"""Checkpoints of what a learner is learning, for runs and for `dytox learn` alike.

A checkpoint names its origin: the config that decides the result, what is learned (by checksums and
counts), and the version of the package and the number of threads that wrote it. To go on from it:

- another config or other images are refused (`OtherOrigin`): a run ends there, `dytox learn` drops the
  checkpoint and says so;
- another version of the package or another number of threads is a notice, and so is a damaged checkpoint
  where there is an older one;
- a checkpoint of a newer format is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dytox import __version__
from dytox.checking import differing, validate
from dytox.config import Config
from dytox.engine.lesson import Lesson
from dytox.engine.observer import Observer, State
from dytox.errors import UserError
from dytox.learner.continual import ContinualLearner
from dytox.methods import registry
from dytox.runs.checkpoints import Checkpoint, Checkpoints

GROUPS = ("method", "memory", "optimizer")
_OTHER = {  # of what is learned, as messages call a difference in it
    "data": "other images",
    "images": "other images",
    "held": "other held-out images",
    "model": "another state of the model",
}


class OtherOrigin(UserError):
    """A checkpoint belongs to another config or to other images."""


@dataclass(frozen=True)
class Origin:
    """What a checkpoint belongs to, and what wrote it."""

    config: dict[str, Any]  # `Config.decisive`
    learned: dict[str, Any]  # checksums and counts, by the name of what they describe
    version: str
    threads: int | None  # None: not recorded, in checkpoints of format 1

    @staticmethod
    def now(config: Config, learned: Mapping[str, Any]) -> Origin:
        """The origin of what is learned in this process."""
        return Origin(config.decisive(), dict(learned), __version__, torch.get_num_threads())

    def to_json(self) -> dict[str, Any]:
        """As it stands in a checkpoint."""
        return {**self.learned, "config": self.config, "version": self.version, "threads": self.threads}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Origin:
        """What `to_json` gave; config keys that are new since then have their defaults."""
        learned = {key: each for key, each in content.items() if key not in ("config", "version", "threads")}
        config = registry.complete(validate(Config, content["config"])).decisive()
        return Origin(config, learned, content["version"], content.get("threads"))

    def compare(self, other: Origin, what: str) -> list[str]:
        """Notices about going on with `what`, which began with another origin; refused where it must not."""
        different = [
            f"{key} is {mine!r} and was {theirs!r}"
            for key, (mine, theirs) in differing(self.config, other.config).items()
        ]
        if different:
            raise OtherOrigin(
                f"{what} began with another config ({'; '.join(different)}): go on with the config that it "
                "began with."
            )
        for name, value in self.learned.items():
            if value != other.learned.get(name):
                raise OtherOrigin(f"{what} began with {_OTHER[name]}: go on with what it began with.")
        notices = []
        if self.version != other.version:
            notices.append(f"{what} began with dytox {other.version} and goes on with {self.version}.")
        if other.threads is not None and self.threads != other.threads:
            notices.append(
                f"{what} was computed with {_threads(other.threads)} and goes on with {self.threads}: other "
                "rounding gives other weights than without the interruption, unless you set "
                f"OMP_NUM_THREADS={other.threads}."
            )
        return notices


def _threads(number: int) -> str:
    return "1 thread" if number == 1 else f"{number} threads"


class Keeper(Observer):
    """Saves checkpoints of a learner's lessons, and restores the newest."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        learner: ContinualLearner,
        learned: Mapping[str, Any],
        what: str,
        more: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """Keep checkpoints of what `learner` learns.

        learned: checksums and counts of what is learned (`Origin.learned`).
        what: the run or lesson, as messages name it.
        more: returns further values to save in each checkpoint.
        """
        self.checkpoints, self.learner, self.what, self.more = checkpoints, learner, what, more
        self.origin = Origin.now(learner.config, learned)

    def state_reached(self, lesson: Lesson, state: State, *, stopping: bool) -> None:
        wanted = stopping or state.position.epoch % lesson.config.runtime.checkpoint_epochs == 0
        if wanted and lesson.world.main:
            tensors, content = pack(lesson, state)
            self.checkpoints.save(
                state.position, tensors, {**content, "origin": self.origin.to_json(), **self.more()}
            )

    def restore(
        self, checkpoint: Checkpoint, notice: Callable[[str], None], threads: int | None = None
    ) -> State:
        """Restore the learner from a checkpoint, and return where the lesson stands.

        notice: called with each sentence that the user should read.
        threads: used if the checkpoint does not record the number of threads (format 1).
        """
        content = {"threads": threads, **checkpoint.state["origin"]}
        notices = self.origin.compare(Origin.from_json(content), self.what)
        for sentence in [*checkpoint.skipped, *notices]:
            notice(sentence)
        return unpack(checkpoint, self.learner)


def pack(lesson: Lesson, state: State) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the JSON of a checkpoint."""
    parts = (lesson.method.state_dict(), lesson.memory.tensors(), state.optimizer)
    tensors = {
        f"{group}.{name}": each
        for group, part in zip(GROUPS, parts, strict=True)
        for name, each in part.items()
    }
    return tensors, {"structure": lesson.method.structure(), "sums": dict(state.sums)}


def unpack(checkpoint: Checkpoint, learner: ContinualLearner) -> State:
    """Restore method and memory from what `pack` gave, and return where the lesson stands."""
    groups: dict[str, dict[str, Tensor]] = {group: {} for group in GROUPS}
    for key, tensor in checkpoint.tensors.items():
        group, _, name = key.partition(".")
        groups[group][name] = tensor
    learner.restore(checkpoint.state["structure"], groups["method"], groups["memory"])
    return State(checkpoint.position, groups["optimizer"], checkpoint.state["sums"])
