"""A lesson: one task being learned, and everything that its phases may use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch

from dytox.config import Config, SamConfig
from dytox.data.augment import Augmentation
from dytox.data.exemplars import Exemplars
from dytox.data.samples import Samples
from dytox.data.scenario import Task
from dytox.engine.distributed import World
from dytox.engine.method import Method
from dytox.engine.phase import SampleSource, Training
from dytox.errors import unknown
from dytox.randomness import Position, generator, seeded


@dataclass
class Lesson:
    """One task being learned, as its phases see it."""

    config: Config
    method: Method
    task: Task
    new: Samples
    memory: Exemplars
    known: Samples | None = None  # new images of classes that are known already; they join the rehearsal
    earlier: Samples | None = None  # all images of earlier tasks, for methods that need them
    world: World = field(default_factory=World)
    position: Position = field(default_factory=Position)

    @property
    def augmentation(self) -> Augmentation:
        """The augmentation of training images."""
        data = self.config.data
        return Augmentation(self.config.augment, mean=data.mean, std=data.std)

    def samples(self, source: SampleSource | Callable[[Lesson], Samples]) -> Samples:
        """The images of a source, or those that a function of the lesson returns."""
        if callable(source):
            return source(self)
        if source == "new":
            return self.new
        if source == "memory":
            return self.memory.samples.balanced()
        if source == "new+memory":
            known = [] if self.known is None else [self.known]
            return Samples.concatenate([self.new, *known, self.memory.samples])
        assert self.earlier is not None, "`ContinualLearner.refuse` has refused it"
        return Samples.concatenate([self.earlier, self.new])

    @property
    def known_classes(self) -> list[int]:
        """The classes known already of which the lesson has new images."""
        return [] if self.known is None else self.known.labels.unique().tolist()

    def known_exemplars(self, share: int) -> Samples:
        """The exemplars of `known_classes` in one share of the memory."""
        return self.memory.of(self.known_classes, share)

    def sam(self, phase: str) -> SamConfig | None:
        """The settings of sharpness-aware minimisation in a phase; None if it is off there."""
        sam = self.config.sam
        skipped = sam.skip_first and self.task.index == 0
        return sam if sam.rho and phase in sam.phases and not skipped else None

    def generator(self, purpose: str) -> torch.Generator:
        """A random generator for `purpose`, seeded by the position."""
        return generator(self.config.seed, self.position, purpose)

    def seeded(self, purpose: str) -> AbstractContextManager[None]:
        """A context in which torch draws (such as new weights) are seeded by the position."""
        return seeded(self.config.seed, self.position, purpose)


def refuse_unknown_phases(method: Method) -> None:
    """Raise if SAM is asked for in a phase that the method never has."""
    sam = method.config.sam
    if not sam.rho:
        return
    lessons = method.phases(Task(0, 0, 2)), method.phases(Task(1, 2, 2)), method.refresh(Task(2, 4, 0))
    known = {phase.name for phases in lessons for phase in phases if isinstance(phase, Training)}
    for name in sorted({*sam.phases} - known):
        raise unknown("phase in sam.phases", name, known)
