"""There is one epoch loop and one backward() in the package."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import dytox

SOURCE = Path(dytox.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def calls(name: str) -> Counter[str]:
    """How often each file calls something of this name."""
    found: Counter[str] = Counter()
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                function = node.func
                called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                found[str(path.relative_to(SOURCE))] += called == name
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
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            assert not (isinstance(node, ast.Attribute) and node.attr == "autograd"), path
