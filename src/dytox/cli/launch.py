"""Several processes on this machine: `--processes N` is `torchrun --nproc-per-node N -m dytox …`."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from dytox.errors import UserError

PATIENCE = 5.0  # seconds


def is_worker() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_restarted() -> bool:
    """Whether torchrun's agent started it again, after a worker died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def let_main_speak() -> None:
    """Where all processes have met one error, the main one says it, and its end is the end of all."""
    if os.environ.get("RANK", "0") != "0":
        time.sleep(PATIENCE)


def leave(code: str | int | None) -> NoReturn:
    """Ends the program. One of several processes ends at once: a thread of gloo's that still asks for the
    interpreter while that is taken down would abort a process that has done its work."""
    if is_worker() and not isinstance(code, str):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code)


def options(named: Mapping[str, object], overrides: Iterable[str] | None) -> list[str]:
    """Options as arguments: those that were given, and every `--set`."""
    found = [part for name, value in named.items() if value is not None for part in (name, str(value))]
    return found + [part for each in overrides or [] for part in ("--set", each)]


def launch(arguments: list[str], *, processes: int, max_restarts: int, run: Path) -> None:
    """Runs `dytox` with these arguments in so many processes, and leaves with their exit code."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=max_restarts,
        monitor_interval=0.1,
        run_id="dytox",
    )
    logging.disable(logging.ERROR)  # the agent's; the workers speak for themselves
    command = ["-m", "dytox", *arguments]
    try:
        elastic_launch(config, sys.executable)(*command)
    except SignalException:
        sys.exit(130)
    except ChildFailedError as error:
        killed = [(rank, each) for rank, each in error.failures.items() if each.exitcode == -signal.SIGKILL]
        rank, failure = killed[0] if killed else error.get_first_failure()
        if failure.exitcode > 0:  # it has said why
            sys.exit(failure.exitcode)
        mend = f"`dytox resume {run} --processes {processes}` goes on" if run.exists() else "start it again"
        raise UserError(f"Process {rank} of {processes} died ({failure.signal_name()}): {mend}.") from None
