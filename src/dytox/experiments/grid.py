"""Tuning over a grid of values, measured on a validation share of the training data, as in the paper.

No test image is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from dytox.engine.distributed import World
from dytox.engine.observer import Diverged
from dytox.errors import UserError
from dytox.experiments import series
from dytox.experiments.series import Runner
from dytox.published.figures import facts
from dytox.published.tables import SEARCHED

SHARE = "data.validation_share=0.1"  # a tenth of the training data is held out and measured on


@dataclass(frozen=True)
class Trial:
    """One point of the grid; its figures are None where the loss became NaN or infinite."""

    changes: tuple[str, ...]
    avg: float | None = None
    last: float | None = None
    seconds: float | None = None


def parse_grid(texts: Sequence[str]) -> dict[str, list[str]]:
    """Read texts of the form `key=a,b,c` as lists of values by key."""
    grid: dict[str, list[str]] = {}
    for text in texts:
        key, _, listed = text.partition("=")
        values = [value.strip() for value in listed.split(",")]
        if not key.strip() or not all(values):
            raise UserError(
                f"--grid {text!r} is not of the form key=a,b,c, as in --grid training.lr=1e-3,5e-4."
            )
        if key in grid or len(set(values)) < len(values):
            raise UserError(f"--grid {text!r} names a key or a value twice: name each once.")
        grid[key] = values
    return grid


def papers_grid(recipe: str, method: str) -> dict[str, list[str]]:
    """Return the paper's ranges, as the same multiples of the recipe's own values."""
    grid = {}
    for name, key in SEARCHED.items():
        found = facts()["tuning"][name]
        if key == "method.divergence":
            grid[key] = [f"{value:g}" for value in found["range"]]
            continue
        factors = [f"{key}*={value / found['chosen']}" for value in found["range"]]
        changes = series.scaled(factors, recipe, method)
        grid[key] = [change.partition("=")[2] for change in changes]
    return grid


def run_grid(
    recipe: str,
    method: str,
    grid: Mapping[str, Sequence[str]],
    out: Path,
    run: Runner,
    world: World,
    *,
    asked: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda sentence: None,
) -> list[Trial]:
    """Run every point of the grid that is not finished yet; return all of them, the best first."""
    points = list(product(*([f"{key}={value}" for value in listed] for key, listed in grid.items())))
    configs = [series.compose_series(recipe, method, [SHARE], [*asked, *point], values) for point in points]
    trials = []
    for place, (point, config) in enumerate(zip(points, configs, strict=True)):
        say(f"Run {place + 1} of {len(points)}: {', '.join(point)}")
        try:
            found = series.outcome(config, out / series.name_of(recipe, method, point), run, world)
            trials.append(Trial(point, found["avg_top1"], found["last_top1"], found["seconds"]))
        except Diverged:
            trials.append(Trial(point))
    return sorted(trials, key=lambda trial: -1.0 if trial.avg is None else trial.avg, reverse=True)
