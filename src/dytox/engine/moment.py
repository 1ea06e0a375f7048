"""Where an update stands: what the hooks of a method may go by."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch

from dytox.randomness import Position, generator, seeded


@dataclass(frozen=True)
class Moment:
    """One update of a training phase; the same in every process."""

    phase: str = ""  # its name
    position: Position = field(default_factory=Position)  # with the epoch, and the step in it
    steps: int = 1  # of the epoch
    images: int = 1  # of the global batch
    seed: int = 0

    def generator(self, purpose: str) -> torch.Generator:
        """For draws at this moment, on the CPU."""
        return generator(self.seed, self.position, purpose)

    def seeded(self, purpose: str) -> AbstractContextManager[None]:
        """Within it modules are initialised as this moment says."""
        return seeded(self.seed, self.position, purpose)
