"""The action that fills the memory after a task."""

from __future__ import annotations

import torch

from dytox.engine.evaluate import features, refuse_no_numbers
from dytox.engine.lesson import Lesson
from dytox.engine.phase import freeze
from dytox.memory.quota import exemplars_per_share
from dytox.memory.selection import SELECTIONS


def select_memory(lesson: Lesson) -> None:
    """Old classes keep the first of theirs; each new class gets the images that the selection wants most.

    One set by default, by features without augmentation. With shares, each share selects by features of
    images augmented its own way.
    """
    config, task = lesson.config.memory, lesson.task
    if not config.size:
        return
    freeze(lesson.method)
    quota = exemplars_per_share(config, task.seen)
    memory = lesson.memory.shrunk(quota)
    select = SELECTIONS[config.selection]
    for share in range(config.shares):
        found = features(lesson, lesson.new, None if config.shares == 1 else share)
        refuse_no_numbers(found, task.index)
        source = lesson.generator(f"select {share}")
        chosen = []
        for label in range(task.old, task.seen):
            places = (lesson.new.labels == label).nonzero().squeeze(1)
            chosen.append(places[select(found[places], quota, source)])
        wanted = lesson.world.from_main(torch.cat(chosen))  # one selection, whatever the processes' rounding
        memory = memory.extended(lesson.new.take(wanted), share)
    lesson.memory = memory
