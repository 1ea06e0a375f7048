"""An observer that keeps what tests of methods ask for."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from dytox import ContinualLearner
from dytox.data.loader import Batch
from dytox.engine.lesson import Lesson
from dytox.engine.observer import Observer
from dytox.engine.phase import Training
from dytox.losses import Term
from dytox.methods import registry


@dataclass
class Step:
    """One update: its batch and terms, and what learned in it."""

    epoch: int
    batch: Batch
    terms: dict[str, Term]
    gradients: dict[str, Tensor | None]
    modes: dict[str, bool]
    passes: int  # forward passes of it: two with SAM


@dataclass
class Chapter:
    """One phase: all weights and buffers before and after it, and its updates."""

    task: int
    name: str
    training: bool
    buffers: set[str]
    before: dict[str, Tensor]
    after: dict[str, Tensor] = field(default_factory=dict)
    memory: dict[str, Tensor] = field(default_factory=dict)  # after it
    steps: list[Step] = field(default_factory=list)
    structure: dict[str, Any] = field(default_factory=dict)  # after it

    def moved(self, prefix: str) -> dict[str, bool]:
        """Whether each weight or buffer under this name is another after it."""
        names = [name for name in self.before if name.startswith(prefix) and name in self.after]
        assert names, f"nothing under {prefix}"
        return {name: not torch.equal(self.before[name], self.after[name]) for name in names}


def everything(method: torch.nn.Module) -> dict[str, Tensor]:
    """All weights and buffers, those that no file keeps among them."""
    tensors = {**dict(method.named_parameters()), **dict(method.named_buffers())}
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


class Diary(Observer):
    """Keeps all of it."""

    def __init__(self) -> None:
        self.chapters: list[Chapter] = []
        self._hook: Any = None
        self._seen: list[tuple[Batch, dict[str, Term]]] = []

    def phase_started(self, lesson, phase):
        training = isinstance(phase, Training)
        buffers = {name for name, _ in lesson.method.named_buffers()}
        before = everything(lesson.method)
        self.chapters.append(Chapter(lesson.task.index, phase.name, training, buffers, before))
        if training:
            self._hook = lesson.method.register_forward_hook(
                lambda method, inputs, terms: self._seen.append((inputs[0], terms))
            )

    def step_ended(self, lesson, total):
        method = lesson.method
        gradients = {
            name: None if weight.grad is None else weight.grad.clone()
            for name, weight in method.named_parameters()
            if weight.requires_grad
        }
        modes = {name: module.training for name, module in method.named_modules()}
        batch, terms = self._seen[0]  # of the two passes of SAM, the first
        step = Step(lesson.position.epoch, batch, terms, gradients, modes, len(self._seen))
        self.chapters[-1].steps.append(step)
        self._seen.clear()

    def state_reached(self, lesson, state, *, stopping):
        if (state.position.epoch, state.position.step) != (0, 0):
            return
        chapter = self.chapters[-1]
        chapter.after = everything(lesson.method)
        chapter.memory = lesson.memory.tensors()
        chapter.structure = lesson.method.structure()
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def phases(self, task: int) -> list[str]:
        """The names of a task's phases."""
        return [chapter.name for chapter in self.chapters if chapter.task == task]

    def chapter(self, task: int, name: str) -> Chapter:
        """The phase of this name."""
        (found,) = [each for each in self.chapters if (each.task, each.name) == (task, name)]
        return found


@pytest.fixture(scope="session")
def taught(tiny, made):
    """A learner that learned tasks of so many made classes, and the diary of it."""

    def teach(
        name: str = "dytox", /, *, increments: tuple[int, ...] = (2, 3, 2), each: int = 12, **over
    ) -> tuple[ContinualLearner, Diary]:
        learner, diary = ContinualLearner(tiny(name, **over)), Diary()
        for task, new in enumerate(increments):
            old = sum(increments[:task])
            samples = made(old, old + new, each=each)
            learner.learn(samples.images, samples.labels, observer=diary)
        return learner, diary

    return teach


@pytest.fixture(scope="session")
def midway(tiny):
    """A method in the middle of its last task's training, with its teacher; in eval mode."""

    def build(name: str, increments: Sequence[int], **over) -> Any:
        torch.manual_seed(0)
        config = registry.complete(tiny(name, **over))
        method = registry.find_method(config.method.name)(config)
        for classes in increments[:-1]:
            method.model.expand(classes)
        if len(increments) > 1:
            method.keep_teacher(None)
        method.model.expand(increments[-1])
        return method.eval()

    return build


@pytest.fixture(scope="session")
def lesson_of(made):
    """The lesson that a learner had last, or one like it: with its method and memory as they are."""

    def build(learner: ContinualLearner, first: int, last: int) -> Lesson:
        method, memory = copy.deepcopy(learner.method), learner.memory
        return Lesson(learner.config, method, learner.task, made(first, last), memory)

    return build
