"""`learn`: a model directory grows by a folder of images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dytox.cli.options import SetOption
from dytox.cli.output import console, counted, duration, finish, listed, say, table

if TYPE_CHECKING:
    from dytox.growing.measure import Row
    from dytox.growing.plan import Plan


def learn(
    model: Annotated[
        Path, typer.Argument(help="A model directory; made if it is not there.", metavar="MODEL")
    ],
    folder: Annotated[
        Path, typer.Argument(help="Holds a folder of images for each class.", metavar="FOLDER")
    ],
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", help="Of a new model; by default chosen from the images.", metavar="RECIPE"),
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="Of a new model; by default dytox.")
    ] = None,
    overrides: SetOption = None,
    held_out: Annotated[
        float, typer.Option("--held-out", help="The share of each class to measure by, not to learn from.")
    ] = 0.2,
    encoder: Annotated[
        Path | None,
        typer.Option("--encoder", help="Of a new model: a pretrained ViT, as safetensors.", metavar="FILE"),
    ] = None,
    train_encoder: Annotated[
        bool, typer.Option("--train-encoder", help="Let the pretrained encoder learn too.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen and how long it takes; change nothing.")
    ] = False,
) -> None:
    """Teach a model the classes of a folder; it keeps those that it knows.

    Interrupted, the model is as it was, and the same command goes on.

    Example: dytox learn flowers/ photos/
    """
    from dytox.growing import lesson, measure
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
    if plan.kept:
        say(to, f"{counted(plan.kept, 'image')} that the model has already, left out.")
    if plan.is_done:
        say(to, f"{model} has learned these images: there is nothing left to do.")
    elif dry_run:
        say(to, f"It would take about {duration(measure.seconds(plan))}; nothing was changed.")
    else:
        from dytox.cli.progress import Progress

        with Progress(to, goes_on=f"{model} is as it was, and the same command goes on") as progress:
            rows = lesson.learn(plan, progress)
        _results(to, rows)
        learner = plan.learner
        say(
            to,
            f"{model} knows {counted(len(learner.classes_), 'class')}, with "
            f"{counted(len(learner.memory), 'image')} to rehearse and {len(learner.held_out)} to measure by.",
        )
    finish(plan.skipped)


def _announce(to: Console, plan: Plan) -> None:
    config, learner = plan.learner.config, plan.learner
    if plan.is_first:
        say(
            to,
            f"New model {plan.path}: recipe {config.recipe}, method {config.method.name}, images of "
            f"{learner.size}×{learner.size} pixels, {config.training.epochs} epochs of batches of "
            f"{config.training.batch}, memory for {config.memory.size:,} images.",
        )
    images = f"{counted(len(plan.learned), 'image')} to learn from, {len(plan.held)} held out"
    if plan.new:
        say(to, f"{counted(len(plan.new), 'new class')} ({listed(plan.new)}), {images}.")
    if plan.known:
        joined = f"Known already: {listed(plan.known)}; their images join the rehearsal"
        say(to, f"{joined}." if plan.new else f"{joined}, and the model is refreshed: {images}.")


def _results(to: Console, rows: list[Row]) -> None:
    if not rows:
        say(to, "No image was held out, so nothing was measured.")
        return
    shown = [
        (row.what, "–" if row.before is None else f"{row.before:.1f}", f"{row.after:.1f}", str(row.images))
        for row in rows
    ]
    table(to, ["Held-out images of", "% right before", "after", "images"], shown)
