"""A classifier that is taught new classes, task after task: method + memory + class names."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from dytox import __version__, recipes
from dytox.config import Config, validate
from dytox.data.datasets import Array, as_images
from dytox.data.exemplars import Exemplars
from dytox.data.samples import Samples
from dytox.data.scenario import Task
from dytox.engine.distributed import World
from dytox.engine.evaluate import scores
from dytox.engine.lesson import Lesson
from dytox.engine.loop import learn
from dytox.engine.method import Method
from dytox.engine.observer import Observer, State
from dytox.errors import UserError
from dytox.memory.quota import exemplars_per_share
from dytox.methods import registry
from dytox.randomness import Position, seeded
from dytox.runs import model_directory


class ContinualLearner:
    """Learns tasks one after the other, and predicts among all classes learned so far."""

    def __init__(self, config: Config, world: World | None = None) -> None:
        """A learner that knows nothing yet; the config must say the image size."""
        self.config, self.world = registry.complete(config), world or World()
        if config.data.image_size is None:
            raise UserError("Config key data.image_size: a learner needs the side of its images in pixels.")
        with seeded(config.seed, Position(), "model"):
            self.method: Method = registry.find(config.method.name)(self.config).eval()
        self.method.to(device(config), torch.float64 if config.runtime.precision == "fp64" else torch.float32)
        self.memory = Exemplars.empty(config.data.image_size)
        self.class_names: list[str] = []
        self.increments: list[int] = []
        self.history: list[dict[str, Any]] = []
        self.earlier: Samples | None = None  # kept only for methods that need all images

    @classmethod
    def create(
        cls, recipe: str = "digits", *, method: str = "dytox", config: Mapping[str, Any] | None = None
    ) -> ContinualLearner:
        """A new learner by a recipe; `config` overrides its values, as in {"training": {"epochs": 5}}."""
        return cls(recipes.compose(recipe, method=method, values=config))

    @property
    def classes_(self) -> list[str]:
        """The names of the classes, in the order in which they were learned."""
        return list(self.class_names)

    @property
    def task(self) -> Task:
        """The task that was learned last."""
        return Task(len(self.increments) - 1, sum(self.increments[:-1]), self.increments[-1])

    def learn(self, images: Array, labels: ArrayLike, *, observer: Observer | None = None) -> None:
        """Learns one task: uint8 images with their labels, strings or integers, none of them known yet."""
        pixels = self._pixels(images)
        names = [str(label) for label in np.asarray(labels).reshape(-1).tolist()]
        if len(names) != len(pixels):
            raise UserError(f"{len(pixels)} images have {len(names)} labels: give each image one.")
        new = sorted(set(names), key=_natural)
        known = [name for name in new if name in self.class_names]
        if known:
            raise UserError(f"Already learned: {', '.join(known[:5])}; a task brings new classes only.")
        place = {name: len(self.class_names) + i for i, name in enumerate(new)}
        samples = Samples(pixels, torch.tensor([place[name] for name in names]))
        self.learn_task(samples, new, observer=observer)

    def learn_task(
        self,
        samples: Samples,
        names: Sequence[str],
        *,
        observer: Observer | None = None,
        start: State | None = None,
    ) -> None:
        """Learns the next task, whose labels go on where the last ended; if it fails, nothing has changed."""
        task = Task(len(self.increments), len(self.class_names), len(names))
        refuse_single_class(task, names)
        if self.config.memory.size:
            exemplars_per_share(self.config.memory, task.seen)  # refuses what is too small before any work
        began = time.perf_counter()
        method = self.method if start is not None else copy.deepcopy(self.method)
        lesson = Lesson(
            config=self.config,
            method=method,
            task=task,
            new=samples,
            memory=self.memory,
            earlier=self._earlier(samples),
            world=self.world,
        )
        learn(lesson, observer or Observer(), start)
        self.method, self.memory = lesson.method, lesson.memory
        if self.method.needs_all_images:
            self.earlier = lesson.samples("all")
        self.class_names += names
        self.increments.append(len(names))
        self.history.append(
            {
                "classes": list(names),
                "images": len(samples),
                "memory_images": len(self.memory),
                "memory_overlap": self.memory.overlap() if self.config.memory.shares > 1 else None,
                "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "seconds": round(time.perf_counter() - began, 1),
            }
        )

    def predict_proba(self, images: Array) -> np.ndarray[Any, np.dtype[np.float32]]:
        """A probability for each class, (n, classes), in the order of `classes_`.

        With sigmoid classifiers each class has a probability of its own, and a row need not sum to 1.
        """
        return self.scores(self._pixels(images)).numpy()

    def predict(self, images: Array) -> list[str]:
        """The most probable class of each image, by name."""
        return [self.class_names[place] for place in self.predict_proba(images).argmax(axis=1)]

    def scores(self, images: Tensor) -> Tensor:
        """As `predict_proba`, for a tensor (n, 3, size, size)."""
        if not self.class_names:
            raise UserError("This learner has learned no class yet: call learn first.")
        return scores(self.method, images, self.world)

    def save(self, path: str | Path) -> None:
        """Writes a model directory: all that is needed to predict and to go on learning."""
        data = self.config.data
        description = {
            "package": __version__,
            "config": self.config.model_dump(),
            "classes": self.class_names,
            "increments": self.increments,
            "structure": self.method.structure(),
            "preprocessing": {"image_size": data.image_size, "mean": data.mean, "std": data.std},
        }
        memory = self.memory.tensors() if len(self.memory) else None
        model_directory.save(Path(path), description, self.method.state_dict(), memory, self.history)

    @classmethod
    def load(cls, path: str | Path) -> ContinualLearner:
        """The learner that `save` wrote."""
        saved = model_directory.load(Path(path))
        try:
            learner = cls(validate(Config, saved.description["config"]))
            learner.class_names = list(saved.description["classes"])
            learner.increments = list(saved.description["increments"])
            learner.restore(saved.description["structure"], saved.model, saved.memory)
        except (KeyError, TypeError, RuntimeError) as error:
            raise UserError(f"The model in {path} does not fit its own description ({error!r}).") from None
        learner.history = saved.history
        return learner

    def restore(
        self, structure: Mapping[str, Any], method: Mapping[str, Tensor], memory: Mapping[str, Tensor] | None
    ) -> None:
        """Takes over a saved state of method and memory."""
        self.method.rebuild(structure)
        self.method.load_state_dict(dict(method))
        self.method.eval()
        if memory is not None:
            self.memory = Exemplars.from_tensors(memory)

    def _earlier(self, samples: Samples) -> Samples | None:
        if not self.method.needs_all_images:
            return None
        return self.earlier if self.class_names else samples.take(torch.empty(0, dtype=torch.int64))

    def _pixels(self, images: Array) -> Tensor:
        pixels, size = as_images(images), self.config.data.image_size
        height, width = pixels.shape[2:]
        if (height, width) != (size, size):
            raise UserError(
                f"The images are {width}×{height} pixels and this learner takes {size}×{size}: "
                f"resize them, or create the learner with data.image_size {height}."
            )
        return pixels


def refuse_single_class(task: Task, names: Sequence[str]) -> None:
    """One class alone cannot be told from anything."""
    if task.seen < 2:
        raise UserError(f"A first task of one class ({names[0]!r}) teaches nothing: give it at least two.")


def device(config: Config) -> torch.device:
    """The device that the config asks for."""
    name = config.runtime.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):
        raise UserError(
            f"Config key runtime.device: there is no {name!r} here; 'auto' takes what is there."
        ) from None


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)
