"""`train` and `resume`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dytox.cli import launch
from dytox.cli.options import (
    PROCESSES,
    SEVERAL,
    WHAT,
    WHERE,
    DatasetOption,
    EncoderOption,
    MethodOption,
    RecipeArgument,
    SetOption,
    TrustedDatasetOption,
    TrustedMethodOption,
    all_overrides,
)
from dytox.cli.output import console
from dytox.errors import UserError

if TYPE_CHECKING:
    from dytox.config import Config
    from dytox.engine.distributed import World

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Read the dataset from this folder.", metavar="DIR", rich_help_panel=WHAT),
]
RunOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Write the run into this directory; default: a new one in runs/.",
        metavar="RUN",
        rich_help_panel=WHERE,
    ),
]
SeedsOption = Annotated[
    str | None,
    typer.Option(
        "--seeds",
        help="Train one run per seed and print mean ± std; the same command with --out continues them.",
        metavar="0,1,2",
        rich_help_panel=SEVERAL,
    ),
]
OrdersOption = Annotated[
    str | None,
    typer.Option(
        "--orders",
        "--order",
        help="Train one run per class order.",
        metavar="1,2,3",
        rich_help_panel=SEVERAL,
    ),
]
ProcessesOption = Annotated[
    int,
    typer.Option(
        "--processes",
        min=1,
        help="Train in this many processes on this machine; the result is the same.",
        rich_help_panel=PROCESSES,
    ),
]
RestartsOption = Annotated[
    int,
    typer.Option(
        "--max-restarts",
        min=0,
        help="Restart the processes at most this many times after one has died.",
        rich_help_panel=PROCESSES,
    ),
]


def train(
    recipe: RecipeArgument,
    method: MethodOption = "dytox",
    encoder: EncoderOption = None,
    dataset: DatasetOption = None,
    data: DataOption = None,
    overrides: SetOption = None,
    out: RunOption = None,
    seeds: SeedsOption = None,
    orders: OrdersOption = None,
    processes: ProcessesOption = 1,
    max_restarts: RestartsOption = 0,
) -> None:
    """Train a method on the tasks of a recipe, one after the other.

    Example: dytox train digits --method replay --set training.epochs=50
    """
    from dytox.recipes import compose

    place, asked = data_root(data), all_overrides(overrides, dataset)
    configs = {
        name: compose(recipe, method=method, encoder=encoder, overrides=[*asked, *changes], values=place)
        for changes, name in _variants(seeds, orders)
    }
    first = next(iter(configs.values()))
    folder = out or _fresh(Path("runs") / f"{first.recipe}-{method.rpartition(':')[2]}")
    several = len(configs) > 1
    if not several and not launch.is_worker() and (folder / "config.yaml").exists():
        raise UserError(
            f"{folder} already holds a run: continue it with `dytox resume`, or choose another --out."
        )
    if processes > 1:
        named = {"--method": method, "--encoder": encoder, "--out": folder, "--data": data}
        named |= {"--seeds": seeds, "--orders": orders}
        command = ["train", recipe, *launch.options(named, asked)]
        goes_on = (
            f"the same command with --out {folder} continues them" if several else _resumed(folder, processes)
        )
        launch.launch(command, processes=processes, max_restarts=max_restarts, goes_on=goes_on)
    else:
        _train(configs, folder)


def _resumed(run: Path, processes: int) -> str:
    return f"`dytox resume {run} --processes {processes}` continues it"


def _train(configs: Mapping[str, Config], folder: Path) -> None:
    """Train one run per config, in the subfolder of its name."""
    from dytox.cli.result_tables import show_runs, show_spread
    from dytox.engine.distributed import connected
    from dytox.experiments import series
    from dytox.methods.registry import complete

    first = next(iter(configs.values()))
    trusted = (first.method.name, first.data.dataset)
    with connected() as world:
        folder = Path(world.agree(str(folder)))
        if len(configs) == 1:
            found = [(folder, run_one(first, folder, world, trusted))]
        else:  # finished runs are skipped, and an interrupted one is continued
            runs = {folder / name: complete(config) for name, config in configs.items()}
            for path, config in runs.items():
                series.run_state(config, path)  # refuses a run of another config before the first run starts
            runner = partial(run_one, world=world, trusted=trusted)
            found = [(path, series.outcome(config, path, runner, world)) for path, config in runs.items()]
    if world.main:
        show_runs(console(), found)
        if len(found) > 1:
            show_spread(console(), [metrics for _, metrics in found])


def resume(
    run: Annotated[Path, typer.Argument(help="The run directory.", metavar="RUN")],
    method: TrustedMethodOption = None,
    dataset: TrustedDatasetOption = None,
    processes: ProcessesOption = 1,
    max_restarts: RestartsOption = 0,
) -> None:
    """Continue an interrupted run; the result is the same as without the interruption.

    Example: dytox resume runs/digits-dytox
    """
    if processes > 1:
        goes_on = _resumed(run, processes)
        command = ["resume", str(run), *launch.options({"--method": method, "--dataset": dataset}, None)]
        launch.launch(command, processes=processes, max_restarts=max_restarts, goes_on=goes_on)
        return

    from dytox.cli.result_tables import show_runs
    from dytox.engine.distributed import connected

    with connected() as world:
        found = run_one(None, run, world, (method, dataset))
    if world.main:
        show_runs(console(), [(run, found)])


def run_one(
    config: Config | None, path: Path, world: World, trusted: Collection[str | None] = ()
) -> dict[str, Any]:
    """Start a run or, without a config and in processes that were restarted, continue the one in `path`.

    `trusted` are a custom method and dataset that the user named: a run's file alone never runs code.
    """
    from dytox.cli.progress import Progress
    from dytox.experiments.train import resume as go_on
    from dytox.experiments.train import train as begin

    with Progress(console(quiet=not world.main)) as progress:
        if config is None or (launch.is_restarted() and (path / "config.yaml").exists()):
            return go_on(path, progress, world, trusted=trusted)
        return begin(config, path, progress, world)


def _variants(seeds: str | None, orders: str | None) -> list[tuple[list[str], str]]:
    """The overrides and the folder name of each run; the name is empty where there is only one run."""
    choices = [
        [(f"{key}={number}", f"{word}-{number}") for number in numbers(text, option)]
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


def numbers(text: str, option: str) -> list[int]:
    """Parse the numbers of an option such as `0,1,2`; `1..3` means 1, 2 and 3."""
    first, dots, last = text.partition("..")
    try:
        found = list(range(int(first), int(last) + 1)) if dots else [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found:
        raise UserError(f"{option} {text!r} is not a list of numbers, as in {option} 0,1,2.")
    if len(set(found)) < len(found):
        raise UserError(f"{option} {text!r} names a number twice: name each once.")
    return found


def data_root(data: Path | None) -> dict[str, Any] | None:
    """Return the value of `--data` as values of a config."""
    return {"data": {"root": str(data.expanduser().absolute())}} if data else None


def _fresh(path: Path) -> Path:
    """Return the path, with a number appended if it exists."""
    number, candidate = 1, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
