"""`make evidence`: repeats a part of `results/` and checks that it comes out within the recorded spread.

Some ten minutes on two cores (20 on one that is shared). The runs on CIFAR-100 need its folder:
`make evidence DATA=DIR`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import seeds

from dytox.experiments.train import train
from dytox.experiments.watchers import Watcher
from dytox.recipes import compose

LEAST = 3.0  # points by which other rounding on another machine may change a run


@dataclass(frozen=True)
class Claim:
    """A recipe with a method; its first tasks are run again with seed 0."""

    recipe: str
    method: str
    classes: int  # of the tasks that are run
    needs_data: bool = False


CLAIMS = [
    Claim("digits", "dytox", 10),
    Claim("digits", "replay", 10),
    Claim("cifar20-5-short", "dytox", 8, needs_data=True),
    Claim("cifar20-5-tuned", "dytox", 8, needs_data=True),
]


def average(metrics: dict[str, Any], tasks: int) -> float:
    """Return the mean accuracy over the first tasks."""
    return statistics.mean(step["top1"] for step in metrics["steps"][:tasks])


def recorded(claim: Claim, tasks: int) -> tuple[float, float]:
    """Return the mean over the recorded seeds, and the tolerance: twice their standard deviation."""
    found = [average(run, tasks) for run in seeds(claim.recipe)[claim.method]]
    spread = statistics.stdev(found) if len(found) > 1 else 0.0
    return statistics.mean(found), max(2 * spread, LEAST)


def main(data: str | None) -> int:
    """Print a line per claim; return 1 if one is outside its tolerance."""
    failed = False
    for claim in CLAIMS:
        name = f"{claim.recipe}, {claim.method}"
        if claim.needs_data and not data:
            print(f"{name}: skipped, as no data folder was given (make evidence DATA=DIR)")
            continue
        overrides = [
            f"scenario.classes={claim.classes}",
            *([f"data.root={data}"] if claim.needs_data else []),
        ]
        config = compose(claim.recipe, method=claim.method, overrides=overrides)
        with tempfile.TemporaryDirectory() as folder:
            metrics = train(config, Path(folder) / "run", Watcher())
        tasks = len(metrics["steps"])
        found, (wanted, margin) = average(metrics, tasks), recorded(claim, tasks)
        inside = abs(found - wanted) <= margin
        failed |= not inside
        verdict = "as recorded" if inside else "NOT AS RECORDED"
        print(
            f"{name}: Avg over {tasks} tasks {found:.1f}, recorded {wanted:.1f} ± {margin:.1f}: {verdict}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
