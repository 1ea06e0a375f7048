"""The moment of an update, which the hooks of a method are given."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch

from dytox.randomness import Position, generator, seeded


@dataclass(frozen=True)
class Moment:
    """One update of a training phase; equal in every process."""

    phase: str = ""  # the name of the phase
    position: Position = field(default_factory=Position)  # with the epoch, and the step in it
    steps: int = 1  # updates in the epoch
    images: int = 1  # in the global batch
    seed: int = 0

    def generator(self, purpose: str) -> torch.Generator:
        """A random generator for `purpose` on the CPU, seeded by the position."""
        return generator(self.seed, self.position, purpose)

    def seeded(self, purpose: str) -> AbstractContextManager[None]:
        """A context in which torch draws (such as new weights) are seeded by the position."""
        return seeded(self.seed, self.position, purpose)
