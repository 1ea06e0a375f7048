"""`learn`: teach a model the classes of a folder of images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dytox.cli.options import FIRST, MEASURE, NEW, EncoderOption, method_names, recipe_names, set_option
from dytox.cli.output import console, duration, finish, listed, say, table
from dytox.text import plural

if TYPE_CHECKING:
    from dytox.growing.measure import AccuracyChange
    from dytox.growing.plan import Plan


GrowingArgument = Annotated[
    Path, typer.Argument(help="The model directory; created if it does not exist.", metavar="MODEL")
]
FolderArgument = Annotated[
    Path, typer.Argument(help="A folder that holds one folder of images per class.", metavar="FOLDER")
]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="RECIPE",
        help="The recipe of a new model; default own-images, which fits size and epochs to the images.",
        autocompletion=recipe_names,
        rich_help_panel=NEW,
    ),
]
NewMethodOption = Annotated[
    str | None,
    typer.Option(
        "--method",
        "-m",
        metavar="METHOD",
        help="The method of a new model; default ranpac (ncm below ten images a class, dytox with --encoder "
        "none). A custom one (module:Class) is named each time.",
        autocompletion=method_names,
        rich_help_panel=NEW,
    ),
]
LearnSetOption = Annotated[
    list[str] | None, set_option("; model, method, data and loss only for a new model")
]
TrainEncoderOption = Annotated[
    bool,
    typer.Option(
        "--train-encoder",
        help="Train the pretrained encoder too, instead of freezing it.",
        rich_help_panel=NEW,
    ),
]
HeldOutOption = Annotated[
    float,
    typer.Option(
        "--held-out",
        help="Hold out this share of each class, from 0 to 1, to measure accuracy instead of training on it.",
        rich_help_panel=MEASURE,
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say what would happen and how long it would take, and change nothing.",
        rich_help_panel=FIRST,
    ),
]


def learn(
    model: GrowingArgument,
    folder: FolderArgument,
    recipe: RecipeOption = None,
    method: NewMethodOption = None,
    overrides: LearnSetOption = None,
    encoder: EncoderOption = None,
    train_encoder: TrainEncoderOption = False,
    held_out: HeldOutOption = 0.2,
    dry_run: DryRunOption = False,
) -> None:
    """Teach a model the classes of a folder, while it keeps those that it knows.

    If the command is interrupted, the model stays as it was, and the same command continues.

    Example: dytox learn flowers/ photos/
    """
    from dytox.growing.plan import make

    plan = make(
        model,
        folder,
        recipe=recipe,
        method=method,
        overrides=overrides or [],
        held_out=held_out,
        encoder=encoder,
        frozen=not train_encoder,
    )
    to = console()
    _announce(to, plan)
    if plan.is_done:
        say(to, f"{model} has learned these images: there is nothing left to do.")
    elif dry_run:
        _estimate(to, plan)
    else:
        _learn(to, plan)
    finish(plan.skipped)


def _estimate(to: Console, plan: Plan) -> None:
    from dytox.growing import measure

    say(to, f"It would take about {duration(measure.seconds(plan))}; nothing was changed.")


def _learn(to: Console, plan: Plan) -> None:
    from dytox.cli.progress import Progress
    from dytox.engine.observer import Interrupted
    from dytox.growing import teaching
    from dytox.growing.plan import model_state

    with Progress(to) as progress:
        try:
            rows = teaching.teach(plan, progress)
        except (Interrupted, KeyboardInterrupt):  # maybe after the new state has replaced the old one
            if model_state(plan.path) == plan.state:
                progress.goes_on = f"{plan.path} is as it was, and the same command continues"
            else:
                progress.goes_on = f"{plan.path} has learned these images, nothing is left to do"
            raise
    _results(to, rows)
    learner = plan.learner
    say(
        to,
        f"{plan.path} knows {plural(len(learner.classes_), 'class')}, with "
        f"{plural(len(learner.memory), 'image')} to rehearse and {len(learner.held_out)} to measure by.",
    )


def _training(plan: Plan) -> str:
    """How the model learns, in words."""
    config = plan.learner.config
    if not plan.learner.method.trains:
        return "nothing to train: the classifier is computed, and no image is kept to rehearse"
    epochs = f"{config.training.epochs} epochs of batches of {config.training.batch}"
    return f"{epochs}, memory for {config.memory.size:,} images"


def _announce(to: Console, plan: Plan) -> None:
    config, learner = plan.learner.config, plan.learner
    if plan.reason:
        say(to, plan.reason)
    if plan.is_first:
        say(
            to,
            f"New model {plan.path}: recipe {config.recipe}, method {config.method.name}, images of "
            f"{learner.size}×{learner.size} pixels, {_training(plan)}.",
        )
    images = f"{plural(len(plan.learned), 'image')} to learn from, {len(plan.held)} held out"
    if plan.new:
        say(to, f"{plural(len(plan.new), 'new class')} ({listed(plan.new)}), {images}.")
    if plan.known:
        how = "join the rehearsal" if plan.learner.method.trains else "are added to what it knows"
        joined = f"Known already: {listed(plan.known)}; their images {how}"
        say(to, f"{joined}." if plan.new else f"{joined}, and the model is refreshed: {images}.")
    if plan.kept:
        say(to, f"{plural(plan.kept, 'image')} that the model has seen already, left out.")


def _results(to: Console, rows: list[AccuracyChange]) -> None:
    if not rows:
        say(to, "No image was held out, so nothing was measured.")
        return
    shown = [
        (row.what, "–" if row.before is None else f"{row.before:.1f}", f"{row.after:.1f}", str(row.images))
        for row in rows
    ]
    table(to, ["Held-out images of", "% right before", "after", "images"], shown)
