"""The model at work, in our form and in the plain one: a pass of evaluation, a training step with teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from dytox.bench import plain
from dytox.config import Config
from dytox.data.loader import Batch
from dytox.engine.compiling import compile_parts
from dytox.engine.phase import set_learning
from dytox.engine.precision import autocast
from dytox.engine.update import Update
from dytox.losses import Term, distillation
from dytox.methods.dytox import DyToxMethod
from dytox.models.base import Output
from dytox.models.prepared import frozen, held
from dytox.randomness import Position, generator, seeded

CLASSES = 100


class Ours(DyToxMethod):
    """DyTox in the middle of a task. A first task has no teacher; here its teacher is its own copy."""

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """Classification, distillation and divergence, at any number of tasks."""
        taught = self.teach(batch).logits
        kd = distillation(output.logits[:, : taught.shape[1]], taught)
        terms = {"clf": self.classification(batch, output), "kd": kd}
        if output.divergence is not None:
            terms["div"] = self.divergence(batch, output)
        return terms

    def see(self, images: Tensor) -> Output:
        """A pass of evaluation."""
        return self.model(images)


class Plain(Ours):
    """The same with every pass in the plain form, the teacher's too."""

    def forward(self, batch: Batch) -> dict[str, Term]:
        """The losses of a batch."""
        return self.losses(batch, plain.forward(self.model, batch.images, batch.draws))

    @torch.no_grad()
    def teach(self, batch: Batch) -> Output:
        """The teacher's view of a batch."""
        assert self.teacher is not None
        return plain.forward(self.teacher, batch.images)  # type: ignore[arg-type]  # it is a DyTox

    def see(self, images: Tensor) -> Output:
        """A pass of evaluation."""
        return plain.forward(self.model, images)


def grown(kind: type[Ours], config: Config, tasks: int, device: torch.device, classes: int = CLASSES) -> Ours:
    """A method that learns its last of so many tasks, so many classes in all."""
    with seeded(0, Position(), "bench"):
        method = kind(config)
        for task in range(tasks):
            if task == tasks - 1 and task:
                method.keep_teacher(None)  # type: ignore[arg-type]  # it looks at no lesson
            method.model.expand(classes * (task + 1) // tasks - classes * task // tasks)
        if tasks == 1:
            method.keep_teacher(None)  # type: ignore[arg-type]  # likewise
    return method.to(device)


def some_batch(method: Ours, size: int) -> Batch:
    """Normalised noise with labels of all classes, and the model's draws."""
    source, side = generator(0, Position(), "bench"), method.config.data.image_size
    assert side is not None
    images = torch.randn(size, 3, side, side, generator=source).to(method.device)
    labels = torch.randint(CLASSES, (size,), generator=source).to(method.device)
    draws = {name: each.to(method.device) for name, each in method.model.draw(source, size).items()}
    whole = Batch.plain(images, labels, phase="train")
    return Batch(whole.images, whole.labels, whole.partners, whole.shares, draws, whole.phase)


@contextmanager
def evaluating(method: Ours, images: Tensor) -> Iterator[Callable[[], object]]:
    """A pass over a batch, as `engine.evaluate` makes them; the plain form prepares nothing."""
    method.eval()
    _compile(method)

    def see() -> Output:
        with torch.no_grad(), autocast(method):
            return method.see(images)

    with held([] if isinstance(method, Plain) else method.modules()):
        yield see


@contextmanager
def training(method: Ours, batch: Batch) -> Iterator[Callable[[], object]]:
    """A step with teacher, as `engine.loop` makes them."""
    set_learning(method, method.learns_in_training())
    _compile(method)
    update = Update(method, method.config.training)
    with held([] if isinstance(method, Plain) else frozen(method.modules())):
        yield lambda: update(batch)


def _compile(method: Ours) -> None:
    """As the config says; the plain form stays as it is written."""
    if method.config.runtime.compile and not isinstance(method, Plain):
        compile_parts(method)
