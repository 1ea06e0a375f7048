"""Arguments and options that several commands share, the panels of the help, and what a shell completes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
OWN = "Code of your own"


EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="NAME",
        help="A pretrained one: efficientnet-lite0, -lite1, -lite2; hf:REPO or a folder of Hugging Face; the "
        "safetensors file of a ViT; or none.",
        rich_help_panel=WHAT,
    ),
]


def beginning(names: Iterable[str]) -> Callable[[str], list[str]]:
    """What completes one of these names."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def recipe_names(incomplete: str) -> list[str]:
    """The recipes that begin so."""
    from dytox.recipes import scenarios

    return beginning(scenarios())(incomplete)


def method_names(incomplete: str) -> list[str]:
    """The methods that begin so, without importing any."""
    from dytox.recipes import methods, paper_name

    return beginning(dict.fromkeys(each for name in methods() for each in (name, paper_name(name))))(
        incomplete
    )


def config_keys(incomplete: str) -> list[str]:
    """The config keys that begin so, each ready for its value."""
    from dytox.config import Config

    return beginning(f"{key}=" for key in _keys(Config))(incomplete)


def keys_of(context: typer.Context, incomplete: str) -> list[str]:
    """The config keys that begin so, with the options of the method that the command line names.

    Those are in the method's own code, which imports torch: only where one of them is asked for.
    """
    if not incomplete.startswith("method."):
        return config_keys(incomplete)
    from dytox.errors import UserError
    from dytox.methods.registry import find
    from dytox.recipes import compose

    try:
        named = compose("digits", method=context.params.get("method") or "dytox").method.name
        return beginning(f"{key}=" for key in _keys(find(named).Options, "method."))(incomplete)
    except UserError:
        return []


def _keys(section: Any, prefix: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        within = next((kind for kind in kinds if hasattr(kind, "model_fields")), None)
        if within is None:
            yield prefix + name
        else:
            yield from _keys(within, f"{prefix}{name}.")


def set_option(but: str = "") -> Any:
    """`--set KEY=VALUE`; `but` says in the help which keys it is not for."""
    return typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help=f"Override a key, as in training.epochs=50{but}. Repeatable.",
        autocompletion=keys_of,
        rich_help_panel=WHAT,
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
SetOption = Annotated[list[str] | None, set_option()]
DatasetOption = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="DATASET",
        help="The dataset (data.dataset); your own as module:function.",
        rich_help_panel=WHAT,
    ),
]
TrustedMethodOption = Annotated[
    str | None,
    typer.Option(
        "--method",
        "-m",
        metavar="METHOD",
        help="The model's method, if it is your own (module:Class): a file alone never runs code.",
        rich_help_panel=OWN,
    ),
]


def changed(overrides: list[str] | None, dataset: str | None) -> list[str]:
    """The changes of `--set`, after that of `--dataset`."""
    return [*([f"data.dataset={dataset}"] if dataset else []), *(overrides or [])]


JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.", rich_help_panel=FORM)]
