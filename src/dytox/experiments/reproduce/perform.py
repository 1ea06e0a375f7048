"""A plan's runs, one after the other; what is done already is not done again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dytox.engine.distributed import World
from dytox.engine.observer import Diverged
from dytox.experiments import series
from dytox.experiments.reproduce.plan import Plan, Run, missing, run_of
from dytox.experiments.reproduce.results import Found, Outcome
from dytox.experiments.series import Runner

Wanted = dict[tuple[int, int], list[Run]]  # (row, setting) -> its runs


def wanted(
    plan: Plan,
    variants: Sequence[Sequence[str]],
    asked: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> tuple[Wanted, list[str]]:
    """All runs of a plan, each config checked, and a sentence for each row that cannot be run here."""
    runs: Wanted = {}
    absent: dict[str, None] = {}
    for place, row in enumerate(plan.rows):
        for number, setting in enumerate(plan.settings):
            found = [run_of(row, number, plan, variant, asked, values) for variant in variants]
            there = [run for run in found if run is not None]
            if there:
                runs[place, number] = there
            else:
                absent[f"{row.label[0]}: this version has no {missing(row, setting)}."] = None
    return runs, list(absent)


def perform(
    runs: Wanted, out: Path, run: Runner, world: World, say: Callable[[str], None]
) -> tuple[Found, list[str]]:
    """What every run found, and a sentence for each that diverged; runs of one name are one run."""
    names = list(dict.fromkeys(each.name for group in runs.values() for each in group))
    done: dict[str, Outcome] = {}
    diverged: dict[str, str] = {}
    for each in [each for group in runs.values() for each in group]:
        if each.name in done or each.name in diverged:
            continue
        say(f"Run {names.index(each.name) + 1} of {len(names)}: {each.name}")
        try:
            path = out / each.name
            done[each.name] = Outcome(path, series.outcome(each.config, path, run, world))
        except Diverged as error:
            diverged[each.name] = f"{each.name}: {error}"
    found = {key: [done[each.name] for each in group if each.name in done] for key, group in runs.items()}
    return found, list(diverged.values())
