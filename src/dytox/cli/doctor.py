"""`doctor`: what is here, what is missing, and the command that mends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from dytox.cli.options import JsonOption
from dytox.cli.output import console, say, table, to_json

if TYPE_CHECKING:
    from dytox.installation import Finding


def doctor(as_json: JsonOption = False) -> None:
    """Look over this installation: versions, devices, disk, extras, and how to mend what is missing.

    The exit code is 2 where something is missing that every command needs.

    Example: dytox doctor
    """
    from dytox.installation import examine

    found = examine()
    healthy = all(each.good or not each.needed for each in found)
    if as_json:
        typer.echo(to_json({"healthy": healthy, "findings": [asdict(each) for each in found]}, indent=2))
    else:
        _show(console(), found)
        verdict = "All that dytox needs is here." if healthy else "Something that dytox needs is missing."
        say(console(), f"\n{verdict}")
    if not healthy:
        raise typer.Exit(2)


def _show(to: Console, found: Sequence[Finding]) -> None:
    marks = {(False, True): "no", (False, False): "–"}
    rows = [(each.topic, each.name, marks.get((each.good, each.needed), "yes"), each.value) for each in found]
    table(to, ["What", "Name", "Good", "Found"], rows)
    mends = [f"  {each.mend}  # {each.topic} {each.name}" for each in found if each.mend]
    if mends:
        say(to, "\n".join(["\nTo mend or to add:", *mends]))
