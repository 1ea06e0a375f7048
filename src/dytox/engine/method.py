"""The contract: a method says what differs, the engine does the work."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from dytox.checking import merge, validate
from dytox.config import Config, Preset, Section
from dytox.errors import UserError
from dytox.losses import Term, classification, divergence_targets, probabilities
from dytox.models.base import ContinualModel, Output

if TYPE_CHECKING:
    from dytox.data.loader import Batch
    from dytox.data.scenario import Task
    from dytox.engine.evaluate import SeenImages
    from dytox.engine.lesson import Lesson
    from dytox.engine.moment import Moment
    from dytox.engine.phase import Phase


class NoOptions(Section):
    """The options of a method that has none."""


class Method(nn.Module):
    """A way of learning task after task.

    A subclass defines `build` and `phases`; losses, prediction and features have defaults. All state is in
    parameters and buffers, so that `state_dict` and `structure` hold the whole of it.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `dytox methods`
    cannot: ClassVar[str] = ""  # what it cannot do by its nature, in one line
    works_on: ClassVar[str] = ""  # the one kind of encoder it works on: convolutional, residual; "": any
    uses_memory: ClassVar[bool] = True
    needs_memory: ClassVar[bool] = False
    needs_all_images: ClassVar[bool] = False
    trains: ClassVar[bool] = True  # whether it ever has a training phase
    adds_images: ClassVar[bool] = False  # learns more images of a known class without a memory
    learns_one_class: ClassVar[bool] = False  # a first task of a single class makes sense
    Options: ClassVar[type[Section]] = NoOptions
    preset: ClassVar[Preset] = Preset()  # its default values in a config

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.options = validate(self.Options, config.method.options, "method.")
        self.model = self.build()
        self.teacher: ContinualModel | None = None
        self.seen_images: SeenImages | None = None  # see engine.evaluate.remembering
        self.log_shares: Tensor | None = None  # of the images of each class in the present phase

    @classmethod
    def defaults(cls) -> Preset:
        """Its preset; if it uses no memory, the memory's size is always 0."""
        if cls.uses_memory:
            return cls.preset
        none = {"memory": {"size": 0, "per_class": None}}
        return cls.preset.model_copy(update={"always": merge(none, cls.preset.always)})

    # What a subclass defines

    def build(self) -> ContinualModel:
        """Build the network as it is before the first task."""
        raise TypeError(f"{type(self).__name__} builds no model")

    def phases(self, task: Task) -> Sequence[Phase]:
        """The phases of a task; they depend on the config and the task alone."""
        raise TypeError(f"{type(self).__name__} has no phases")

    def refresh(self, task: Task) -> Sequence[Phase]:
        """The phases of a lesson without new classes: its images join the memory, which is learned again."""
        from dytox.engine.phase import Action, Training
        from dytox.engine.selecting import select_memory  # it imports this module

        return [
            Action("memory", select_memory),
            Training("refresh", "memory", self.rehearses, self.config.finetuning),
        ]

    def growing(self, task: Task) -> list[Phase]:
        """The first phases of many methods: keep a teacher from the second task on; add the new classes."""
        from dytox.engine.phase import Action

        teacher: list[Phase] = [Action("teacher", self.keep_teacher)] if task.index else []
        return [*teacher, Action("expand", self.expand)]

    def learns(self) -> Iterable[nn.Module | nn.Parameter]:
        """The parts that are trained; by default the whole model."""
        return [self.model]

    def rehearses(self) -> Iterable[nn.Module | nn.Parameter]:
        """The parts that are trained when the memory alone is learned."""
        return [self.model]

    def losses(self, batch: Batch, output: Output) -> dict[str, Term]:
        """The terms whose weighted sum is minimised, by the names under which they are logged."""
        return {"clf": self.classification(batch, output)}

    def predict(self, output: Output) -> Tensor:
        """Scores over all classes seen, (batch, classes), each between 0 and 1."""
        return probabilities(output.logits.to(self.dtype), self.config.loss.activation)

    def features(self, output: Output) -> Tensor:
        """The features by which exemplars are selected: all embeddings, (batch, tasks · dim)."""
        return output.embeddings.to(self.dtype).flatten(1)

    def introspect(self, images: Tensor) -> dict[str, Tensor]:
        """Tensors that a report shows of the model and these images, by name."""
        return {}

    # Hooks, called in every process alike

    def before_epoch(self, moment: Moment) -> None:
        """Before the first step of an epoch; not again if training is resumed within the epoch."""

    def before_forward(self, moment: Moment) -> None:
        """Before the first forward pass of an update."""

    def after_backward(self, moment: Moment) -> None:
        """When the gradients of an update are there, before they are clipped."""

    def after_update(self, moment: Moment) -> None:
        """After an update of the weights."""

    # What methods share

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return next(self.parameters()).dtype

    def forward(self, batch: Batch) -> dict[str, Term]:
        """The losses of a batch."""
        return self.losses(batch, self.model(batch.images, batch.draws))

    def classification(self, batch: Batch, output: Output) -> Term:
        """The classification loss over all classes seen."""
        loss = self.config.loss
        targets = batch.targets(output.logits.shape[1], smoothing=loss.label_smoothing)
        logits = output.logits
        if loss.prior and self.log_shares is not None:
            logits = logits + loss.prior * self.log_shares
        return classification(logits, targets, loss.activation)

    def count_classes(self, labels: Tensor) -> None:
        """Note how the images of a phase are spread over the classes, for `loss.prior`."""
        counts = torch.bincount(labels, minlength=self.model.classes).clamp(min=1)
        self.log_shares = (counts / counts.sum()).log().to(self.device, self.dtype)

    def divergence(self, batch: Batch, output: Output) -> Term:
        """The classification loss of a divergence head, for which all old classes are one class."""
        assert output.divergence is not None
        loss, seen = self.config.loss, output.logits.shape[1]
        old = seen + 1 - output.divergence.shape[1]
        targets = divergence_targets(batch.targets(seen, smoothing=loss.label_smoothing), old)
        return classification(output.divergence, targets, loss.activation)

    def weighed(self, clf: Term, kd: Term) -> dict[str, Term]:
        """(1 - α) clf + α kd, α = old / seen classes."""
        alpha = self.model.old / self.model.classes
        return {"clf": clf.weighted(1 - alpha), "kd": kd.weighted(alpha)}

    def expand(self, lesson: Lesson) -> None:
        """Action: add the new classes to the model, initialised as the position says."""
        with lesson.seeded("expand"):
            self.model.expand(lesson.task.new)

    def forget(self, places: Collection[int]) -> None:
        """Remove classes, by their places among those seen.

        With trained methods the other logits do not change; a computed classifier is computed again.
        """
        own = [*self.parameters(recurse=False), *self.buffers(recurse=False)]
        if own or any(part.state_dict() for part in self.children() if part is not self.model):
            raise UserError(f"{self.name} cannot forget a class: it knows classes by more than its outputs.")
        self.model.forget(places)

    @property
    def forgets_exactly(self) -> bool:
        """Whether the method is, after `forget`, what it would be if it had never seen the classes."""
        return False

    def keep_teacher(self, lesson: Lesson) -> None:
        """Action: keep a frozen copy of the model."""
        self.teacher = copy.deepcopy(self.model).eval().requires_grad_(False)

    def drop_teacher(self, lesson: Lesson) -> None:
        """Action: discard the copy."""
        self.teacher = None

    def teach(self, batch: Batch) -> Output:
        """The teacher's output for a batch."""
        assert self.teacher is not None
        with torch.inference_mode():
            output: Output = self.teacher(batch.images)
        return output.ordinary()

    def structure(self) -> dict[str, Any]:
        """What `rebuild` needs to know, as JSON."""
        teacher = None if self.teacher is None else self.teacher.structure()
        return {"model": self.model.structure(), "teacher": teacher}

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        """Grow a new method to the structure of a saved one, before `load_state_dict`."""
        blank = copy.deepcopy(self.model)
        self.model.rebuild(structure["model"])
        if structure["teacher"] is not None:
            blank.rebuild(structure["teacher"])
            self.teacher = blank.eval().requires_grad_(False)
