"""docs/reference/ is what the code says."""

from __future__ import annotations

import runpy
import sys

import pages
import pytest


def test_the_committed_pages_are_what_the_code_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["reference", "--check"])
    for name in ("api", "commands", "config"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    try:
        runpy.run_path(str(pages.ROOT / "tools" / "reference"), run_name="__main__")
    except SystemExit as left:
        pytest.fail(str(left))


def test_every_key_has_a_meaning() -> None:
    text = (pages.ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) > 80
    for row in rows:
        assert not row.endswith("|  |"), f"say beside the key what it means: {row}"
