"""Random numbers as a function of position.

Every draw of a run comes from a generator that is seeded with (seed, task, phase, epoch, step) and the name
of what is drawn. No draw depends on earlier ones: a resumed run draws the same numbers as one that was not
interrupted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass(frozen=True, order=True)
class Position:
    """The position of the next step in a run."""

    task: int = 0
    phase: int = 0
    epoch: int = 0
    step: int = 0


def seed_of(seed: int, position: Position, purpose: str) -> int:
    """A seed of 63 bits that is the same on every machine and in every version of Python."""
    key = (seed, position.task, position.phase, position.epoch, position.step, purpose)
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(seed: int, position: Position, purpose: str) -> torch.Generator:
    """A generator on the CPU, so that runs on a GPU draw the same numbers."""
    return torch.Generator().manual_seed(seed_of(seed, position, purpose))


@contextmanager
def seeded(seed: int, position: Position, purpose: str) -> Iterator[None]:
    """Seed torch's global generator within the block, for the initialisation of modules."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_of(seed, position, purpose))
        yield
