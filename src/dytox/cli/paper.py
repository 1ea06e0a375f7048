"""`paper` and `reproduce`: the published tables, as figures and as runs."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dytox.cli import launch
from dytox.cli.options import WHAT, SetOption, beginning, folder_option
from dytox.cli.output import console, finish, say
from dytox.cli.result_tables import show_table
from dytox.cli.training import (
    DataOption,
    OrdersOption,
    ProcessesOption,
    RestartsOption,
    SeedsOption,
    data_root,
    numbers,
    run_one,
)
from dytox.published.layout import SCALES
from dytox.published.tables import PRINTED, TABLES, find_table

if TYPE_CHECKING:
    from dytox.experiments.reproduce import Planned
    from dytox.published.layout import PaperTable


def paper(
    name: Annotated[
        str | None,
        typer.Argument(
            help=f"The table to print, one of {', '.join(PRINTED)}; default: all of them.",
            metavar="TABLE",
            autocompletion=beginning(PRINTED),
        ),
    ] = None,
) -> None:
    """Print the published figures, with the kind of memory that each was measured with.

    Example: dytox paper cifar100
    """
    shown = [find_table(each).as_published() for each in ([name] if name else PRINTED)]
    for place, each in enumerate(shown):
        if place:
            say(console(), "")
        show_table(console(), each)


TableArgument = Annotated[
    str,
    typer.Argument(
        help=f"The table to run, one of {', '.join(TABLES)}.",
        metavar="TABLE",
        autocompletion=beginning(TABLES),
    ),
]
ScaleOption = Annotated[
    str,
    typer.Option(
        "--scale",
        help="The size of the runs. demo: digits, minutes; short: 20 classes of CIFAR-100, hours on two "
        "cores; paper: the full settings.",
        metavar="|".join(SCALES),
        autocompletion=beginning(SCALES),
        rich_help_panel=WHAT,
    ),
]


def reproduce(
    table: TableArgument,
    scale: ScaleOption = "demo",
    data: DataOption = None,
    overrides: SetOption = None,
    out: Annotated[Path | None, folder_option("runs/reproduce-SCALE")] = None,
    orders: OrdersOption = None,
    seeds: SeedsOption = None,
    processes: ProcessesOption = 1,
    max_restarts: RestartsOption = 0,
) -> None:
    """Train the rows of a table of the paper, and print them beside the published figures.

    Finished runs are skipped and interrupted ones continued, so the same command completes the table.

    Example: dytox reproduce ablation --scale demo
    """
    from dytox.experiments.reproduce import plan

    rows = find_table(table).at(scale)
    folder = out or Path("runs") / f"reproduce-{scale}"
    runs, missing = plan(rows, _variants(orders, seeds), overrides or [], data_root(data))
    if processes > 1:
        named = {"--scale": scale, "--out": folder, "--data": data, "--orders": orders, "--seeds": seeds}
        command = ["reproduce", table, *launch.options(named, overrides)]
        launch.launch(command, processes=processes, max_restarts=max_restarts, goes_on=launch.AGAIN)
    else:
        _reproduce(rows, runs, missing, folder, small=scale != "paper")


def _reproduce(table: PaperTable, runs: Planned, missing: list[str], folder: Path, *, small: bool) -> None:
    from dytox.engine.distributed import connected
    from dytox.experiments import effects
    from dytox.experiments.reproduce import beside_published, perform
    from dytox.runs import files

    with connected() as world:
        shown = console(quiet=not world.main)
        found, diverged = perform(
            runs,
            folder,
            lambda config, path: run_one(config, path, world),
            world,
            lambda sentence: say(shown, sentence, style="bold"),
        )
    if not world.main:
        return
    tables = [beside_published(table, found, small=small)]
    if table.name == "ablation":
        tables[0].notes[:0] = effects.ablation_sentences(found)
    if table.name == "overheads":
        extra = effects.effects_table(table, found)
        tables += [extra] if extra else []
    for each in tables:
        say(shown, "")
        show_table(shown, each)
        content: dict[str, Any] = {"columns": each.columns, "rows": each.rows, "notes": each.notes}
        files.write_json(folder / f"{each.name}.json", content)
    finish([*missing, *diverged])


def _variants(orders: str | None, seeds: str | None) -> list[list[str]]:
    """The overrides of each run of a row: its class order and its seed, where they are given."""
    choices = [
        [f"{key}={number}" for number in numbers(text, option)]
        for key, text, option in (("scenario.order", orders, "--orders"), ("seed", seeds, "--seeds"))
        if text is not None
    ]
    return [list(each) for each in product(*choices)]
