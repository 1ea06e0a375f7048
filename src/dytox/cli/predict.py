"""`predict` and `evaluate`: the answers of a model about images, and how often they are right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from dytox.cli.options import ANSWER, FORM, JsonOption, ModelArgument, TrustedMethodOption
from dytox.cli.output import console, finish, printable_json, say, table
from dytox.errors import UserError
from dytox.text import csv_line

if TYPE_CHECKING:
    from dytox.growing.predictions import Prediction
    from dytox.learner.assessment import Assessment


ImagesArgument = Annotated[
    list[str],
    typer.Argument(
        help="Image files, folders (searched recursively), or - for an image from standard input.",
        metavar="IMAGE",
    ),
]
TopOption = Annotated[
    int, typer.Option("--top", min=1, help="Give this many classes for each image.", rich_help_panel=ANSWER)
]
TaskOption = Annotated[
    int | None,
    typer.Option(
        "--task",
        min=1,
        help="Choose only among the classes of this task, counted from 1.",
        rich_help_panel=ANSWER,
    ),
]
RejectOption = Annotated[
    bool,
    typer.Option(
        "--reject", help="Answer `unknown` where errors would exceed --error-rate.", rich_help_panel=ANSWER
    ),
]
ErrorRateOption = Annotated[
    float,
    typer.Option(
        "--error-rate",
        help="With --reject: the share of answers that may be wrong, from 0 to 1.",
        rich_help_panel=ANSWER,
    ),
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.", rich_help_panel=FORM)]


def predict(
    model: ModelArgument,
    images: ImagesArgument,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    top: TopOption = 1,
    task: TaskOption = None,
    reject: RejectOption = False,
    error_rate: ErrorRateOption = 0.05,
    method: TrustedMethodOption = None,
) -> None:
    """Classify images: print the class of each and the confidence in it.

    Images that cannot be read are skipped and named; the exit code is then 3.

    Example: dytox predict flowers/ garden.jpg --top 3
    """
    from dytox.growing.predictions import choices
    from dytox.growing.predictions import predict as predicted
    from dytox.learner import ContinualLearner

    write = _form(as_json, as_csv)
    learner = ContinualLearner.load(model, method=method)
    skipped: list[str] = []
    top = min(top, len(choices(learner, task)))
    with _bar(streaming=as_json or as_csv) as bar:
        found = predicted(
            learner,
            images,
            top=top,
            task=task,
            error_rate=error_rate if reject else None,
            skipped=skipped,
            progress=bar,
        )
        write(found, top)
    finish(skipped)


def _form(as_json: bool, as_csv: bool) -> Callable[[Iterator[Prediction], int], None]:
    """The function that prints predictions with a number of classes each, in the chosen form."""
    if as_json and as_csv:
        raise UserError("--json and --csv are two forms of one output: choose one.")
    return _write_json if as_json else _write_csv if as_csv else _write_table


@contextmanager
def _bar(*, streaming: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar, if standard error is a terminal and nothing else is written to it meanwhile."""
    to = console(stderr=True)
    busy = streaming and sys.stdout.isatty()
    with Progress(console=to, disable=busy or not to.is_terminal, transient=True) as progress:
        bar = progress.add_task("images")
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def _write_json(found: Iterator[Prediction], _: int) -> None:
    """Print an array, entry by entry as they are found."""
    separator = "[\n"
    for each in found:
        sys.stdout.write(f"{separator}  {printable_json(each.to_json())}")
        separator = ",\n"
    sys.stdout.write("\n]\n")


def _write_csv(found: Iterator[Prediction], top: int) -> None:
    """Print `image,class,confidence`, two more columns per further class; a rejected image has no class."""
    further = [name for rank in range(2, top + 1) for name in (f"class_{rank}", f"confidence_{rank}")]
    sys.stdout.write(csv_line(["image", "class", "confidence", *further]))
    for each in found:
        rest = [value for other in each.top[1:] for value in (other.name, f"{other.confidence:.4f}")]
        sys.stdout.write(csv_line([each.image, each.name or "", f"{each.confidence:.4f}", *rest]))


def _write_table(found: Iterator[Prediction], top: int) -> None:
    """Print a table after all images have been classified."""
    rows = []
    for each in found:
        guesses = [(guess.name, f"{guess.confidence:.1%}") for guess in each.top]
        if each.name is None:
            guesses[0] = (f"unknown (perhaps {guesses[0][0]})", guesses[0][1])
        rows.append([each.image, *(text for guess in guesses for text in guess)])
    further = [name for rank in range(2, top + 1) for name in (f"Class {rank}", "confidence")]
    table(console(), ["Image", "Class", "confidence", *further], rows)


def evaluate(
    model: ModelArgument,
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="A folder that holds one folder of images per class; default: the model's held-out images.",
            metavar="FOLDER",
        ),
    ] = None,
    as_json: JsonOption = False,
    method: TrustedMethodOption = None,
) -> None:
    """Measure the accuracy of a model on labelled images, by class and by task, and its mistakes.

    Example: dytox evaluate flowers/ test-photos/
    """
    from dytox.growing.predictions import evaluate as evaluated
    from dytox.learner import ContinualLearner

    found, skipped = evaluated(ContinualLearner.load(model, method=method), folder)
    if as_json:
        typer.echo(printable_json(asdict(found), indent=2))
    else:
        _show(console(), found)
    finish(skipped)


def _show(to: Console, found: Assessment) -> None:
    top5 = "" if found.top5 is None else f", {found.top5:.1f} % among the first five"
    told = f"{found.task_aware_top1:.1f} % if the task is told"
    say(to, f"{found.top1:.1f} % of {found.images} images right{top5}; {told}.")
    say(to, f"The confidences are {found.calibration_error:.1f} points off on average.\n")
    classes = [(each.name, str(each.task), str(each.images), f"{each.top1:.1f}") for each in found.classes]
    table(to, ["Class", "task", "images", "% right"], classes)
    tasks = [
        (f"Task {each.task}", str(each.images), f"{each.top1:.1f}", f"{each.task_aware_top1:.1f}")
        for each in found.tasks
    ]
    table(to, ["Task", "images", "% right", "if told"], tasks)
    if found.confusions:
        pairs = [(each.name, each.taken_for, str(each.images)) for each in found.confusions]
        table(to, ["Class", "Taken for", "images"], pairs)
