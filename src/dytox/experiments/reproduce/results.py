"""What the runs of a plan found, as the paper's table beside the published figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from dytox.experiments.reproduce.plan import Plan
from dytox.metrics import average, mean_std
from dytox.published.tables import Cell, Table, spread
from dytox.runs.run_directory import RunDirectory


@dataclass(frozen=True)
class Outcome:
    """A finished run."""

    path: Path
    metrics: Mapping[str, Any]

    @property
    def last(self) -> Mapping[str, Any]:
        """What was measured after the last task."""
        step: Mapping[str, Any] = self.metrics["steps"][-1]
        return step

    def least_token_distance(self) -> float | None:
        """The smallest distance between two task tokens at the end; None where there are no two."""
        distances = RunDirectory(self.path).load_evaluation(self.last["task"])[0].get("token_distances")
        if distances is None or len(distances) < 2:
            return None
        rows, columns = torch.triu_indices(len(distances), len(distances), offset=1)
        return float(distances[rows, columns].min())


FIGURES: dict[str, Callable[[Outcome], float | None]] = {
    "#P": lambda run: run.last["parameters"] / 1e6,
    "Avg": lambda run: run.metrics["avg_top1"],
    "Last": lambda run: run.metrics["last_top1"],
    "top-5 Avg": lambda run: run.metrics["avg_top5"],
    "top-5 Last": lambda run: run.metrics["last_top5"],
    "Forgetting": lambda run: run.metrics["forgetting"],
    "ECE": lambda run: run.last["calibration_error"],
    "Distance": Outcome.least_token_distance,
}
Found = Mapping[tuple[int, int], Sequence[Outcome]]  # (row, setting) -> its runs, one an order and seed


def figure(name: str, runs: Sequence[Outcome]) -> float | None:
    """The mean of a figure over some runs."""
    return average([FIGURES[name](run) for run in runs])


def table(plan: Plan, found: Found, *, small: bool) -> Table:
    """The plan's table: for each setting our figures, then the published ones."""
    columns, groups = list(plan.keys), []
    for setting in plan.settings:
        printed = _printed(plan, setting.title, setting.figures)
        columns += [f"{name}, {setting.shown}" for name in setting.figures]
        columns += [f"paper's {name}" for name in printed]
        groups.append(len(setting.figures) + len(printed))
    if len(plan.settings) == 1:
        columns = [column.removesuffix(f", {plan.settings[0].shown}") for column in columns]
    rows = [_row(plan, place, found) for place in range(len(plan.rows))]
    notes, title = [*_agreement(plan, found), *plan.notes], plan.title
    if small:
        notes.append("At this scale only the order of the rows and their gaps can be compared.")
        title = f"{title}; here {plan.settings[0].recipe}"
    if any("Forgetting" in setting.figures for setting in plan.settings):
        notes.append("The paper's forgetting was computed with an error in an index, ours was not.")
    return Table(plan.name, title, columns, rows, notes, tuple(groups))


def _printed(plan: Plan, title: str, figures: Sequence[str]) -> list[str]:
    return [name for name in figures if any(name in row.published.get(title, {}) for row in plan.rows)]


def _row(plan: Plan, place: int, found: Found) -> list[Cell]:
    row = plan.rows[place]
    cells: list[Cell] = list(row.label)
    for number, setting in enumerate(plan.settings):
        runs, published = found.get((place, number), ()), row.published.get(setting.title, {})
        for name in setting.figures:
            values = [value for run in runs if (value := FIGURES[name](run)) is not None]
            mean, deviation = mean_std(values) if values else (None, None)
            cells.append(mean if name == "#P" else spread(mean, deviation))
        cells += [published.get(name) for name in _printed(plan, setting.title, setting.figures)]
    return cells


def _agreement(plan: Plan, found: Found) -> list[str]:
    """How many pairs of rows stand in the paper's order, for each figure that both have."""
    sentences = []
    for number, setting in enumerate(plan.settings):
        for name in setting.figures:
            pairs = [
                (figure(name, found.get((place, number), ())), row.published.get(setting.title, {}).get(name))
                for place, row in enumerate(plan.rows)
            ]
            both = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
            unequal = [(a, b) for a, b in combinations(both, 2) if a[1] != b[1]]
            if name != "#P" and unequal:
                same = sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in unequal)
                count = f"{same} of {len(unequal)} pairs of rows stand in the paper's order"
                where = f", {setting.shown}" if len(plan.settings) > 1 else ""
                sentences.append(f"{name}{where}: {count}.")
    return sentences
