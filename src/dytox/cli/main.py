"""`dytox`: the commands, and what becomes of an error. Torch is imported only by commands that use it."""

from __future__ import annotations

import sys
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
from dytox.cli.output import console, say
from dytox.errors import UserError

app = typer.Typer(
    name="dytox",
    help="Continual image classification: teach a model new classes, task after task, and keep the old ones.",
    epilog="New here: `dytox doctor`, then `dytox train digits`; with images of your own, "
    "`dytox learn MODEL FOLDER`. Every command has an example in its `--help`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
)
OWN = "Your own model"
EXPERIMENTS = "Experiments"
HERE = "What there is"

app.command("learn", rich_help_panel=OWN)(learn.learn)
app.command("predict", rich_help_panel=OWN)(predict.predict)
app.command("evaluate", rich_help_panel=OWN)(predict.evaluate)
app.command("info", rich_help_panel=OWN)(models.info)
app.command("forget", rich_help_panel=OWN)(models.forget)
app.command("export", rich_help_panel=OWN)(models.export)
app.command("push", rich_help_panel=OWN)(models.push)
app.command("pull", rich_help_panel=OWN)(models.pull)
app.command("train", rich_help_panel=EXPERIMENTS)(training.train)
app.command("resume", rich_help_panel=EXPERIMENTS)(training.resume)
app.command("report", rich_help_panel=EXPERIMENTS)(report.report)
app.command("reproduce", rich_help_panel=EXPERIMENTS)(reproduce.reproduce)
app.command("tune", rich_help_panel=EXPERIMENTS)(tune.tune)
app.command("paper", rich_help_panel=EXPERIMENTS)(paper.paper)
app.command("recipes", rich_help_panel=HERE)(catalogue.recipes)
app.command("methods", rich_help_panel=HERE)(catalogue.methods)
app.command("show", rich_help_panel=HERE)(catalogue.show)
app.command("bench", rich_help_panel=HERE)(bench.bench)
app.command("doctor", rich_help_panel=HERE)(doctor.doctor)


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
