"""docs/reference/ is what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_committed_pages_are_what_the_code_says() -> None:
    command = [sys.executable, str(ROOT / "tools" / "reference"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_key_has_a_meaning() -> None:
    page = (ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 80
    for row in rows:
        assert not row.endswith("|  |"), f"say beside the key what it means: {row}"
