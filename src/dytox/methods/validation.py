"""A validation set of exemplars and new images that are never trained on (BiC).

Of the exemplars of a class about every tenth, in the order in which they were wanted, is for validation:
those at the places 1, 11, 21 …, so that a memory that shrinks keeps its share. As many images of each new
class are held out while it is learned, and it is these that take those places in the memory.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dytox.method import Lesson, Samples, exemplars_per_share, select, select_memory
from dytox.randomness import Position, generator

EACH = 10


def reserved(count: int) -> int:
    """How many of `count` exemplars of a class are for validation: none of one, else at least one."""
    return (count + EACH - 2) // EACH


def learned(lesson: Lesson) -> Samples:
    """The new images and the memory, without the validation set."""
    known = [] if lesson.known is None else [lesson.known]
    return Samples.concatenate([_new(lesson, held=False), *known, _learned_memory(lesson)])


def validation(lesson: Lesson) -> Samples:
    """The validation set: as many images of each new class as of an old one; empty if either is missing."""
    first = lesson.memory.shares == 0  # only one of several shares, or old classes would have more images
    new, old = _new(lesson, held=True), lesson.memory.samples.take(_for_validation(lesson) & first)
    both = Samples.concatenate([new, old])
    return both if len(new) and len(old) else both.take(torch.zeros(0, dtype=torch.int64))


def rehearsed(lesson: Lesson) -> Samples:
    """The memory without the validation set, every class repeated to the size of the largest."""
    return _learned_memory(lesson).balanced()


def select_apart(lesson: Lesson) -> None:
    """Action: select the memory, with held-out images at its places for validation."""
    select_memory(lesson, _most_wanted_apart)


def _learned_memory(lesson: Lesson) -> Samples:
    return lesson.memory.samples.take(~_for_validation(lesson))


def _for_validation(lesson: Lesson) -> Tensor:
    """A mask of the exemplars that are for validation."""
    return lesson.memory.ranks() % EACH == 1


def _new(lesson: Lesson, *, held: bool) -> Samples:
    """The new images that are held out, or all others; equal in every phase of the task."""
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
    """The images of each class in the order of `select`, with held-out ones at the places for validation."""
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
    """Merge the two lists to at most `quota` places; end where a place for validation cannot be filled."""
    sources, order = {False: iter(learned), True: iter(held)}, list[int]()
    while len(order) < quota:
        place = next(sources[len(order) % EACH == 1], None)
        if place is None:
            break
        order.append(place)
    return order
