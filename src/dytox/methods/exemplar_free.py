"""What the exemplar-free methods share: a frozen encoder, and a classifier computed from sums of features.

Nothing is trained and no image is kept. The sums (`models/moments.py`) do not depend on the order or the
number of lessons, so neither does the classifier, and a class is forgotten as if it had never been learned.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar, Literal

from torch import Tensor

from dytox.method import (
    Action,
    Field,
    Lesson,
    Method,
    Output,
    Phase,
    Preset,
    Samples,
    Section,
    Task,
    UserError,
    features,
)
from dytox.models.computed import ComputedNet, Head
from dytox.models.computed_heads import Linear
from dytox.models.encoders import build_encoder
from dytox.models.moments import Scatter


class ComputedOptions(Section):
    """What every exemplar-free method can be told."""

    power: float = Field(0.5, gt=0, le=1)  # features become sign(x) |x|^power, then get one length


class ScatterOptions(ComputedOptions):
    """Of methods for which one scatter of all classes together is enough."""

    scatter: Literal["own", "shared"] = "own"  # of each class, to forget it exactly; or one of all, smaller


class ExemplarFree(Method):
    """A method whose classifier is computed from the moments of each class's features."""

    cannot: ClassVar[str] = "train its encoder, or keep a memory"
    uses_memory: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    adds_images: ClassVar[bool] = True
    learns_one_class: ClassVar[bool] = True
    Options: ClassVar[type[Section]] = ComputedOptions
    preset: ClassVar[Preset] = Preset(
        base="resnet",
        config={
            "model": {"encoder": "efficientnet-lite0", "decoder": "pool", "frozen": True},
            "loss": {"activation": "softmax"},
        },
    )
    kind: ClassVar[type[Head]] = Linear  # what `solve` gives
    scale: ClassVar[float] = 1.0  # times its outputs gives logits whose softmax is about calibrated
    options: ComputedOptions
    model: ComputedNet

    @property
    def scatter(self) -> Scatter:
        """What the moments keep besides the means."""
        return self.options.scatter if isinstance(self.options, ScatterOptions) else "own"

    def solve(self) -> Head:
        """The classifier that follows from the moments."""
        raise TypeError(f"{type(self).__name__} computes no classifier")

    def build(self) -> ComputedNet:
        if not self.config.model.frozen:
            raise UserError(
                f"Impossible config: {self.name} computes its classifier from fixed features, so "
                "model.frozen must be true."
            )
        return ComputedNet(
            build_encoder(self.config),
            self.kind,
            power=self.options.power,
            scale=self.scale,
            scatter=self.scatter,
            projection=getattr(self.options, "projection", 0),
            seed=self.config.seed,
        )

    def phases(self, task: Task) -> Sequence[Phase]:
        return [Action("expand", self.expand), Action("measure", self.measure)]

    def refresh(self, task: Task) -> Sequence[Phase]:
        return [Action("measure", self.measure)]

    def measure(self, lesson: Lesson) -> None:
        """Action: add the lesson's images to the moments, and compute the classifier from all of them."""
        samples = lesson.new if lesson.known is None else Samples.concatenate([lesson.new, lesson.known])
        found = self.model.seen(features(lesson, samples).double())
        self.model.moments.add(lesson.world.from_main(found), samples.labels)
        self.model.put_head(self.solve())

    def forget(self, places: Collection[int]) -> None:
        self.model.forget(places)
        self.model.put_head(self.solve())

    @property
    def forgets_exactly(self) -> bool:
        return self.scatter != "shared"

    def predict(self, output: Output) -> Tensor:
        return output.logits.to(self.dtype).softmax(dim=1)
