"""`info`, `forget`, `export`, `push` and `pull`: commands about a whole model directory."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from dytox.cli.options import SHARED, WHERE, JsonOption, ModelArgument, TrustedMethodOption
from dytox.cli.output import console, listed, printable_json, say, table, volume
from dytox.text import plural

if TYPE_CHECKING:
    from dytox.growing.description import ModelDescription


def info(model: ModelArgument, as_json: JsonOption = False, method: TrustedMethodOption = None) -> None:
    """Show the classes of a model, its size, and when and where it learned.

    Example: dytox info flowers/
    """
    from dytox.growing.description import describe_model

    found = describe_model(model, method)
    if as_json:
        typer.echo(printable_json(asdict(found), indent=2))
    else:
        _show(console(), found)


def _show(to: Console, found: ModelDescription) -> None:
    knows = f"{plural(found.classes, 'class')} in {plural(len(found.tasks), 'task')}"
    made = f"recipe {found.recipe}, method {found.method}"
    say(to, f"{found.path}: {knows}, {made}, images of {found.image_size}×{found.image_size} pixels.")
    kept = f"{plural(found.memory_images, 'image')} to rehearse, {found.held_out_images} held out"
    say(to, f"{found.parameters:,} parameters; {kept}; {volume(found.bytes)} in all.\n")
    rows = [
        (
            f"Task {each.task}",
            listed(each.classes),
            (each.learned or "unknown")[:10],
            volume(each.weight_bytes),
            volume(each.memory_bytes),
        )
        for each in found.tasks
    ]
    table(to, ["Task", "Classes", "Learned", "weights", "images"], rows)
    for entry in found.history:
        say(to, f"{entry['finished'][:10]}: {_event(entry)}")


def _event(entry: dict[str, Any]) -> str:
    """One event of the model's history in words."""
    if "forgotten" in entry:
        return f"forgot {plural(entry['forgotten'], 'class')}"
    what = (
        "new classes"
        if entry["classes"]
        else "of known classes"
        if entry["known_classes"]
        else "forgotten since"
    )
    return f"{plural(entry['images'], 'image')}, {what}, {entry['machine']}"


def forget(
    model: ModelArgument,
    classes: Annotated[
        list[str], typer.Argument(help="The names of the classes to remove.", metavar="CLASS")
    ],
    method: TrustedMethodOption = None,
) -> None:
    """Remove classes from a model: their outputs and their images.

    With trained methods the other logits do not change; a computed classifier is computed again without the
    class.

    Example: dytox forget flowers/ tulip
    """
    from dytox.growing.teaching import forget as remove

    learner, gone = remove(model, classes, method=method)
    left = plural(len(learner.classes_), "class")
    say(console(), f"Removed {listed(sorted(set(classes)))} with {plural(gone, 'image')}; {left} left.")
    if learner.method.forgets_exactly:
        say(console(), "The model is now exactly what it would be if it had never seen these classes.")
        return
    say(
        console(),
        "The weights that all classes share are not unlearned: what they took from those images is still in "
        "them, and only a new model, learned without these images, is free of it.",
    )


def export(
    model: ModelArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="Write this file: FILE.onnx for ONNX, FILE.pt2 for torch.export.",
            metavar="FILE",
            rich_help_panel=WHERE,
        ),
    ],
    method: TrustedMethodOption = None,
) -> None:
    """Export a model as one file that predicts without dytox, in the format of ONNX or torch.export.

    Example: dytox export flowers/ --out flowers.onnx
    """
    from dytox.export import write_export
    from dytox.learner import ContinualLearner

    learner = ContinualLearner.load(model, method=method)
    write_export(learner, out)
    say(
        console(),
        f"{out}: uint8 images (batch, {learner.size}, {learner.size}, 3) in, confidences (batch, "
        f"{len(learner.classes_)}) out, class names inside; {volume(out.stat().st_size)}.",
    )


def push(
    model: ModelArgument,
    repository: Annotated[
        str,
        typer.Argument(help="The repository on Hugging Face, as in somebody/flowers.", metavar="REPOSITORY"),
    ],
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="Make a new repository public; default private.", rich_help_panel=SHARED
        ),
    ] = False,
    with_memory: Annotated[
        bool,
        typer.Option(
            "--with-memory",
            help="Upload the images in its memory too, so that others can go on teaching it.",
            rich_help_panel=SHARED,
        ),
    ] = False,
    method: TrustedMethodOption = None,
) -> None:
    """Upload a model to Hugging Face with a model card; by default without the images in its memory.

    Example: dytox push flowers/ somebody/flowers
    """
    from dytox.hub import push as upload

    address = upload(model, repository, private=not public, with_memory=with_memory, method=method)
    say(console(), address)


def pull(
    repository: Annotated[
        str,
        typer.Argument(help="The repository on Hugging Face, as in somebody/flowers.", metavar="REPOSITORY"),
    ],
    model: Annotated[Path, typer.Argument(help="The model directory to create.", metavar="MODEL")],
    method: TrustedMethodOption = None,
) -> None:
    """Download a model from Hugging Face.

    Example: dytox pull somebody/flowers flowers/
    """
    from dytox.hub import pull as download

    download(repository, model, method=method)
    say(console(), f"Downloaded to {model}: `dytox info {model}` shows what it knows.")
