"""The commands of `dytox`, and how errors are reported. Only commands that use torch import it."""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer

from dytox import __version__
from dytox.cli import (
    bench,
    catalogue,
    launch,
    learn,
    models,
    paper,
    predict,
    report,
    training,
    tune,
)
from dytox.cli.options import Command, Commands
from dytox.cli.output import console, lost_output, open_streams, safe, say
from dytox.errors import UserError

USAGE_ERROR: Any = typer.BadParameter.__base__  # click's, which newer versions of typer carry inside
_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory", re.IGNORECASE)

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
        paper.reproduce,
        tune.tune,
        paper.paper,
    ],
    "What there is": [
        catalogue.recipes,
        catalogue.methods,
        catalogue.show,
        bench.bench,
        catalogue.doctor,
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
    """Run the command line and leave with its exit code.

    0: done; 1: a bug; 2: something the user can mend; 3: some inputs were skipped; 130: Ctrl-C.
    """
    open_streams()
    launch.end_with_parent()
    try:
        code = _perform()
    except SystemExit as end:  # a command or the completion of the shell has left by itself
        code = end.code
    except KeyboardInterrupt:
        code = 130
    lost = lost_output()
    if lost is not None:
        code = code or _report_lost(lost)
    launch.leave(code)


def _perform() -> str | int | None:
    """Run the command and give its exit code; errors have been reported."""
    try:
        return app(prog_name="dytox", standalone_mode=False)
    except USAGE_ERROR as error:
        from typer.rich_utils import rich_format_error

        error.message = safe(error.message)
        rich_format_error(error)
        return int(error.exit_code)
    except typer.Abort:
        return 130
    except Exception as error:
        lost = lost_output()
        if lost is not None:
            return _report_lost(lost)
        sentence = explain(error)
        if sentence is None:
            _report_bug(error)
            return 1
        if not launch.hand_over(error, sentence):
            _say_error(sentence)
        return 2


def explain(error: Exception) -> str | None:
    """One sentence about an error that the user or the system caused; None for a bug."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):
        return _explain_system(error)
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return f"The name {error.object!r:.200} is not valid UTF-8: rename it."
    if isinstance(error, RuntimeError) and "home directory" in str(error):
        return (
            "Your home directory is not known: set the environment variable HOME, or name folders without ~."
        )
    if isinstance(error, RecursionError):
        return "An input is nested too deeply to be read: check the files that the command names."
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error))
    ):
        return "The memory of this machine does not suffice: choose smaller images, batches or models."
    return None


def _explain_system(error: OSError) -> str:
    reason, name = error.strerror or str(error) or type(error).__name__, error.filename
    where = (
        "Standard output or a file"
        if name is None
        else os.fsdecode(name)
        if isinstance(name, bytes)
        else name
    )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{where}: the disk is full, free some space and start again."
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{where}: too many files are open, allow more with `ulimit -n`."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{where}: {reason}, allow it, or choose another place."
    return f"{where}: {reason}, check the name."


def _report_lost(error: OSError) -> int:
    if error.errno != errno.EPIPE:  # whoever read the pipe has closed it, and knows
        _say_error(f"Standard output cannot be written ({error.strerror}), so the result is lost.")
        return 2
    return 1


def _report_bug(error: Exception) -> None:
    text = "".join(traceback.format_exception(error))
    with suppress(OSError):
        sys.stderr.write(safe(text))
        sys.stderr.flush()
    _say_error("This is a bug in dytox: please report it with the lines above and the command.")


def _say_error(sentence: str) -> None:
    with suppress(OSError):  # standard error may be closed or full too; the exit code says it
        say(console(stderr=True), f"Error: {sentence}", style="red")
