"""docs/architecture.md names every part of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pages

import dytox


def test_every_part_has_its_place_in_the_table_of_layers() -> None:
    text = (pages.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("## Layers")[2].partition("\n## ")[0]
    where = " ".join(line.split("|")[2] for line in table.splitlines() if line.startswith("|"))
    named = {name.rstrip("/") for name in re.findall(r"`([a-z_]+(?:/|\.py))`", where)}
    source = Path(dytox.__file__).parent
    folders = {path.parent.name for path in source.glob("*/*") if path.suffix in (".py", ".json")}
    modules = {path.name for path in source.glob("*.py") if not path.name.startswith("__")}
    assert named == folders | modules
