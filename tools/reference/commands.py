"""The page of the commands: purpose, example, arguments and options, as in `--help`."""

from __future__ import annotations

from typing import Any

import typer.main

from dytox.cli.main import app

ABOUT = """# Commands

`dytox COMMAND --help` prints the same text.

Exit codes: 0 done; 2 an error that you can fix, explained in one sentence; 3 done, but some inputs were
skipped and named; 1 a bug; 130 after Ctrl-C, with a checkpoint.

`dytox --install-completion` lets your shell complete commands, recipes, methods and config keys.
"""


def page() -> list[str]:
    """Return the lines of the page."""
    group: Any = typer.main.get_command(app)
    panels: dict[str, list[str]] = {}
    for name, command in group.commands.items():
        panels.setdefault(command.rich_help_panel, []).extend(_command(name, command))
    lines = [ABOUT]
    for title, parts in panels.items():
        lines += [f"## {title}", "", *parts]
    return lines


def _command(name: str, command: Any) -> list[str]:
    paragraphs = [part.replace("\n", " ") for part in command.help.split("\n\n")]
    example = next(part for part in paragraphs if part.startswith("Example: "))
    about = [part for part in paragraphs if part is not example]
    lines = [f"### {name}", "", "\n\n".join(about), "", "```", example.removeprefix("Example: "), "```", ""]
    rows = [f"| `{_spelling(each)}` | {each.help}{_default(each)} |" for each in command.params]
    return [*lines, "| | |", "|---|---|", *rows, ""] if rows else lines


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = (parameter.metavar or parameter.name.upper()) + ("..." if parameter.nargs == -1 else "")
        return name if parameter.required else f"[{name}]"
    value = (parameter.metavar or "").replace("|", "\\|")  # or it would end the cell of the table
    return " ".join([", ".join(parameter.opts), value]).strip()


def _default(parameter: Any) -> str:
    shown = isinstance(parameter.default, int | float | str) and parameter.default is not False
    return f" Default: {parameter.default}." if shown and not parameter.required else ""
