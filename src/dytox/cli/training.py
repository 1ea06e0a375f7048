"""`train` and `resume`."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from dytox.cli.catalogue import MethodOption, RecipeArgument, SetOption
from dytox.errors import UserError

if TYPE_CHECKING:
    from dytox.config import Config


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
        str, typer.Option("--seeds", help="One run for each, and mean ± std over them.", metavar="0,1,2")
    ] = "",
    orders: Annotated[
        str, typer.Option("--orders", help="One run for each class order.", metavar="1,2,3")
    ] = "",
) -> None:
    """Train a method on a recipe's tasks, one after the other.

    Example: dytox train digits --method replay --set training.epochs=50
    """
    from dytox.recipes import compose

    changes = [*(overrides or []), *([f"data.root={data}"] if data else [])]
    runs = [
        (compose(recipe, method=method, overrides=[*changes, *variant]), "-".join(name))
        for variant, name in _variants(seeds, orders)
    ]
    folder = out or _fresh(Path("runs") / f"{recipe}-{method.rpartition(':')[2]}")
    many = len(runs) > 1
    found = [_run(config, folder / name if many else folder) for config, name in runs]
    if many:
        from dytox.cli.tables import spread

        spread(Console(), found, folder)


def resume(run: Annotated[Path, typer.Argument(help="A run directory.", metavar="RUN")]) -> None:
    """Go on with a run where it was cut off, with the result that it would have had.

    Example: dytox resume runs/digits-dytox
    """
    from dytox.cli.progress import Progress
    from dytox.experiments.train import resume as go_on

    with Progress(Console()) as progress:
        found = go_on(run, progress)
    progress.show(found, run)


def _run(config: Config, out: Path) -> dict[str, Any]:
    from dytox.cli.progress import Progress
    from dytox.experiments.train import train as run

    with Progress(Console()) as progress:
        found = run(config, out, progress)
    progress.show(found, out)
    return found


def _variants(seeds: str, orders: str) -> list[tuple[list[str], list[str]]]:
    """For each run the overrides and the parts of its folder's name."""
    choices = [
        [([f"{key}={number}"], [f"{word}-{number}"]) for number in _numbers(text, option)] or [([], [])]
        for key, word, text, option in (
            ("seed", "seed", seeds, "--seeds"),
            ("scenario.order", "order", orders, "--orders"),
        )
    ]
    return [(first[0] + second[0], first[1] + second[1]) for first, second in product(*choices)]


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UserError(f"{option} {text!r} is not a list of numbers, as in {option} 0,1,2.") from None


def _fresh(path: Path) -> Path:
    """The path, or with a number behind it if a run is there."""
    number, candidate = 1, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
