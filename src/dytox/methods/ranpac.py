"""Ridge regression on a frozen encoder, with a random projection if wanted: RanPAC (McDonnell et al., 2023).

Verified here: the weights and the choice of the penalty against the regression on all images at once; the
same after any order and number of lessons; a class is forgotten exactly.
Deviations from the authors' code: the projection is off by default, as it does not help at 1280 features; an
intercept, and features of one length after a square root; the penalty by generalised cross-validation, which
holds out every image in turn and needs the sums alone, where theirs holds out a fifth of each task's images;
no adaptation of the encoder to the first task.
"""

from __future__ import annotations

from typing import ClassVar

from dytox.method import Field, Section
from dytox.methods.exemplar_free import ExemplarFree, ScatterOptions
from dytox.models.computed_heads import Linear, ridge


class RanpacOptions(ScatterOptions):
    """The penalty and the projection, besides the options of every exemplar-free method."""

    penalty: float | None = Field(None, gt=0)  # of the squared weights; null: chosen by cross-validation
    projection: int = Field(0, ge=0, le=100_000)  # random ReLU units between features and classifier; 0: none


class Ranpac(ExemplarFree):
    """The one-hot label of an image is regressed on its features."""

    name: ClassVar[str] = "ranpac"
    summary: ClassVar[str] = (
        "ridge regression on a frozen encoder, random projection if wanted, no image kept"
    )
    Options: ClassVar[type[Section]] = RanpacOptions
    scale: ClassVar[float] = 12.0
    options: RanpacOptions

    def solve(self) -> Linear:
        moments = self.model.moments
        return ridge(moments.counts, moments.means, moments.scatter, self.options.penalty)[0]
