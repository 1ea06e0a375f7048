"""A method is a short list of phases: actions, and trainings that own what learns and what is frozen."""

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

Source = Literal["new", "new+memory", "memory", "all"]


@dataclass(frozen=True)
class Action:
    """A phase of zero epochs: expand, keep the teacher, select the memory, align, prune …"""

    name: str
    run: Callable[[Lesson], None]


@dataclass(frozen=True)
class Training:
    """Epochs over some samples, in which `learns()` learn: all else is frozen and in eval mode.

    Samples are a source, or a function of the lesson, which must give the same whenever it is asked; if it
    gives none, the phase is left out.
    """

    name: str
    samples: Source | Callable[[Lesson], Samples]
    learns: Callable[[], Iterable[nn.Module | nn.Parameter]]
    config: PhaseConfig


Phase = Action | Training


def set_learning(method: nn.Module, parts: Iterable[nn.Module | nn.Parameter]) -> None:
    """Lets these parts learn, and nothing else."""
    freeze(method)
    for part in parts:
        if isinstance(part, nn.Module):
            part.train()
            for parameter in part.parameters():
                parameter.requires_grad_(not isinstance(parameter, Constant))
        else:
            part.requires_grad_(True)


def freeze(method: nn.Module) -> None:
    """Nothing learns."""
    method.eval()
    method.requires_grad_(False)
