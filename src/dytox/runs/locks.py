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


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Within it no other process has the lock file `path`; refused at once, with the owner, where one has."""
    with files.explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
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
    finally:
        os.close(descriptor)


@contextmanager
def waiting(folder: Path) -> Iterator[None]:
    """Within it no other process writes into the folder; waits until the others are done."""
    with files.explained(folder):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
