"""Locks between processes; the system frees them when their owner dies."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dytox.errors import UserError
from dytox.runs import files

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EBADF)  # some network file systems: no lock
_held: set[int] = set()  # descriptors: a fork lets go of them, or the lock would outlive its owner


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Within it no other process has the lock file `path`; refused at once, with the owner, where one has."""
    with _opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
        try:
            _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(os.read(descriptor, 1000))
            raise UserError(
                f"{what} is in use by {owner}: wait for its end or choose another folder."
            ) from None
        with files.explained(path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, files.to_json({"pid": os.getpid(), "host": platform.node()}))
        yield


@contextmanager
def waiting(folder: Path) -> Iterator[None]:
    """Within it no other process writes into the folder; waits until the others are done."""
    with _opened(folder, os.O_RDONLY) as descriptor:
        _lock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    with files.explained(path):
        descriptor = os.open(path, flags, 0o666)
    _held.add(descriptor)
    try:
        yield descriptor
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def _let_go() -> None:
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


def _lock(descriptor: int, operation: int) -> None:
    try:
        fcntl.flock(descriptor, operation)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _owner(note: bytes) -> str:
    try:
        owner = json.loads(note)
        return f"process {owner['pid']} on {owner['host']}"
    except (ValueError, KeyError, TypeError):  # it has the lock and has not written its name yet
        return "another process"
