"""One name, one thing: a public name, or the name of a file, stands in one module of the package only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dytox
from dytox.cli.main import COMMANDS

SOURCE = Path(dytox.__file__).parent
# The same interface in several modules, on purpose.
COMMON = {
    "forward": "a pass through a network, as torch calls it",
    "load": "every module of a dataset has a function of this name, by which the dataset is read",
    "main": "where a program starts",
}
# A command is a function with the command's name; what does its work may have that name too.
COMMAND_NAMES = {command.__name__ for commands in COMMANDS.values() for command in commands}
SAME_FILES = {
    "dytox": "the method and its network",
    "encoders": "presets of encoders, and the encoders",
    "hugging_face": "datasets and encoders from there",
    "method": "the contract, and the module that it is imported from",
}


def public_names(path: Path) -> Iterator[str]:
    """The public functions, classes and variables that a module defines."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        found = []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found = [node.name]
        elif isinstance(node, ast.Assign):
            found = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found = [node.target.id]
        yield from (name for name in found if not name.startswith("_"))


def repeated(places: dict[str, set[str]]) -> dict[str, list[str]]:
    return {name: sorted(where) for name, where in places.items() if len(where) > 1}


def test_every_public_name_stands_in_one_module() -> None:
    places: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for name in public_names(path):
            places.setdefault(name, set()).add(str(path.relative_to(SOURCE)))
    found = repeated(places)
    assert {name: found[name] for name in found if name not in {*COMMON, *COMMAND_NAMES}} == {}


def test_every_file_has_a_name_of_its_own() -> None:
    places: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        if not path.stem.startswith("__"):
            places.setdefault(path.stem, set()).add(str(path.relative_to(SOURCE)))
    found = repeated(places)
    assert {name: found[name] for name in found if name not in SAME_FILES} == {}
