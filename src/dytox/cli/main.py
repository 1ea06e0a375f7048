"""`dytox`: the commands, and what becomes of an error. Torch is imported only by commands that use it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dytox import __version__
from dytox.cli import catalogue, launch, learn, models, paper, predict, report, training
from dytox.cli.output import console, say
from dytox.errors import UserError

app = typer.Typer(
    name="dytox",
    help="Continual image classification: teach a model new classes, task after task, and keep the old ones.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("train")(training.train)
app.command("resume")(training.resume)
app.command("learn")(learn.learn)
app.command("predict")(predict.predict)
app.command("evaluate")(predict.evaluate)
app.command("info")(models.info)
app.command("forget")(models.forget)
app.command("export")(models.export)
app.command("push")(models.push)
app.command("pull")(models.pull)
app.command("report")(report.report)
app.command("paper")(paper.paper)
app.command("recipes")(catalogue.recipes)
app.command("methods")(catalogue.methods)
app.command("show")(catalogue.show)


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
    try:
        app(prog_name="dytox")
    except UserError as error:
        launch.let_main_speak()
        say(console(stderr=True), f"Error: {error}", style="red")
        sys.exit(2)
