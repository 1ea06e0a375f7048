"""Arguments and options that several commands share, the panels of the help, and shell completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

# The panels of options in the help.
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
    """Return a function that completes a name from its prefix."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def recipe_names(incomplete: str) -> list[str]:
    """Complete the name of a recipe from its prefix."""
    from dytox.recipes import scenarios

    return beginning(scenarios())(incomplete)


def method_names(incomplete: str) -> list[str]:
    """Complete a method name from its prefix; imports no method."""
    from dytox.recipes import methods, paper_name

    return beginning(dict.fromkeys(each for name in methods() for each in (name, paper_name(name))))(
        incomplete
    )


def config_keys(incomplete: str) -> list[str]:
    """Complete a config key from its prefix, with an equals sign after it."""
    from dytox.config import Config

    return beginning(f"{key}=" for key in _keys(Config))(incomplete)


def keys_of(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a config key from its prefix, with the options of the method that the command line names.

    The method's code, which imports torch, is loaded only for keys that begin with `method.`.
    """
    if not incomplete.startswith("method."):
        return config_keys(incomplete)
    from dytox.errors import UserError
    from dytox.methods.registry import find_method
    from dytox.recipes import compose

    try:
        named = compose("digits", method=context.params.get("method") or "dytox").method.name
        return beginning(f"{key}=" for key in _keys(find_method(named).Options, "method."))(incomplete)
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
    """Return the option `--set KEY=VALUE`; `but` says in its help which keys are excluded."""
    return typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help=f"Override a key of the config, as in training.epochs=50{but}. Repeatable.",
        autocompletion=keys_of,
        rich_help_panel=WHAT,
    )


ModelArgument = Annotated[Path, typer.Argument(help="A model directory.", metavar="MODEL")]
RecipeArgument = Annotated[
    str,
    typer.Argument(
        help="The name of a recipe (`dytox recipes` lists them), or a YAML file of the same form.",
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
        help="The method to train (`dytox methods` lists them); your own as module:Class.",
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
        help="Choose the dataset (data.dataset), instead of the recipe's; your own as module:function.",
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

TrustedDatasetOption = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="DATASET",
        help="The run's dataset, if it is your own (module:function): a file alone never runs code.",
        rich_help_panel=OWN,
    ),
]


def all_overrides(overrides: list[str] | None, dataset: str | None) -> list[str]:
    """Return the overrides of `--dataset` and `--set`, in this order."""
    return [*([f"data.dataset={dataset}"] if dataset else []), *(overrides or [])]


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=FORM)]


class Command(TyperCommand):
    """A command whose flags are shown without a type, as they take no value."""

    def get_params(self, ctx: Any) -> Any:
        """Return the arguments and options."""
        return _plain(super().get_params(ctx))


class Commands(TyperGroup):
    """The group of all commands, with the same flags."""

    def get_params(self, ctx: Any) -> Any:
        """Return the arguments and options."""
        return _plain(super().get_params(ctx))


def _plain(parameters: list[Any]) -> list[Any]:
    """Let flags default to False; typer would import pydantic, which is slow, to check None."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.default, each.metavar = each.default or False, ""
    return parameters


def folder_option(default: str) -> Any:
    """Return the option `--out DIR`, the folder of several runs; `default` is named in its help."""
    return typer.Option(
        "--out",
        help=f"Write the runs into this folder; default {default}.",
        metavar="DIR",
        rich_help_panel=WHERE,
    )
