"""The learner: a classifier that learns new classes task by task, and can forget classes."""

from __future__ import annotations

import copy
import platform
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import nn

from dytox import calibration, recipes
from dytox.checking import merge
from dytox.config import Config
from dytox.data import inputs
from dytox.data.datasets import hold_out
from dytox.data.names import check_names, in_order, tidy
from dytox.data.samples import Samples, Stored
from dytox.data.scenario import Task
from dytox.engine.distributed import World
from dytox.engine.evaluate import scores
from dytox.engine.lesson import Lesson, refuse_unknown_phases
from dytox.engine.loop import learn
from dytox.engine.observer import Observer, State
from dytox.engine.phase import freeze
from dytox.errors import UserError
from dytox.learner.classifier import Classifier
from dytox.learner.repeats import without_kept
from dytox.memory import exemplars_per_share
from dytox.models.encoders import config_values


class ContinualLearner(Classifier):
    """Learns tasks one after the other, and predicts among all classes learned so far."""

    def __init__(
        self,
        config: Config,
        world: World | None = None,
        *,
        encoder: nn.Module | None = None,
        saved: bool = False,
    ) -> None:
        super().__init__(config, world, encoder=encoder, saved=saved)
        self.earlier: Samples | None = None  # kept only for methods that need all images

    @classmethod
    def create(
        cls,
        recipe: str = "digits",
        *,
        method: str = "dytox",
        config: Mapping[str, Any] | None = None,
        encoder: str | Path | nn.Module | None = None,
        frozen: bool = True,
    ) -> ContinualLearner:
        """A new learner by a recipe; `config` overrides its values, as in {"training": {"epochs": 5}}.

        `encoder` is one that knows something already: a name such as "efficientnet-lite0", "hf:REPO" or a
        folder of Hugging Face, the safetensors file of a plain ViT, or any module that gives (batch, dim),
        (batch, tokens, dim) or a feature map. Unless it is `frozen`, it goes on learning.
        """
        if not isinstance(encoder, nn.Module):
            named = None if encoder is None else str(encoder)
            fixed = None if frozen else False
            return cls(recipes.compose(recipe, method=method, encoder=named, frozen=fixed, values=config))
        composed = recipes.compose(recipe, method=method, values=config)
        given = config_values(encoder, frozen=frozen, size=composed.data.image_size)
        complete = recipes.compose(recipe, method=method, values=merge(given, config or {}))
        return cls(complete, encoder=encoder)

    @property
    def task(self) -> Task:
        """The task that was learned last."""
        return Task(len(self.increments) - 1, sum(self.increments[:-1]), self.increments[-1])

    def learn(
        self,
        images: Any,
        labels: ArrayLike | None = None,
        *,
        held_out: float = 0.0,
        observer: Observer | None = None,
    ) -> None:
        """Learn one task; if no class is new, refresh the known classes.

        Without labels, `images` is a folder of class folders, or a dataset of images with labels. Images of
        known classes join the rehearsal. `held_out` is the share of each class that is kept out of training
        and used to calibrate the confidences.
        """
        pixels, names = inputs.labelled(images, labels, self.size, self.config.data.resize)
        samples, new = self.sorted_in(pixels, [tidy(name) for name in names])
        learned, held = hold_out(self.fresh(samples, new), held_out, self.held_out)
        self.learn_task(learned, new, held_out=held, observer=observer)

    def sorted_in(self, images: Stored, names: Sequence[str]) -> tuple[Samples, list[str]]:
        """Label images: known classes have their place, new ones follow; return samples and the new names."""
        new = in_order(set(names) - set(self.class_names))
        check_names(new, self.class_names)
        place = {name: label for label, name in enumerate([*self.class_names, *new])}
        return Samples(images, torch.tensor([place[name] for name in names])), new

    def fresh(self, samples: Samples, new: Sequence[str], called: Sequence[str] = ()) -> Samples:
        """Leave out images that the model already keeps: training on held-out images would spoil them.

        An image that is kept under another class is refused; `called` names each image in the error.
        """
        kept = (self.memory.samples, self.held_out)
        return without_kept(samples, kept, self.class_names, new, called)

    def learn_task(
        self,
        samples: Samples,
        names: Sequence[str],
        *,
        held_out: Samples | None = None,
        observer: Observer | None = None,
        start: State | None = None,
    ) -> None:
        """Learn the next task, whose labels follow those of the last; if it fails, nothing has changed.

        Samples with smaller labels are of known classes and join the rehearsal; `held_out` is not trained on.
        `start` is the state of an interrupted lesson to continue from.
        """
        began = time.perf_counter()
        old = len(self.class_names)
        index = len(self.increments) if start is None else start.position.task  # its model may have grown
        task = Task(index, old, len(names))
        known = samples.between(0, old)
        self.refuse(names, known)
        lesson = Lesson(
            config=self.config,
            method=self.method if start is not None else copy.deepcopy(self.method),
            task=task,
            new=samples.between(old, task.seen) if len(known) else samples,
            memory=self.memory,
            known=known if len(known) else None,
            earlier=self._earlier(samples),
            world=self.world,
        )
        learn(lesson, observer or Observer(), start)
        held = self.held_out if held_out is None else Samples.concatenate([self.held_out, held_out.kept()])
        if len(held):
            found = scores(lesson.method, held.images, self.world)
            self.temperature = calibration.temperature(found, held.labels)  # nothing can fail from here on
        self.method, self.memory, self.held_out = lesson.method, lesson.memory, held
        if self.method.needs_all_images:
            self.earlier = lesson.samples("all")
        again = [self.class_names[label] for label in known.labels.unique().tolist()]
        self.class_names += names
        self.history.append(self._record(names, again, len(samples), time.perf_counter() - began))

    def refuse(self, names: Sequence[str], known: Samples) -> None:
        """Raise if these new classes, with these images of known classes, cannot be learned."""
        task = Task(len(self.increments), len(self.class_names), len(names))
        if not names and not len(known):
            raise UserError("There is nothing to learn: give images of at least one class.")
        if not self.method.learns_one_class:
            refuse_single_class(task, names)
        refuse_unknown_phases(self.method)
        remembers = self.method.uses_memory and self.config.memory.size
        if remembers:
            exemplars_per_share(self.config.memory, task.seen)  # refuses a memory that is too small
        if len(known) and not remembers and not self.method.adds_images:
            raise UserError(
                f"{self.method.name} keeps no memory here that more images of a known class "
                f"({self.class_names[known.labels[0]]!r}) could join: leave them out."
            )
        if self.method.needs_all_images and self.class_names and self.earlier is None:
            raise UserError(
                f"{self.method.name} learns from the images of all tasks at once, and those of the first "
                f"{task.old} classes are gone; use another method to add classes."
            )
        if self.class_names and remembers and not len(self.memory):
            raise UserError(
                f"This model has no memory: no image of its {len(self.class_names)} classes is left to "
                "rehearse, and learning on would make it forget them; it can still predict."
            )

    def _record(
        self, names: Sequence[str], again: Sequence[str], images: int, seconds: float
    ) -> dict[str, Any]:
        return {
            "classes": list(names),
            "known_classes": list(again),
            "images": images,
            "memory_images": len(self.memory),
            "memory_overlap": self.memory.overlap() if self.config.memory.shares > 1 else None,
            "parameters": self.method.model.count_parameters(),
            "machine": f"{platform.platform()}, {self.method.device}, torch {torch.__version__}",
            "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "seconds": round(seconds, 1),
        }

    def _earlier(self, samples: Samples) -> Samples | None:
        if not self.method.needs_all_images:
            return None
        return self.earlier if self.class_names else samples.take(torch.empty(0, dtype=torch.int64))

    def forget(self, *names: str) -> None:
        """Remove classes with their outputs and images; what shared weights learned from them stays."""
        places = sorted({self.place(name) for name in names})
        if len(places) == len(self.class_names):
            raise UserError("Nothing would be left of this model: delete its directory instead.")
        method = copy.deepcopy(self.method)
        method.forget(places)
        freeze(method)
        self.method = method
        forgotten = {self.class_names[place] for place in places}
        self.class_names = [name for name in self.class_names if name not in forgotten]
        self.memory = self.memory.without(places, renumber=True)
        self.held_out = self.held_out.without(places)
        self.earlier = None if self.earlier is None else self.earlier.without(places)
        for entry in self.history:
            for key in ("classes", "known_classes"):
                entry[key] = [name for name in entry.get(key, []) if name not in forgotten]
        finished = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self.history.append({"forgotten": len(places), "finished": finished})


def refuse_single_class(task: Task, names: Sequence[str]) -> None:
    """Raise if the first task has a single class, which nothing could be told apart from."""
    if task.seen < 2:
        raise UserError(f"A first task of one class ({names[0]!r}) teaches nothing: give it at least two.")
