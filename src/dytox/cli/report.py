"""`report`: several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dytox.cli.output import console
from dytox.errors import UserError


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", metavar="RUN...")],
) -> None:
    """Put runs side by side: accuracy after each task, Avg, Last, forgetting, parameters.

    Example: dytox report runs/digits-dytox runs/digits-replay
    """
    from dytox.cli.tables import compare

    compare(console(), [(path, _metrics(path)) for path in runs])


def _metrics(path: Path) -> dict[str, Any]:
    from dytox.metrics import FORMAT
    from dytox.runs.run_directory import RunDirectory

    run = RunDirectory(path)
    if not run.has_metrics():
        run.read_config()  # where that is no run at all
        raise UserError(f"The run {path} has not finished a task yet: `dytox resume {path}` goes on with it.")
    found = run.read_metrics()
    if found.get("format") != FORMAT or not found.get("steps"):
        raise UserError(f"{path / 'metrics.json'} is not a run's, of format {FORMAT}: name another run.")
    return found
