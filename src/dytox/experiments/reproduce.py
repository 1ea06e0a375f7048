"""A table of the paper as runs: plan them, run them, and put their figures beside the published ones.

Runs that are finished are not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from dytox import recipes
from dytox.config import Config
from dytox.engine.distributed import World
from dytox.engine.observer import Diverged
from dytox.experiments import series
from dytox.experiments.series import Runner
from dytox.metrics import average, mean_std
from dytox.published.layout import Cell, PaperRow, PaperTable, Setting, Table, figure_cell
from dytox.runs.run_directory import RunDirectory


@dataclass(frozen=True)
class PlannedRun:
    """One run of a row in a setting: the name of its folder and its config."""

    name: str
    config: Config


@dataclass(frozen=True)
class FinishedRun:
    """The directory of a finished run and the content of its `metrics.json`."""

    path: Path
    metrics: Mapping[str, Any]

    @property
    def last(self) -> Mapping[str, Any]:
        """What was measured after the last task."""
        step: Mapping[str, Any] = self.metrics["steps"][-1]
        return step

    def least_token_distance(self) -> float | None:
        """Return the smallest distance between two task tokens at the end; None with fewer than two."""
        distances = RunDirectory(self.path).load_evaluation(self.last["task"])[0].get("token_distances")
        if distances is None or len(distances) < 2:
            return None
        rows, columns = torch.triu_indices(len(distances), len(distances), offset=1)
        return float(distances[rows, columns].min())


Place = tuple[int, int]  # the numbers of a row and of a setting
Planned = dict[Place, list[PlannedRun]]
Finished = Mapping[Place, Sequence[FinishedRun]]  # one run for each class order and seed

FIGURES: dict[str, Callable[[FinishedRun], float | None]] = {
    "#P": lambda run: run.last["parameters"] / 1e6,
    "Avg": lambda run: run.metrics["avg_top1"],
    "Last": lambda run: run.metrics["last_top1"],
    "top-5 Avg": lambda run: run.metrics["avg_top5"],
    "top-5 Last": lambda run: run.metrics["last_top5"],
    "Forgetting": lambda run: run.metrics["forgetting"],
    "ECE": lambda run: run.last["calibration_error"],
    "Distance": FinishedRun.least_token_distance,
}


def plan(
    table: PaperTable,
    variants: Sequence[Sequence[str]],
    asked: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> tuple[Planned, list[str]]:
    """Return all runs of a table, each config checked, and a sentence for each row that cannot be run.

    `variants` are the overrides of class order and seed, `asked` those of the command line.
    """
    runs: Planned = {}
    absent: dict[str, None] = {}
    for place, row in enumerate(table.rows):
        for number, setting in enumerate(table.settings):
            lacking = _missing(row, setting)
            if lacking:
                absent[f"{row.label[0]}: this version has no {lacking}."] = None
                continue
            recipe = table.settings[0].recipe if row.once else setting.recipe
            fixed = [*row.overrides, *setting.overrides]
            runs[place, number] = [
                _planned(recipe, str(row.method), [*fixed, *variant], asked, values) for variant in variants
            ]
    return runs, list(absent)


def perform(
    runs: Planned, out: Path, run: Runner, world: World, say: Callable[[str], None]
) -> tuple[Finished, list[str]]:
    """Run what is not finished; return every result, and a sentence for each run that diverged.

    Runs of the same name are one run.
    """
    names = list(dict.fromkeys(each.name for group in runs.values() for each in group))
    done: dict[str, FinishedRun] = {}
    diverged: dict[str, str] = {}
    for each in [each for group in runs.values() for each in group]:
        if each.name in done or each.name in diverged:
            continue
        say(f"Run {names.index(each.name) + 1} of {len(names)}: {each.name}")
        try:
            path = out / each.name
            done[each.name] = FinishedRun(path, series.outcome(each.config, path, run, world))
        except Diverged as error:
            diverged[each.name] = f"{each.name}: {error}"
    found = {key: [done[each.name] for each in group if each.name in done] for key, group in runs.items()}
    return found, list(diverged.values())


def mean_figure(name: str, runs: Sequence[FinishedRun]) -> float | None:
    """Return the mean of a figure (a key of FIGURES) over some runs."""
    return average([FIGURES[name](run) for run in runs])


def beside_published(table: PaperTable, found: Finished, *, small: bool) -> Table:
    """Return the table with our figures of each setting, followed by the published ones."""
    columns, groups = list(table.keys), []
    for setting in table.settings:
        printed = table.printed(setting)
        where = f", {setting.shown}" if len(table.settings) > 1 else ""
        columns += [name + where for name in setting.figures]
        columns += [f"paper's {name}" for name in printed]
        groups.append(len(setting.figures) + len(printed))
    rows = [_cells(table, place, found) for place in range(len(table.rows))]
    notes, title = [*_agreement(table, found), *table.notes, *table.run_notes], table.title
    if small:
        notes.append("At this scale only the order of the rows and their gaps can be compared.")
        title = f"{title}; here {table.settings[0].recipe}"
    if any("Forgetting" in setting.figures for setting in table.settings):
        notes.append("The paper's forgetting was computed with an error in an index, ours was not.")
    return Table(table.name, title, columns, rows, notes, tuple(groups))


def _missing(row: PaperRow, setting: Setting) -> str:
    if row.method not in recipes.methods():
        return f"method {row.method}"
    return f"recipe {setting.recipe}" if setting.recipe not in recipes.scenarios() else ""


def _planned(
    recipe: str, method: str, overrides: list[str], asked: Sequence[str], values: Mapping[str, Any] | None
) -> PlannedRun:
    changed = series.scaled(overrides, recipe, method)
    config = series.compose_series(recipe, method, changed, asked, values)
    return PlannedRun(series.name_of(recipe, method, changed), config)


def _cells(table: PaperTable, place: int, found: Finished) -> list[Cell]:
    row = table.rows[place]
    cells: list[Cell] = list(row.label)
    for number, setting in enumerate(table.settings):
        for name in setting.figures:
            values = [FIGURES[name](run) for run in found.get((place, number), ())]
            known = [value for value in values if value is not None]
            mean, deviation = mean_std(known) if known else (None, None)
            cells.append(mean if name == "#P" else figure_cell(mean, deviation))
        cells += [row.figure(setting, name) for name in table.printed(setting)]
    return cells


def _agreement(table: PaperTable, found: Finished) -> list[str]:
    """Say how many pairs of rows stand in the paper's order, for each figure that both have."""
    sentences = []
    for number, setting in enumerate(table.settings):
        for name in setting.figures:
            pairs = [
                (mean_figure(name, found.get((place, number), ())), row.figure(setting, name))
                for place, row in enumerate(table.rows)
            ]
            both = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
            unequal = [(a, b) for a, b in combinations(both, 2) if a[1] != b[1]]
            if name != "#P" and unequal:
                same = sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in unequal)
                count = f"{same} of {len(unequal)} pairs of rows stand in the paper's order"
                where = f", {setting.shown}" if len(table.settings) > 1 else ""
                sentences.append(f"{name}{where}: {count}.")
    return sentences
