"""Mahalanobis distances on a frozen encoder, each class by its own covariance: FeCAM (Goswami et al., 2023).

Verified here: the distances against those by the inverted matrix; the same after any order and number of
lessons; a class is forgotten exactly.
Deviations from the authors' code: the shrinkage is ten times theirs (1 and 1), as classes of few images need
more; a negative mean of the covariances counts as 0; features have one length before their covariance is
measured, where theirs have it only before distances are.
"""

from __future__ import annotations

from typing import ClassVar

from dytox.method import Field, Section
from dytox.methods.exemplar_free import ComputedOptions, ExemplarFree
from dytox.models.computed import Head
from dytox.models.computed_heads import Mahalanobis, mahalanobis


class FecamOptions(ComputedOptions):
    """How each covariance is shrunk, besides the options of every exemplar-free method."""

    diagonal: float = Field(10.0, gt=0)  # γ₁: times the mean variance, added to the variances
    off_diagonal: float = Field(10.0, ge=0)  # γ₂: times the mean covariance, added to the covariances


class Fecam(ExemplarFree):
    """An image belongs to the class from whose mean it is least far, as that class varies."""

    name: ClassVar[str] = "fecam"
    summary: ClassVar[str] = "Mahalanobis distance by each class's covariance, frozen encoder, no image kept"
    Options: ClassVar[type[Section]] = FecamOptions
    kind: ClassVar[type[Head]] = Mahalanobis
    scale: ClassVar[float] = 40.0
    options: FecamOptions

    def solve(self) -> Mahalanobis:
        moments, options = self.model.moments, self.options
        shrinkage = {"diagonal": options.diagonal, "off_diagonal": options.off_diagonal}
        return mahalanobis(moments.counts, moments.means, moments.factors, **shrinkage)
