"""A lesson as a checkpoint: all that it needs to go on as if it had not been cut off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dytox.engine.lesson import Lesson
from dytox.engine.observer import State
from dytox.runs.checkpoints import Checkpoint

GROUPS = ("method", "memory", "optimizer")


@dataclass(frozen=True)
class Kept:
    """A lesson in the middle: its method, its memory, and where it stands."""

    structure: dict[str, Any]
    method: dict[str, Tensor]
    memory: dict[str, Tensor]
    state: State


def pack(lesson: Lesson, state: State) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the JSON of a checkpoint."""
    parts = (lesson.method.state_dict(), lesson.memory.tensors(), state.optimizer)
    tensors = {
        f"{group}.{name}": each
        for group, part in zip(GROUPS, parts, strict=True)
        for name, each in part.items()
    }
    return tensors, {"structure": lesson.method.structure(), "sums": dict(state.sums)}


def unpack(checkpoint: Checkpoint) -> Kept:
    """What `pack` gave."""
    groups: dict[str, dict[str, Tensor]] = {group: {} for group in GROUPS}
    for key, tensor in checkpoint.tensors.items():
        group, _, name = key.partition(".")
        groups[group][name] = tensor
    method, memory, optimizer = (groups[group] for group in GROUPS)
    state = State(checkpoint.position, optimizer, checkpoint.state["sums"])
    return Kept(checkpoint.state["structure"], method, memory, state)
