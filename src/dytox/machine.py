"""What a process takes from the machine: cores, and files that are really files."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def cores() -> int:
    """The number of cores that this process may use: a container or a cluster may allow only some of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def open_regular(path: str | Path, most: int | None = None, *, follow: bool = True) -> BinaryIO:
    """Open a file for reading; OSError for a pipe, a socket, a device or a folder, and above `most` bytes.

    It is the open file that is looked at, so nobody can exchange it in between, and opening never waits.
    Unless `follow`, a symbolic link is refused too.
    """
    flags = 0 if follow else getattr(os, "O_NOFOLLOW", 0)
    file = open(path, "rb", opener=lambda name, mode: _open(name, mode | flags))  # noqa: SIM115
    try:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            code = errno.EISDIR if stat.S_ISDIR(about.st_mode) else errno.EINVAL
            raise OSError(code, "It is not a regular file", str(path))
        if most is not None and about.st_size > most:
            raise OSError(errno.EFBIG, f"It has {about.st_size:,} bytes, and {most:,} are allowed", str(path))
    except BaseException:
        file.close()
        raise
    return file


def read_regular(path: str | Path, most: int | None = None) -> bytes:
    """The content of a regular file; see `open_regular`."""
    with open_regular(path, most) as file:
        return file.read()


def _open(path: str, flags: int) -> int:
    """Open without waiting for whoever writes to a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
