"""Every public name says what it is, and every silenced type error why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import dytox

MODULES = sorted(Path(dytox.__file__).parent.rglob("*.py"))


TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
CLASSES = {
    each.name: each for tree in TREES.values() for each in ast.walk(tree) if isinstance(each, ast.ClassDef)
}


def overrides(method: str, owner: ast.Module | ast.ClassDef) -> bool:
    """Whether a base class documents the method; torch documents `forward`."""
    for base in owner.bases if isinstance(owner, ast.ClassDef) else []:
        name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
        if name == "Module" and method == "forward":
            return True
        inherited = CLASSES.get(name)
        own = [] if inherited is None else inherited.body
        documented = [
            each.name for each in own if isinstance(each, ast.FunctionDef) and ast.get_docstring(each)
        ]
        if method in documented or (inherited is not None and overrides(method, inherited)):
            return True
    return False


def undocumented(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
    """Public functions and classes without a docstring, but for what overrides a documented method."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.ClassDef) and not each.name.startswith("_"):
            overload = any(
                isinstance(name, ast.Name) and name.id == "overload" for name in each.decorator_list
            )
            if not ast.get_docstring(each) and not overload and not overrides(each.name, node):
                yield prefix + each.name
            if isinstance(each, ast.ClassDef):
                yield from undocumented(each, f"{prefix}{each.name}.")


def test_every_public_name_is_documented() -> None:
    for path, tree in TREES.items():
        assert ast.get_docstring(tree), f"{path}: say in its first line what it is"
        assert list(undocumented(tree)) == [], path


def test_every_silenced_type_error_has_a_reason() -> None:
    for path in MODULES:
        for line in path.read_text(encoding="utf-8").splitlines():
            if "type: ignore" in line:
                assert re.search(r"# type: ignore\[[\w, -]+\]  # \S", line), f"{path}: {line.strip()}"
