"""`train` and `resume`."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from dytox.cli.catalogue import MethodOption, RecipeArgument, SetOption
from dytox.cli.output import console
from dytox.errors import UserError


def train(
    recipe: RecipeArgument,
    method: MethodOption = "dytox",
    data: Annotated[
        Path | None, typer.Option("--data", help="The folder that holds the dataset.", metavar="DIR")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The run directory; by default a new one in runs/.", metavar="RUN"),
    ] = None,
    overrides: SetOption = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", help="One run for each, and mean ± std over them.", metavar="0,1,2"),
    ] = None,
    orders: Annotated[
        str | None, typer.Option("--orders", help="One run for each class order.", metavar="1,2,3")
    ] = None,
) -> None:
    """Train a method on a recipe's tasks, one after the other.

    Example: dytox train digits --method replay --set training.epochs=50
    """
    from dytox.recipes import compose

    place = {"data": {"root": str(data.expanduser().absolute())}} if data else None
    variants = _variants(seeds, orders)
    configs = [
        compose(recipe, method=method, overrides=[*(overrides or []), *changes], values=place)
        for changes, _ in variants
    ]
    folder = out or _fresh(Path("runs") / f"{configs[0].recipe}-{method.rpartition(':')[2]}")
    paths = [folder / name for _, name in variants]
    for path in paths:
        if (path / "config.yaml").exists():
            raise UserError(f"{path} already holds a run: `dytox resume {path}` or another --out.")

    from dytox.cli.progress import Progress
    from dytox.cli.tables import compare, spread
    from dytox.experiments.train import train as run

    found: list[tuple[Path, dict[str, Any]]] = []
    for config, path in zip(configs, paths, strict=True):
        with Progress(console()) as progress:
            found.append((path, run(config, path, progress)))
    compare(console(), found)
    if len(found) > 1:
        spread(console(), [metrics for _, metrics in found])


def resume(run: Annotated[Path, typer.Argument(help="A run directory.", metavar="RUN")]) -> None:
    """Go on with a run where it was cut off, with the result that it would have had.

    Example: dytox resume runs/digits-dytox
    """
    from dytox.cli.progress import Progress
    from dytox.cli.tables import compare
    from dytox.experiments.train import resume as go_on

    with Progress(console()) as progress:
        found = go_on(run, progress)
    compare(console(), [(run, found)])


def _variants(seeds: str | None, orders: str | None) -> list[tuple[list[str], str]]:
    """For each run its overrides and its folder's name, which is empty where there is one run alone."""
    choices = [
        [(f"{key}={number}", f"{word}-{number}") for number in _numbers(text, option)]
        for key, word, text, option in (
            ("seed", "seed", seeds, "--seeds"),
            ("scenario.order", "order", orders, "--orders"),
        )
        if text is not None
    ]
    chosen = [
        ([change for change, _ in each], "-".join(name for _, name in each)) for each in product(*choices)
    ]
    return chosen if len(chosen) > 1 else [(chosen[0][0], "")]


def _numbers(text: str, option: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{option} {text!r} is not a list of numbers, as in {option} 0,1,2.") from None
    if len(set(numbers)) < len(numbers):
        raise UserError(f"{option} {text!r} names a number twice: name each once.")
    return numbers


def _fresh(path: Path) -> Path:
    """The path, or with a number behind it if something is there."""
    number, candidate = 1, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
