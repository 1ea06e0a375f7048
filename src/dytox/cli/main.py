"""`dytox`: the commands, and what becomes of an error. Torch is imported only by commands that use it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from dytox import __version__
from dytox.cli import (
    bench,
    catalogue,
    doctor,
    launch,
    learn,
    models,
    paper,
    predict,
    report,
    reproduce,
    training,
    tune,
)
from dytox.cli.flags import Command, Commands
from dytox.cli.output import console, say
from dytox.errors import UserError

app = typer.Typer(
    name="dytox",
    cls=Commands,
    help="Continual image classification: teach a model new classes, task after task, and keep the old ones.",
    epilog="New here: `dytox doctor`, then `dytox train digits`; with images of your own, "
    "`dytox learn MODEL FOLDER`. Every command has an example in its `--help`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
)
# By panels of the help; each command is called as its function is.
COMMANDS: dict[str, list[Callable[..., None]]] = {
    "Your own model": [
        learn.learn,
        predict.predict,
        predict.evaluate,
        models.info,
        models.forget,
        models.export,
        models.push,
        models.pull,
    ],
    "Experiments": [
        training.train,
        training.resume,
        report.report,
        reproduce.reproduce,
        tune.tune,
        paper.paper,
    ],
    "What there is": [
        catalogue.recipes,
        catalogue.methods,
        catalogue.show,
        bench.bench,
        doctor.doctor,
    ],
}
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(cls=Command, rich_help_panel=panel)(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dytox {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Continual image classification: teach a model new classes, task after task, and keep the old ones."""


def run() -> None:
    """The program: 0 done, 2 something the user can mend, 3 some inputs skipped, 130 after Ctrl-C."""
    sys.path.append("")  # the current folder, where somebody's own `--method module:Class` may lie
    try:
        app(prog_name="dytox")
    except UserError as error:
        if not launch.hand_over(error):
            say(console(stderr=True), f"Error: {error}", style="red")
        launch.leave(2)
    except SystemExit as end:  # how typer ends a command
        launch.leave(end.code)
