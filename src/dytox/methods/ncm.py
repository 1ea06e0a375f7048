"""Nearest class mean on a frozen encoder: SimpleCIL (Zhou et al., 2023).

Verified here: the same after any order and number of lessons; a class is forgotten exactly.
Deviations from the authors' code: means are of features of one length, where theirs are of features as they
are (on photos of clothes 80.8 % and 81.2 %); confidences are a softmax of 50 times the cosine.
"""

from __future__ import annotations

from typing import ClassVar

from dytox.method import Field, Section
from dytox.methods.exemplar_free import ComputedOptions, ExemplarFree
from dytox.models.computed_heads import Linear, nearest_mean
from dytox.models.moments import Scatter


class NcmOptions(ComputedOptions):
    """As of every exemplar-free method."""

    power: float = Field(1.0, gt=0, le=1)  # of the features, before they are brought to one length


class Ncm(ExemplarFree):
    """An image belongs to the class whose mean feature has the largest cosine with its own."""

    name: ClassVar[str] = "ncm"
    summary: ClassVar[str] = "nearest class mean on a frozen encoder, no image kept (SimpleCIL)"
    Options: ClassVar[type[Section]] = NcmOptions
    scale: ClassVar[float] = 50.0

    @property
    def scatter(self) -> Scatter:
        return "none"

    def solve(self) -> Linear:
        return nearest_mean(self.model.moments.means)
