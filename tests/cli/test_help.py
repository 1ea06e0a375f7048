"""Every command's help: a sentence of purpose, an example that parses, and options in panels."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
import typer.main

from dytox.cli.main import app

GROUP: Any = typer.main.get_command(app)  # typer's own class, which mypy cannot name


@pytest.mark.parametrize("name", sorted(GROUP.commands))
def test_help_of_a_command(name: str) -> None:
    command = GROUP.commands[name]
    assert command.rich_help_panel, f"dytox {name}: give it a panel in cli/main.py"
    purpose = command.help.split("\n\n")[0]
    assert purpose[0].isupper(), purpose
    assert purpose.endswith("."), purpose
    examples = [line for line in command.help.splitlines() if line.startswith("Example: ")]
    assert len(examples) == 1, f"dytox {name}: one line of the docstring is `Example: dytox {name} …`"
    program, called, *arguments = shlex.split(examples[0].removeprefix("Example: "))
    assert (program, called) == ("dytox", name)
    with command.make_context(name, arguments) as context:  # refuses what the command does not know
        assert context.params is not None
    for parameter in command.params:
        assert parameter.help, f"dytox {name}: {parameter.name} has no help"
        if parameter.param_type_name == "option":
            assert parameter.rich_help_panel, f"dytox {name}: {parameter.name} stands in no panel"


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("forget", "MODEL CLASS..."),
        ("report", "RUN..."),
        ("paper", "[TABLE]"),
        ("predict", "MODEL IMAGE..."),
    ],
)
def test_how_a_command_is_called(name: str, usage: str, dytox: Callable[..., Any]) -> None:
    told = dytox(name, "--help").out
    line = next(line for line in told.splitlines() if "Usage: " in line)
    assert re.sub("[{}]", "", line).split("[OPTIONS] ")[1].strip() == usage
    assert "<bool>" not in told


def test_commands_stand_in_three_panels() -> None:
    panels = {command.rich_help_panel for command in GROUP.commands.values()}
    assert panels == {"Your own model", "Experiments", "What there is"}
