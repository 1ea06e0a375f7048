"""What a table of the paper asks to be run: rows, in one or more settings, at a scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dytox import recipes
from dytox.config import Config
from dytox.errors import unknown
from dytox.experiments import series

SCALES = {"demo": "digits", "short": "cifar20-5-short", "paper": ""}  # the one recipe of the small scales


@dataclass(frozen=True)
class Setting:
    """Where every row is run, and which figures are read from it (`results.FIGURES`)."""

    title: str
    recipe: str  # at full length
    figures: tuple[str, ...] = ("#P", "Avg", "Last")
    overrides: tuple[str, ...] = ()
    small: bool = False  # the recipe is that of a smaller scale

    @property
    def shown(self) -> str:
        """Its title over our own figures; a smaller scale has another number of steps."""
        return "in steps" if self.small and self.title.endswith(" steps") else self.title


@dataclass(frozen=True)
class Row:
    """A method preset with switches; `key*=factor` multiplies what the recipe has."""

    label: tuple[str, ...]
    method: str
    overrides: tuple[str, ...] = ()
    once: bool = False  # one run, of the first setting, serves all of them
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by setting and figure


@dataclass(frozen=True)
class Plan:
    """A table: its first columns say what a row is."""

    name: str
    title: str
    keys: tuple[str, ...]
    settings: tuple[Setting, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def at(self, scale: str) -> Plan:
        """At a scale: settings that would be the same run are one, the first."""
        if scale not in SCALES:
            raise unknown("scale", scale, SCALES)
        if scale == "paper":
            return self
        kept: dict[tuple[str, ...], Setting] = {}
        for setting in self.settings:
            kept.setdefault(setting.overrides, replace(setting, recipe=SCALES[scale], small=True))
        return replace(self, settings=tuple(kept.values()))


@dataclass(frozen=True)
class Run:
    """A row in a setting: its folder's name and its config."""

    name: str
    config: Config


def missing(row: Row, setting: Setting) -> str:
    """What of a run this version does not have, in words."""
    if row.method not in recipes.methods():
        return f"method {row.method}"
    return f"recipe {setting.recipe}" if setting.recipe not in recipes.scenarios() else ""


def run_of(
    row: Row,
    place: int,
    plan: Plan,
    variant: Sequence[str] = (),
    asked: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> Run | None:
    """The run of a row in a setting of the plan; None where something of it is `missing` here.

    `variant` says order and seed; `asked` is what the command line changes in every run.
    """
    setting = plan.settings[place]
    if missing(row, setting):
        return None
    recipe = plan.settings[0].recipe if row.once else setting.recipe
    overrides = [*row.overrides, *setting.overrides, *variant]
    changed = series.scaled(overrides, recipe, row.method)
    config = series.compose(recipe, row.method, changed, asked, values)
    return Run(series.name_of(recipe, row.method, changed), config)
