"""Locks between processes (`filelock`); they end with their owner.

The lock file of a run or model directory is `.lock` in it, for whatever changes the directory: training,
learning, forgetting, saving. It is never removed, since two processes could then hold a lock each.
"""

from __future__ import annotations

import errno
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from dytox.errors import UserError
from dytox.runs import files

NAME = ".lock"
WAIT = 30.0  # seconds that a save waits for another one
_UNSUPPORTED = {  # some network file systems have no locks
    getattr(errno, name) for name in ("ENOLCK", "ENOTSUP", "EBADF") if hasattr(errno, name)
}


class _Held(threading.local):
    """The directories that this thread has locked."""

    def __init__(self) -> None:
        self.folders: set[str] = set()


_held = _Held()


@contextmanager
def exclusive(folder: Path, what: str, wait: float = 0.0) -> Iterator[None]:
    """Lock a directory for the duration of the block.

    Raises UserError, with the owner's name, if another has it for longer than `wait` seconds.
    """
    files.refuse_links(folder, [NAME])
    path = folder / NAME
    lock = FileLock(path)
    with files.explained(path):
        try:
            lock.acquire(timeout=wait)
        except Timeout:
            raise UserError(
                f"{what} is in use by {_owner(path)}: wait for its end or choose another folder."
            ) from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    key = os.path.realpath(folder)
    _held.folders.add(key)
    try:
        if lock.is_locked and not isinstance(lock, SoftFileLock):  # a soft lock names its owner itself
            with suppress(OSError):
                files.overwrite(path, f"{os.getpid()}\n{platform.node()}\n".encode())
        yield
    finally:
        _held.folders.discard(key)
        lock.release()


def for_saving(folder: Path, what: str) -> AbstractContextManager[None]:
    """Lock a directory to save something into it, unless this thread has locked it already."""
    if os.path.realpath(folder) in _held.folders:
        return nullcontext()
    return exclusive(folder, what, WAIT)


def _owner(path: Path) -> str:
    try:
        pid, host, *_ = files.read(path).decode().split("\n")
        return f"process {int(pid)} on {host}"
    except (UserError, ValueError):  # it has the lock and has not written its name yet
        return "another process"
