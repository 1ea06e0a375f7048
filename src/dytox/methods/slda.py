"""Streaming linear discriminant analysis on a frozen encoder: Deep SLDA (Hayes and Kanan, 2020).

Verified here: the discriminants against those of normal distributions; the same after any order and number of
lessons; a class is forgotten exactly.
Deviations from the authors' code: theirs mixes 1e-4 of the identity into the covariance, which needs far more
images than features; here the share follows from the images (oracle approximating shrinkage), or is set.
"""

from __future__ import annotations

from typing import ClassVar

from dytox.method import Field, Section
from dytox.methods.exemplar_free import ExemplarFree, ScatterOptions
from dytox.models.computed_heads import Linear, discriminant


class SldaOptions(ScatterOptions):
    """How the covariance is shrunk, besides the options of every exemplar-free method."""

    shrinkage: float | None = Field(None, ge=0, le=1)  # share of the identity in the covariance; null: chosen


class Slda(ExemplarFree):
    """Every class has its own mean, all classes share one covariance."""

    name: ClassVar[str] = "slda"
    summary: ClassVar[str] = "streaming linear discriminant analysis on a frozen encoder, no image kept"
    Options: ClassVar[type[Section]] = SldaOptions
    scale: ClassVar[float] = 1 / 12  # the features are not independent, so the likelihoods are too sure
    options: SldaOptions

    def solve(self) -> Linear:
        moments = self.model.moments
        return discriminant(moments.counts, moments.means, moments.scatter, self.options.shrinkage)
