"""A validation set from memory and new images alike, from which nothing is ever learned.

Of the exemplars of a class about every tenth, in the order in which they were wanted, is for validation:
those at the places 1, 11, 21 …, so that a memory that shrinks keeps its share. As many images of each new
class are held out while it is learned, and it is these that take those places in the memory.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dytox.data.samples import Samples
from dytox.engine.lesson import Lesson
from dytox.engine.rehearsal import select, select_memory
from dytox.memory import exemplars_per_share
from dytox.randomness import Position, generator

EACH = 10


def reserved(count: int) -> int:
    """How many of so many exemplars of a class are for validation: none of one, else at least one."""
    return (count + EACH - 2) // EACH


def learned(lesson: Lesson) -> Samples:
    """New images and memory without what is for validation."""
    known = [] if lesson.known is None else [lesson.known]
    return Samples.concatenate([_new(lesson, held=False), *known, _learned_memory(lesson)])


def validation(lesson: Lesson) -> Samples:
    """What is for validation: as many images of each new class as of an old one; none without both."""
    first = lesson.memory.shares == 0  # of several shares one, or there would be more of the old
    new, old = _new(lesson, held=True), lesson.memory.samples.take(_for_validation(lesson) & first)
    both = Samples.concatenate([new, old])
    return both if len(new) and len(old) else both.take(torch.zeros(0, dtype=torch.int64))


def rehearsed(lesson: Lesson) -> Samples:
    """The memory alone, without what is for validation; every class as often as the largest."""
    return _learned_memory(lesson).balanced()


def select_apart(lesson: Lesson) -> None:
    """Action: the memory as ever, but its places for validation go to images that were held out."""
    select_memory(lesson, _most_wanted_apart)


def _learned_memory(lesson: Lesson) -> Samples:
    return lesson.memory.samples.take(~_for_validation(lesson))


def _for_validation(lesson: Lesson) -> Tensor:
    """Which exemplars are."""
    return lesson.memory.ranks() % EACH == 1


def _new(lesson: Lesson, *, held: bool) -> Samples:
    """The new images that are held out, or all others: the same in every phase of the task."""
    task, new = lesson.task, lesson.new
    quota = exemplars_per_share(lesson.config.memory, task.old or task.seen)
    chosen = torch.zeros(len(new), dtype=torch.bool)
    for label in new.labels.unique().tolist():
        places = (new.labels == label).nonzero().squeeze(1)
        source = generator(lesson.config.seed, Position(task.index), f"validation {label}")
        order = torch.randperm(len(places), generator=source)
        chosen[places[order[: reserved(min(quota, len(places)))]]] = True
    return new.take(chosen == held)


def _most_wanted_apart(lesson: Lesson, share: int, quota: int) -> Samples:
    """Each class in the order of `select`, held-out images at the places for validation."""
    known = [] if lesson.known is None else [lesson.known]
    pools = {False: [_new(lesson, held=False), *known], True: [_new(lesson, held=True)]}
    kept = lesson.memory
    mine = torch.isin(kept.samples.labels, torch.tensor(lesson.known_classes)) & (kept.shares == share)
    chosen = []
    for held, parts in pools.items():
        again = kept.samples.take(mine & (_for_validation(lesson) == held))
        pool = Samples.concatenate([*parts, again])
        chosen.append(select(lesson, pool, share, quota) if len(pool) else pool)
    both = Samples.concatenate(chosen)
    order = []
    for label in both.labels.unique().tolist():
        places = (both.labels == label).nonzero().squeeze(1)
        first = places < len(chosen[0])
        order += _interleaved(places[first].tolist(), places[~first].tolist(), quota)
    return both.take(torch.tensor(order, dtype=torch.int64))


def _interleaved(learned: list[int], held: list[int], quota: int) -> list[int]:
    """At most `quota`; it ends where an image that was learned would take a place for validation."""
    sources, order = {False: iter(learned), True: iter(held)}, list[int]()
    while len(order) < quota:
        place = next(sources[len(order) % EACH == 1], None)
        if place is None:
            break
        order.append(place)
    return order
