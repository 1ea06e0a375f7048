"""An evaluation pass and a training step with teacher, in our form and in the plain one."""

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
from dytox.models.cached import cached, frozen
from dytox.randomness import Position, generator, seeded

BENCH_CLASSES = 100  # of every measured model


class Ours(DyToxMethod):
    """DyTox during a task. A first task has no teacher; here its teacher is a copy of itself."""

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        taught = self.teach(batch).logits
        kd = distillation(output.logits[:, : taught.shape[1]], taught)
        terms = {"clf": self.classification(batch, output), "kd": kd}
        if output.divergence is not None:
            terms["div"] = self.divergence(batch, output)
        return terms

    def see(self, images: Tensor) -> Output:
        """Run an evaluation pass."""
        return self.model(images)


class Plain(Ours):
    """The same method with every pass in the plain form, also the teacher's."""

    def forward(self, batch: Batch) -> dict[str, Term]:
        return self.losses(batch, plain.forward(self.model, batch.images, batch.draws))

    @torch.no_grad()
    def teach(self, batch: Batch) -> Output:
        assert self.teacher is not None
        return plain.forward(self.teacher, batch.images)  # type: ignore[arg-type]  # it is a DyTox

    def see(self, images: Tensor) -> Output:
        return plain.forward(self.model, images)


def grown(
    kind: type[Ours], config: Config, tasks: int, device: torch.device, classes: int = BENCH_CLASSES
) -> Ours:
    """Return a method in its last of `tasks` tasks, with `classes` classes in all."""
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
    """Return a batch of normalised noise with labels of all classes, and the model's draws."""
    source, side = generator(0, Position(), "bench"), method.config.data.image_size
    assert side is not None
    images = torch.randn(size, 3, side, side, generator=source).to(method.device)
    labels = torch.randint(BENCH_CLASSES, (size,), generator=source).to(method.device)
    draws = {name: each.to(method.device) for name, each in method.model.draw(source, size).items()}
    whole = Batch.plain(images, labels, phase="train")
    return Batch(whole.images, whole.labels, whole.partners, whole.shares, draws, whole.phase)


@contextmanager
def evaluating(method: Ours, images: Tensor) -> Iterator[Callable[[], object]]:
    """Give a function that evaluates a batch as `engine.evaluate` does; the plain form prepares nothing."""
    method.eval()
    _compile(method)

    def see() -> Output:
        with torch.no_grad(), autocast(method):
            return method.see(images)

    with cached([] if isinstance(method, Plain) else method.modules()):
        yield see


@contextmanager
def training_step(method: Ours, batch: Batch) -> Iterator[Callable[[], object]]:
    """Give a function that makes a training step with teacher as `engine.loop` does."""
    set_learning(method, method.learns_in_training())
    _compile(method)
    update = Update(method, method.config.training)
    with cached([] if isinstance(method, Plain) else frozen(method.modules())):
        yield lambda: update(batch)


def _compile(method: Ours) -> None:
    """Compile the model if the config says so; the plain form is never compiled."""
    if method.config.runtime.compile and not isinstance(method, Plain):
        compile_parts(method)
