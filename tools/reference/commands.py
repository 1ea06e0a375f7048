"""The commands' page: purpose, example, arguments and options, as `--help` has them."""

from __future__ import annotations

from typing import Any

import typer.main

from dytox.cli.main import app

ABOUT = """# Commands

Every command also says all this itself: `dytox COMMAND --help`.

Exit codes: 0 done; 2 something you can mend, said in one sentence; 3 done, but some inputs were skipped and
named; 1 a bug; 130 after Ctrl-C, with a checkpoint.

`dytox --install-completion` lets your shell complete commands, recipes, methods and config keys.
"""


def page() -> list[str]:
    """The lines of the page."""
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
    value = (parameter.metavar or "").replace("|", "\\|")  # which would end the table's cell
    return " ".join([", ".join(parameter.opts), value]).strip()


def _default(parameter: Any) -> str:
    shown = isinstance(parameter.default, int | float | str) and parameter.default is not False
    return f" Default: {parameter.default}." if shown and not parameter.required else ""
