"""The form of a table of the paper: rows in one or more settings, what was published and what is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dytox.errors import unknown
from dytox.published.figures import MEMORIES
from dytox.text import with_deviation

Cell = str | float | None  # numbers are percent or millions
Figures = Mapping[str, Mapping[str, float]]  # setting -> figure -> value

SCALES = {"demo": "digits", "short": "cifar20-5-short", "paper": ""}  # -> the one recipe of a smaller scale
STAND_INS = {"Simple-DER": "Simple-DER-like"}  # what our runs are called, as they are of another method
FORGETTING_NOTE = (
    "Published forgetting comes from the library of the time, which had an error in an index: it is not what "
    "dytox prints as forgetting."
)


@dataclass(frozen=True)
class Table:
    """Columns and rows to print or to save, and in notes what the reader has to know."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    notes: list[str]
    groups: tuple[int, ...] = ()  # numbers of columns that belong together, counted from the end

    @property
    def keys(self) -> int:
        """The number of columns before the groups; they say what a row is."""
        return len(self.columns) - sum(self.groups)


@dataclass(frozen=True)
class Setting:
    """The scenario in which every row is run, and the figures that are read from it."""

    title: str
    recipe: str  # at the paper's scale
    figures: tuple[str, ...] = ("#P", "Avg", "Last")
    overrides: tuple[str, ...] = ()
    small: bool = False  # whether the recipe is that of a smaller scale

    @property
    def shown(self) -> str:
        """The title over figures of our own runs; a smaller scale has another number of steps."""
        return "in steps" if self.small and self.title.endswith(" steps") else self.title


@dataclass(frozen=True)
class PaperRow:
    """A row of a table: what the paper prints in it, and the method and overrides that run it."""

    label: tuple[str, ...]
    method: str | None = None  # a method preset; None: this row is not run
    overrides: tuple[str, ...] = ()  # `key*=factor` multiplies the value of the recipe
    published: Figures | None = None  # None: the paper does not print this row
    deviations: Figures = field(default_factory=dict)  # over three class orders, where they are printed
    once: bool = False  # one run, of the first setting, serves all settings

    def figure(self, setting: Setting, name: str) -> float | None:
        """Return a published figure of this row, or None where the paper has none."""
        return (self.published or {}).get(setting.title, {}).get(name)


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper; `keys` name the columns that say what a row is."""

    name: str
    title: str
    keys: tuple[str, ...]
    settings: tuple[Setting, ...]
    rows: tuple[PaperRow, ...]
    notes: tuple[str, ...] = ()
    run_notes: tuple[str, ...] = ()  # only beside figures of our own runs
    claims: Mapping[str, float] = field(default_factory=dict)  # figures that only the text names

    def at(self, scale: str) -> PaperTable:
        """Return the part that is run at a scale; settings that would be the same run become one."""
        if scale not in SCALES:
            raise unknown("scale", scale, SCALES)
        rows = [
            replace(row, label=tuple(STAND_INS.get(part, part) for part in row.label))
            for row in self.rows
            if row.method
        ]
        runnable = replace(self, rows=tuple(rows))
        if scale == "paper":
            return runnable
        kept: dict[tuple[str, ...], Setting] = {}
        for setting in self.settings:
            kept.setdefault(setting.overrides, replace(setting, recipe=SCALES[scale], small=True))
        return replace(runnable, settings=tuple(kept.values()))

    def printed(self, setting: Setting) -> list[str]:
        """Return the names of the figures that the paper prints in a setting, for any row."""
        return [
            name
            for name in setting.figures
            if any(row.figure(setting, name) is not None for row in self.rows)
        ]

    def as_published(self) -> Table:
        """Return the table as the paper has it, without rows and columns that are ours alone."""
        if self.claims:
            claims: list[list[Cell]] = [[what, f"{value:g}"] for what, value in self.claims.items()]
            return Table(self.name, self.title, ["What", "Value"], claims, list(self.notes))
        settings = [setting for setting in self.settings if self.printed(setting)]
        columns, rows = list(self.keys), [row for row in self.rows if row.published is not None]
        cells: list[list[Cell]] = [list(row.label) for row in rows]
        for setting in settings:
            where = f", {setting.title}" if len(settings) > 1 else ""
            for name in self.printed(setting):
                columns.append(name + where)
                for row, line in zip(rows, cells, strict=True):
                    deviation = row.deviations.get(setting.title, {}).get(name)
                    line.append(figure_cell(row.figure(setting, name), deviation))
        notes = list(self.notes)
        if any("Forgetting" in self.printed(setting) for setting in settings):
            notes.append(FORGETTING_NOTE)
        if "Memory" in self.keys:
            there = {row.label[self.keys.index("Memory")] for row in rows}
            notes += [f"{name}: {words}." for name, words in MEMORIES.items() if name in there]
        groups = tuple(len(self.printed(setting)) for setting in settings)
        return Table(self.name, self.title, columns, cells, notes, groups)


def figure_cell(mean: float | None, deviation: float | None) -> Cell:
    """Return `mean ± deviation` as text, or the mean alone as a number."""
    return mean if mean is None or deviation is None else with_deviation(mean, deviation)
