"""What every network of the package gives and takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dytox.errors import UserError


class Constant(nn.Parameter):
    """A parameter that is loaded, saved and counted, and that no phase trains."""

    def __new__(cls, data: Tensor, requires_grad: bool = False) -> Constant:
        return super().__new__(cls, data, False)


@dataclass(frozen=True)
class Output:
    """One forward pass."""

    logits: Tensor  # (batch, classes seen)
    embeddings: Tensor  # (batch, tasks, dim): what the heads see, and what herding selects by
    divergence: Tensor | None = None  # (batch, 1 + new classes), while a divergence head is there
    maps: tuple[Tensor, ...] = ()  # (batch, channels, height, width) at the end of each stage of convolutions

    def ordinary(self) -> Output:
        """A pass made in inference mode, as tensors that autograd takes."""
        divergence = None if self.divergence is None else self.divergence.clone()
        maps = tuple(each.clone() for each in self.maps)
        return Output(self.logits.clone(), self.embeddings.clone(), divergence, maps)


class ContinualModel(nn.Module):
    """A network that grows by a task at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.increments: list[int] = []  # classes of each task so far

    @property
    def classes(self) -> int:
        """The number of classes seen."""
        return sum(self.increments)

    @property
    def old(self) -> int:
        """The number of classes of all tasks but the last."""
        return sum(self.increments[:-1])

    def expand(self, classes: int) -> None:
        """Makes room for a task of so many new classes."""
        raise TypeError(f"{type(self).__name__} cannot expand")

    def forget(self, places: Collection[int]) -> None:
        """Without these classes, by their place; the logits of all others stay as they are, bit by bit."""
        raise UserError(f"The network {type(self).__name__} cannot forget a class.")

    def draw(self, generator: torch.Generator, batch: int) -> dict[str, Tensor]:
        """The random numbers of a training pass for a batch; the first dimension of each is the batch."""
        return {}

    def constant_parts(self) -> list[nn.Module]:
        """The parts that no task changes: compiled once, they stay so while the model grows."""
        return []

    def structure(self) -> dict[str, Any]:
        """What must be known to build an equal network before its weights are loaded; JSON."""
        return {"increments": list(self.increments)}

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        """Grows a new network to this structure; its weights are loaded afterwards."""
        for classes in structure["increments"]:
            self.expand(classes)

    def count_parameters(self) -> int:
        """The number of parameters needed to predict."""
        return sum(parameter.numel() for parameter in self.parameters())
