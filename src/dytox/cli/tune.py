"""`tune`: a grid of values, measured on a validation share of the training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dytox.cli import launch
from dytox.cli.options import WHAT, MethodOption, RecipeArgument, SetOption, folder_option
from dytox.cli.output import console, say, table
from dytox.cli.training import DataOption, ProcessesOption, RestartsOption, data_root, run_one
from dytox.text import csv_line

if TYPE_CHECKING:
    from dytox.experiments.grid import Trial

GridOption = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        help="Try these values for a key; several keys make a grid. Default: the paper's ranges.",
        metavar="KEY=A,B,C",
        rich_help_panel=WHAT,
    ),
]


def tune(
    recipe: RecipeArgument,
    grid: GridOption = None,
    method: MethodOption = "dytox",
    data: DataOption = None,
    overrides: SetOption = None,
    out: Annotated[Path | None, folder_option("runs/tune-RECIPE-METHOD")] = None,
    processes: ProcessesOption = 1,
    max_restarts: RestartsOption = 0,
) -> None:
    """Try values of hyperparameters on a held-out tenth of the training data, and print the best.

    Finished runs are skipped and interrupted ones continued, so the same command completes the grid.

    Example: dytox tune digits --grid training.lr=1e-3,2e-3 --grid method.divergence=0.05,0.1
    """
    from dytox.experiments.grid import papers_grid, parse_grid

    chosen = parse_grid(grid) if grid else papers_grid(recipe, method)
    folder = out or Path("runs") / f"tune-{Path(recipe).stem}-{method.rpartition(':')[2]}"
    if processes > 1:
        options = launch.options({"--method": method, "--out": folder, "--data": data}, overrides)
        grids = [part for each in grid or [] for part in ("--grid", each)]
        command = ["tune", recipe, *grids, *options]
        launch.launch(command, processes=processes, max_restarts=max_restarts, goes_on=launch.AGAIN)
    else:
        _tune(recipe, method, chosen, folder, overrides or [], data_root(data))


def _tune(
    recipe: str,
    method: str,
    grid: Mapping[str, Sequence[str]],
    folder: Path,
    asked: Sequence[str],
    values: dict[str, Any] | None,
) -> None:
    from dytox.engine.distributed import connected
    from dytox.experiments.grid import run_grid

    with connected() as world:
        shown = console(quiet=not world.main)
        named = [method, *(change.partition("=")[2] for change in asked)]  # code that the user trusts
        trials = run_grid(
            recipe,
            method,
            grid,
            folder,
            lambda config, path: run_one(config, path, world, named),
            world,
            asked=asked,
            values=values,
            say=lambda sentence: say(shown, sentence, style="bold"),
        )
    if not world.main:
        return
    _write(folder, trials)
    say(shown, "")
    say(shown, "Top-1 in percent on held-out training images, the best first")
    rows = [
        [*(change.partition("=")[2] for change in each.changes), _text(each.avg), _text(each.last)]
        for each in trials
    ]
    table(shown, [*grid, "avg", "last"], rows)
    say(shown, f"{folder / 'tune.csv'}")
    if trials[0].avg is not None:
        say(shown, f"Best: {' '.join(f'--set {change}' for change in trials[0].changes)}")


def _write(folder: Path, trials: Sequence[Trial]) -> None:
    """Write `tune.json` and `tune.csv`, the best first."""
    from dytox.runs import files

    rows: list[dict[str, Any]] = [
        {
            **dict(change.split("=", 1) for change in each.changes),
            "avg_top1": each.avg,
            "last_top1": each.last,
            "seconds": each.seconds,
        }
        for each in trials
    ]
    files.write_json(folder / "tune.json", {"trials": rows})
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    files.write(folder / "tune.csv", ["".join(map(csv_line, lines)).encode()])


def _text(value: float | None) -> str:
    return "diverged" if value is None else f"{value:.2f}"
