"""The examples run as they stand, and learn something."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
CHANCE = 1 / 6  # each ends with six classes


SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.stem != "simplecil")  # that is a method alone


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_example(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 40
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # where a method is found by its name
    monkeypatch.chdir(tmp_path)
    spec.loader.exec_module(module)
    assert module.accuracy > 2.5 * CHANCE
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_there_are_four() -> None:
    names = {path.stem for path in SCRIPTS}
    assert names == {"own_arrays", "folder_in_tasks", "new_method", "new_encoder"}
