"""`recipes`, `methods`, `show` and `doctor`: what there is, and whether the installation is complete."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dytox.cli.options import (
    FORM,
    DatasetOption,
    EncoderOption,
    JsonOption,
    MethodOption,
    RecipeArgument,
    SetOption,
    all_overrides,
)
from dytox.cli.output import console, printable_json, safe, say, table

if TYPE_CHECKING:
    from dytox.config import Config
    from dytox.installation import Finding


def recipes() -> None:
    """List the recipes: datasets that are split into tasks.

    Example: dytox recipes
    """
    from dytox.recipes import scenarios

    _table(["recipe", "what it is"], list(scenarios().items()))


def methods() -> None:
    """List the methods, what each does and what it cannot do.

    Example: dytox methods
    """
    from dytox import recipes
    from dytox.methods.registry import find_method, places

    known, rows = places(), list[tuple[str, ...]]()
    for name, about in recipes.methods().items():
        found = find_method(
            name if name in known else name.partition("-")[0]
        )  # a variant is named by its method
        what = [about or found.summary]
        what += [f"on a {found.works_on} encoder alone"] if name in known and found.works_on else []
        what += [f"cannot {found.cannot}"] if found.cannot else []
        names = [name] if name in known else dict.fromkeys([name, recipes.paper_name(name)])
        rows.append((" or ".join(names), "; ".join(what)))
    _table(["method", "what it does, and what it cannot do"], rows)


def show(
    recipe: RecipeArgument,
    method: MethodOption = "dytox",
    encoder: EncoderOption = None,
    dataset: DatasetOption = None,
    overrides: SetOption = None,
    origin: Annotated[
        bool,
        typer.Option("--origin", help="Say beside every value where it comes from.", rich_help_panel=FORM),
    ] = False,
) -> None:
    """Show the resolved config of a recipe, with the effective batch, learning rate and memory.

    Example: dytox show cifar100-10 --set training.batch=128
    """
    from dytox import recipes
    from dytox.data.datasets import loader
    from dytox.methods.registry import complete
    from dytox.runs.run_directory import to_yaml

    changes = all_overrides(overrides, dataset)
    config = complete(recipes.compose(recipe, method=method, encoder=encoder, overrides=changes))
    loader(config.data)  # refuses a dataset that does not exist
    if origin:
        found = recipes.layers(recipe, method=method, encoder=encoder, overrides=changes)
        _show_origins(config, recipes.origins(found))
        return
    typer.echo(safe(to_yaml(config.model_dump()).decode()), nl=False)
    memory = config.memory
    kept = f"{memory.size} in all" + (f", at most {memory.per_class} a class" if memory.per_class else "")
    kept = f"{kept}, selected by {memory.selection}" if memory.size else "none"
    typer.echo("\n# In effect")
    for name, phase in (("training", config.training), ("finetuning", config.finetuning)):
        typer.echo(
            f"# {name}: {phase.epochs} epochs, batch {phase.batch}, learning rate {phase.effective_lr:g}"
        )
    typer.echo(f"# memory: {kept}")


def _show_origins(config: Config, origins: Mapping[str, str]) -> None:
    """Print a line for each value: its full key, the value, and the layer that it comes from."""
    from dytox.checking import flat

    lines = {f"{key}: {json.dumps(value)}": key for key, value in flat(config.model_dump()).items()}
    width = max(len(line) for line in lines if len(line) < 60)
    for line, key in lines.items():
        typer.echo(safe(f"{line:<{width}}  # {origins.get(key, 'default')}"))


def _table(columns: list[str], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, no_wrap=place == 0, style="bold" if place == 0 else None)
    for row in rows:
        table.add_row(*map(Text, row))
    console().print(table)


def doctor(as_json: JsonOption = False) -> None:
    """Check this installation: versions, devices, disk space, extras, and how to install what is missing.

    The exit code is 2 if something is missing that every command needs.

    Example: dytox doctor
    """
    from dytox.installation import examine

    found = examine()
    healthy = all(each.good or not each.needed for each in found)
    if as_json:
        typer.echo(
            printable_json({"healthy": healthy, "findings": [asdict(each) for each in found]}, indent=2)
        )
    else:
        _show_findings(console(), found)
        verdict = (
            "Everything that dytox needs is installed."
            if healthy
            else "Something that dytox needs is missing."
        )
        say(console(), f"\n{verdict}")
    if not healthy:
        raise typer.Exit(2)


def _show_findings(to: Console, found: Sequence[Finding]) -> None:
    marks = {(False, True): "no", (False, False): "–"}
    rows = [(each.topic, each.name, marks.get((each.good, each.needed), "yes"), each.value) for each in found]
    table(to, ["What", "Name", "Good", "Found"], rows)
    mends = [f"  {each.mend}  # {each.topic} {each.name}" for each in found if each.mend]
    if mends:
        say(to, "\n".join(["\nTo install what is missing:", *mends]))
