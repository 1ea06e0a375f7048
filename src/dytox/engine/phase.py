"""The phases of a method: actions, and trainings, which say what is trained and what is frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from torch import nn

from dytox.config import PhaseConfig
from dytox.data.samples import Samples
from dytox.models.base import Constant

if TYPE_CHECKING:
    from dytox.engine.lesson import Lesson

SampleSource = Literal["new", "new+memory", "memory", "all"]


@dataclass(frozen=True)
class Action:
    """A phase without training: expand, keep the teacher, select the memory, align, prune …"""

    name: str
    run: Callable[[Lesson], None]


@dataclass(frozen=True)
class Training:
    """Epochs over some samples, in which the parts that `learns()` returns are trained.

    Everything else is frozen and in eval mode. The samples are a source, or a function of the lesson that
    returns the same samples whenever it is called; if it returns none, the phase is skipped.
    """

    name: str
    samples: SampleSource | Callable[[Lesson], Samples]
    learns: Callable[[], Iterable[nn.Module | nn.Parameter]]
    config: PhaseConfig


Phase = Action | Training


def set_learning(method: nn.Module, parts: Iterable[nn.Module | nn.Parameter]) -> None:
    """Make these parts trainable and put them into train mode; freeze everything else."""
    freeze(method)
    for part in parts:
        if isinstance(part, nn.Module):
            part.train()
            for parameter in part.parameters():
                parameter.requires_grad_(not isinstance(parameter, Constant))
        else:
            part.requires_grad_(True)


def freeze(method: nn.Module) -> None:
    """Make every parameter untrainable, and put every module into eval mode."""
    method.eval()
    method.requires_grad_(False)
