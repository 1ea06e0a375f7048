"""There is one epoch loop and one backward() in the package."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import dytox

SOURCE = Path(dytox.__file__).parent


@cache
def nodes() -> list[tuple[str, ast.Call | ast.Attribute]]:
    """All calls and attributes in the package, each with its file."""
    return [
        (str(path.relative_to(SOURCE)), node)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Call, ast.Attribute))
    ]


def calls(name: str) -> Counter[str]:
    """How often each file calls something of this name."""
    found: Counter[str] = Counter()
    for path, node in nodes():
        if isinstance(node, ast.Call):
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            found[path] += called == name
    return +found


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("backward", {"engine/update.py": 1}),
        ("run_epoch", {"engine/loop.py": 1}),
        ("epoch_ended", {"engine/loop.py": 1, "engine/observer.py": 1}),
        ("step_ended", {"engine/loop.py": 1, "engine/observer.py": 1}),
        ("AdamW", {"engine/update.py": 1}),
        ("SGD", {"engine/update.py": 1}),
    ],
)
def test_only_here(name, places):
    assert calls(name) == places


def test_nobody_else_asks_for_gradients():
    for path, node in nodes():
        assert not (isinstance(node, ast.Attribute) and node.attr == "autograd"), path
