"""Code depends on code in one direction: the layers of docs/architecture.md, read from the imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dytox

SOURCE = Path(dytox.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

# From the bottom up. Layer 0 has an order of its own: the schema uses the errors.
LAYERS = [
    {"errors", "machine", "randomness", "facts", "text"},
    {"config", "checking", "importing", "upgrade"},
    {"data", "models", "losses", "calibration", "memory", "metrics", "runs"},
    {"engine"},
    {"methods"},
    {"recipes"},
    {"learner", "published"},
    {"report"},
    {"experiments", "growing", "export", "hub", "bench", "installation"},
    {"cli"},
]
PARTS = {"__main__": "cli", "method": "methods"}  # modules that belong to a package
SHARED = {"dytox.methods." + name for name in ("exemplar_free", "expanding", "prototypes", "validation")}
HEIGHT = {unit: height for height, units in enumerate(LAYERS) for unit in units}


def unit_of(path: Path) -> str:
    """The package or top-level module that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Every module of dytox that a file imports, anywhere in it, with the line."""
    package = ["dytox", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "dytox":
                yield name, node.lineno


def is_module(parts: list[str]) -> bool:
    path = SOURCE.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


def describe(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", MODULES, ids=describe)
def test_code_imports_only_from_layers_below_or_from_its_own_package(path: Path) -> None:
    if unit_of(path) == "__init__":
        return  # the door: it names what others import through it
    own = PARTS.get(unit_of(path), unit_of(path))
    assert own in HEIGHT, f"{own} has no layer: give it one in docs/architecture.md and here"
    for name, line in imports_of(path):
        parts = name.split(".")[1:]
        if not is_module(parts[:1]):
            assert parts == ["__version__"], f"{path}:{line} imports {name} through the package's door"
            continue
        unit = PARTS.get(parts[0], parts[0])
        assert unit == own or HEIGHT[unit] < HEIGHT[own], f"{path}:{line}: {own} must not import {name}"


@pytest.mark.parametrize("path", sorted((SOURCE / "methods").glob("*.py")), ids=describe)
def test_no_method_imports_another(path: Path) -> None:
    inside = [
        (name, line)
        for name, line in imports_of(path)
        if name.startswith("dytox.methods") and name.rpartition(".")[0] not in SHARED
    ]
    assert inside == [], f"{path} imports {inside}"


def test_the_reader_of_imports_sees_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "x.py"
    path.write_text(
        "import dytox.cli\nfrom dytox import cli\nfrom dytox.engine.loop import learn\n"
        "def f():\n    from ..methods import registry\n    from . import heads\nimport torch\n"
    )
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    found = sorted(name for name, _ in imports_of(path))
    expected = ["cli", "cli", "engine.loop.learn", "methods.registry", "models.heads"]
    assert found == [f"dytox.{name}" for name in expected]


@pytest.mark.parametrize("module", ["dytox", "dytox.recipes", "dytox.cli.main"])
def test_starting_up_does_not_import_torch(module: str) -> None:
    check = f"import sys, {module}; print([m for m in ('torch', 'numpy', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_update_calls_backward() -> None:
    callers = {
        describe(path)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "backward"
    }
    assert callers == {"engine/update.py"}
