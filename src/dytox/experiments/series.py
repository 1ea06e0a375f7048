"""A series of runs in one folder: finished runs are skipped, interrupted ones continue, the others begin."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dytox import recipes
from dytox.checking import differing, flat
from dytox.config import Config
from dytox.engine.distributed import World
from dytox.errors import UserError
from dytox.methods import registry
from dytox.runs.run_directory import RunDirectory

Runner = Callable[[Config | None, Path], dict[str, Any]]  # a new run or, without a config, the one there


def name_of(recipe: str, method: str, overrides: Iterable[str]) -> str:
    """A folder's name for a run: what it is, then what is changed, by the last word of each key."""
    parts = [Path(recipe).stem, method.rpartition(":")[2]]
    parts += [
        f"{key.rpartition('.')[2]}={value}" for key, _, value in (each.partition("=") for each in overrides)
    ]
    return "-".join(re.sub(r"[^\w.=+-]+", "_", part) for part in parts)


def compose_series(
    recipe: str,
    method: str,
    overrides: Iterable[str] = (),
    asked: Iterable[str] = (),
    values: Mapping[str, Any] | None = None,
) -> Config:
    """A config of a series: its own overrides, then what was asked for on the command line.

    What was asked of the memory is not for methods that never have one.
    """
    overrides, asked = list(overrides), list(asked)
    others = [each for each in asked if not each.startswith("memory.")]
    config = recipes.compose(recipe, method=method, overrides=[*overrides, *others], values=values)
    if others != asked and registry.find_method(config.method.name).uses_memory:
        config = recipes.compose(recipe, method=method, overrides=[*overrides, *asked], values=values)
    return registry.complete(config)


def outcome(config: Config, path: Path, run: Runner, world: World) -> dict[str, Any]:
    """The content of the run's `metrics.json`, after whatever is left of it was done."""
    state = world.agree(run_state(config, path))  # the main process may make files before the others look
    if state == "done":
        return RunDirectory(path).read_metrics()
    return run(None if state == "begun" else config, path)


def run_state(config: Config, path: Path) -> str:
    """Whether the run is new, begun or done; a run of another config is refused."""
    directory = RunDirectory(path)
    if not (path / "config.yaml").exists():
        return "new"
    different = differences(config, directory.read_config())
    if different:
        raise UserError(
            f"{path} holds a run of another config ({', '.join(different[:3])}): take another --out."
        )
    finished = directory.has_metrics() and directory.checkpoints.newest() is None
    return "done" if finished else "begun"


def differences(wanted: Config, there: Config) -> list[str]:
    """Where the config of a run that is there would give another result."""
    different = differing(wanted.decisive(), there.decisive())
    if wanted.data.image_size is None:  # the dataset's own, which only the run that is there knows
        different.pop("data.image_size", None)
    return [f"{key} {its}, wanted {mine}" for key, (mine, its) in sorted(different.items())]


def scaled(overrides: Sequence[str], recipe: str, method: str) -> list[str]:
    """`key*=factor` as `key=value`, of the value that the recipe has; all others as they are."""
    if not any("*=" in each for each in overrides):
        return list(overrides)
    values, found = flat(recipes.compose(recipe, method=method).model_dump()), []
    for each in overrides:
        key, times, factor = each.partition("*=")
        new = values[key] * float(factor) if times else 0.0
        new = round(new) if times and isinstance(values[key], int) else new
        found.append(f"{key}={new:g}" if times else each)
    return found
