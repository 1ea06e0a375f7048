"""`report`: several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", metavar="RUN...")],
) -> None:
    """Put runs side by side: accuracy after each task, Avg, Last, forgetting, parameters.

    Example: dytox report runs/digits-dytox runs/digits-replay
    """
    from dytox.cli.tables import compare
    from dytox.runs.run_directory import RunDirectory

    compare(Console(), [(path, RunDirectory(path).read_metrics()) for path in runs])
