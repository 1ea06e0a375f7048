"""Where a run comes from: its command, its config, its machine."""

from __future__ import annotations

import shlex
from typing import Any

from dytox.report import page
from dytox.report.record import Record
from dytox.runs.run_directory import to_yaml


def made(record: Record) -> str:
    """How the run was made, and how to make it and this page again."""
    commands = [record.command, shlex.join(["dytox", "report", str(record.path)])]
    note = "The first command makes the run again, the second this page, from the run's directory alone."
    config = page.preformatted(to_yaml(record.config.model_dump()).decode())
    return page.section(
        "How it was made",
        page.preformatted("\n".join(commands)),
        page.details("Config, resolved", config),
        *_environments(record),
        note=note,
    )


def _environments(record: Record) -> list[str]:
    """Versions and machine, of the start and of each resumption."""
    first = {key: value for key, value in record.environment.items() if key != "resumed"}
    named = [
        ("Environment, started", first),
        *(("Resumed", each) for each in record.environment.get("resumed", [])),
    ]
    return [page.details(f"{name} {each.get('started', '')}", _table(each)) for name, each in named if each]


def _table(values: dict[str, Any]) -> str:
    rows = [
        [key, " ".join(map(str, value)) if isinstance(value, list) else str(value)]
        for key, value in values.items()
    ]
    return page.table(["What", "Value"], rows, words=[0, 1])
