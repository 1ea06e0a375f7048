"""The memory after a task, and what is learned from it alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from dytox.data.samples import Samples
from dytox.data.scenario import Task
from dytox.engine.evaluate import features, refuse_no_numbers
from dytox.engine.lesson import Lesson
from dytox.engine.method import Method
from dytox.engine.phase import Action, Phase, Training
from dytox.memory import exemplars_per_share, selected


def growing(method: Method, task: Task) -> list[Phase]:
    """From the second task on, keep the network as it is for a teacher; make room for the new classes."""
    teacher: list[Phase] = [Action("teacher", method.keep_teacher)] if task.index else []
    return [*teacher, Action("expand", method.expand)]


def refresh(method: Method) -> Sequence[Phase]:
    """Select the memory again, with the lesson's images; finetune on it."""
    return [
        Action("memory", select_memory),
        Training("refresh", "memory", method.rehearses, method.config.finetuning),
    ]


def balanced_subset(lesson: Lesson) -> Samples:
    """New images and memory, of every class as many as of the smallest, drawn at random."""
    samples, source = lesson.samples("new+memory"), lesson.generator("balanced")
    fewest = int(samples.labels.unique(return_counts=True)[1].min())
    shuffled = torch.randperm(len(samples), generator=source)
    labels = samples.labels[shuffled]
    return samples.take(torch.cat([shuffled[labels == each][:fewest] for each in labels.unique()]))


def most_wanted(lesson: Lesson, share: int, quota: int) -> Samples:
    """The images that a share of the memory wants most, of all that the lesson has."""
    candidates = lesson.new
    if lesson.known is not None:
        candidates = Samples.concatenate([lesson.new, lesson.known, lesson.known_exemplars(share)])
    return select(lesson, candidates, share, quota)


def select_memory(lesson: Lesson, choose: Callable[[Lesson, int, int], Samples] = most_wanted) -> None:
    """Old classes keep the first of theirs; each new class gets the images that the selection wants most.

    An old class of which the lesson has more images is selected again, from these and its exemplars.
    One set by default, by features without augmentation. With shares, each share selects by features of
    images augmented its own way.
    """
    config, task = lesson.config.memory, lesson.task
    if not config.size:
        return
    quota = exemplars_per_share(config, task.seen)
    memory = lesson.memory.without(lesson.known_classes).shrunk(quota)
    for share in range(config.shares):
        memory = memory.extended(choose(lesson, share, quota), share)
    lesson.memory = memory


def select(lesson: Lesson, candidates: Samples, share: int, quota: int) -> Samples:
    """The images of each class that a share of the memory wants most, best first."""
    config = lesson.config.memory
    found = features(lesson, candidates, None if config.shares == 1 else share)
    refuse_no_numbers(found, lesson.task.index)
    source = lesson.generator(f"select {share}")
    order, counts = candidates.labels.argsort(stable=True), candidates.labels.unique(return_counts=True)[1]
    places = order.split(counts.tolist())  # of each class
    best = selected(config.selection, [found[each] for each in places], quota, source)
    chosen = torch.cat([each[wanted] for each, wanted in zip(places, best, strict=True)])
    wanted = lesson.world.from_main(chosen)  # one selection, whatever the processes' rounding
    return candidates.take(wanted)
