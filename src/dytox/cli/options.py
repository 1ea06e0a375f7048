"""Arguments and options that several commands share, the panels of the help, and what a shell completes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

# The panels in which options stand, by what a person wants.
WHAT = "What to learn"
NEW = "Where the model is new"
FIRST = "To try first"
WHERE = "Where it goes"
SEVERAL = "Several runs"
PROCESSES = "Several processes"
MEASURE = "What is measured"
ANSWER = "What is answered"
SHARED = "What others get"
FORM = "Form of the answer"


def recipe_names(incomplete: str) -> list[str]:
    """The recipes that begin so."""
    from dytox.recipes import scenarios

    return [name for name in scenarios() if name.startswith(incomplete)]


def method_names(incomplete: str) -> list[str]:
    """The methods that begin so, without importing any."""
    from dytox.recipes import methods

    return [name for name in methods() if name.startswith(incomplete)]


def config_keys(incomplete: str) -> list[str]:
    """The config keys that begin so, each ready for its value."""
    from dytox.config import Config

    return [f"{key}=" for key in _keys(Config) if key.startswith(incomplete)]


def _keys(section: Any, prefix: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        within = next((kind for kind in kinds if hasattr(kind, "model_fields")), None)
        if within is None:
            yield prefix + name
        else:
            yield from _keys(within, f"{prefix}{name}.")


def set_option(panel: str) -> Any:
    """`--set KEY=VALUE`, in this panel of the help."""
    return typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Override a key, as in training.epochs=50. Repeatable.",
        autocompletion=config_keys,
        rich_help_panel=panel,
    )


ModelArgument = Annotated[Path, typer.Argument(help="A model directory.", metavar="MODEL")]
RecipeArgument = Annotated[
    str,
    typer.Argument(
        help="A recipe's name (see `dytox recipes`), or a YAML file of the same form.",
        metavar="RECIPE",
        autocompletion=recipe_names,
    ),
]
MethodOption = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        metavar="METHOD",
        help="A method (see `dytox methods`).",
        autocompletion=method_names,
        rich_help_panel=WHAT,
    ),
]
SetOption = Annotated[list[str] | None, set_option(WHAT)]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.", rich_help_panel=FORM)]
