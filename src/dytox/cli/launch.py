"""Several processes on this machine: `--processes N` corresponds to `torchrun --nproc-per-node N`."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from dytox.errors import Lost, UserError
from dytox.machine import cores

ENDED = -signal.SIGTERM  # the exit code of processes that the agent ends because another one has failed
AGAIN = "the same command continues it"
LAUNCHED = (
    "DYTOX_LAUNCHED"  # in the environment of processes that `launch` started: the number of its process
)
PR_SET_PDEATHSIG = 1  # of prctl: the signal that a process gets when its parent has died


def is_worker() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_restarted() -> bool:
    """Whether torchrun has started this process again after one had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def hand_over(error: Exception, sentence: str) -> bool:
    """Leave it to `launch` to report an error, once for all processes; False if it did not start this one."""
    if not is_worker() or LAUNCHED not in os.environ:
        return False
    lost = isinstance(error, Lost)  # then the process that is gone has the reason
    content = json.dumps({"message": sentence, "timestamp": int(time.time()), "lost": lost})
    Path(os.environ["TORCHELASTIC_ERROR_FILE"]).write_text(content, encoding="utf-8")
    return True


def end_with_parent() -> None:
    """Let this process end with the process that started it, even if that one was killed.

    For processes of torchrun alone: nobody else would end them, and they would wait for each other. On Linux
    the kernel does it, because a thread here could wait for the interpreter for ever: gloo may hold it while
    it waits for another thread.
    """
    if not is_worker():
        return
    parent = int(os.environ.get(LAUNCHED) or os.getppid())
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def leave(code: str | int | None) -> NoReturn:
    """End the program with this exit code.

    One of several processes skips the shutdown of the interpreter: a thread of gloo that asks for the
    interpreter meanwhile would abort a process that has done its work.
    """
    if is_worker() and not isinstance(code, str):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code)


def options(named: Mapping[str, object], overrides: Iterable[str] | None) -> list[str]:
    """Turn options that were given, and every `--set`, into command-line arguments."""
    found = [part for name, value in named.items() if value is not None for part in (name, str(value))]
    return found + [part for each in overrides or [] for part in ("--set", each)]


def launch(arguments: list[str], *, processes: int, max_restarts: int, goes_on: str) -> None:
    """Run `dytox` with these arguments in several processes and leave with their exit code.

    `goes_on` is the part of an error message that says how to continue after one of them has died.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ[LAUNCHED] = str(os.getpid())
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // processes)))
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
    logging.disable(logging.ERROR)  # of the agent; the workers print their own messages
    program = str(Path(__file__).parents[1] / "__main__.py")  # `-m` would put the current folder on the path
    try:
        elastic_launch(config, sys.executable)(program, *arguments)
    except SignalException:
        sys.exit(130)
    except ChildFailedError as error:
        failures = sorted(error.failures.items(), key=lambda each: each[1].timestamp)
        died = [(rank, each) for rank, each in failures if each.exitcode < 0 and each.exitcode != ENDED]
        said = [each.error_file_data for _, each in failures if "lost" in each.error_file_data]
        if died:
            rank, how = died[0][0], died[0][1].signal_name()
            raise UserError(f"Process {rank} of {processes} died ({how}): {goes_on}.") from None
        if said:
            raise UserError(min(said, key=lambda each: bool(each["lost"]))["message"]) from None
        sys.exit(failures[0][1].exitcode)  # it has reported the error itself
