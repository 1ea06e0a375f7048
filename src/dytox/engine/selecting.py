"""Selecting the exemplars that the memory keeps of a task."""

from __future__ import annotations

from collections.abc import Callable

import torch

from dytox.data.samples import Samples
from dytox.engine.evaluate import features, refuse_no_numbers
from dytox.engine.lesson import Lesson
from dytox.memory import exemplars_per_share, selected


def most_wanted(lesson: Lesson, share: int, quota: int) -> Samples:
    """At most `quota` images of each class of the lesson, selected for a share of the memory."""
    candidates = lesson.new
    if lesson.known is not None:
        candidates = Samples.concatenate([lesson.new, lesson.known, lesson.known_exemplars(share)])
    return select(lesson, candidates, share, quota)


def select_memory(lesson: Lesson, choose: Callable[[Lesson, int, int], Samples] = most_wanted) -> None:
    """Action: select the exemplars of new classes, and reduce those of old classes to the new quota.

    An old class of which the lesson has new images is selected again, from these and its exemplars. By
    default there is one set, selected by features without augmentation; with several shares, each selects by
    features of images that are augmented in its own way.
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
    """At most `quota` of the candidates of each class, by the selection of the config, best first."""
    config = lesson.config.memory
    found = features(lesson, candidates, None if config.shares == 1 else share)
    refuse_no_numbers(found, lesson.task.index)
    source = lesson.generator(f"select {share}")
    order, counts = candidates.labels.argsort(stable=True), candidates.labels.unique(return_counts=True)[1]
    places = order.split(counts.tolist())  # of the candidates of each class
    best = selected(config.selection, [found[each] for each in places], quota, source)
    chosen = torch.cat([each[wanted] for each, wanted in zip(places, best, strict=True)])
    wanted = lesson.world.from_main(chosen)  # processes may round differently, and the selection must be one
    return candidates.take(wanted)
