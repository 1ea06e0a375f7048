"""Processes that die and disks that are full."""

from __future__ import annotations

import builtins
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest


class Crash(BaseException):
    """The process died here."""


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Any]:
    """`with crashing(n) as died:` dies before a flush, rename or removal, after n of them."""

    @contextmanager
    def crashing(at: int) -> Iterator[list[bool]]:
        calls = 0
        died: list[bool] = []

        def mortal(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls > at:
                    died.append(True)
                    raise Crash
                return real(*arguments, **options)

            return call

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "unlink"):
                patch.setattr(os, name, mortal(getattr(os, name)))
            with suppress(Crash):
                yield died

    return crashing


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Any]:
    """`with full_disk(room):` takes `room` bytes more, then half a write, then no more."""

    @contextmanager
    def full_disk(room: int) -> Iterator[None]:
        left = room

        class Full:
            def __init__(self, file: Any) -> None:
                self.file = file

            def __getattr__(self, name: str) -> Any:
                return getattr(self.file, name)

            def __enter__(self) -> Full:
                return self

            def __exit__(self, *_: object) -> None:
                self.file.close()

            def write(self, data: bytes | memoryview) -> int:
                nonlocal left
                fits = min(left, len(data))
                left -= fits
                self.file.write(bytes(data[:fits]))
                if fits < len(data):
                    raise OSError(errno.ENOSPC, "No space left on device")
                return fits

        real = builtins.open

        def opened(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            file = real(path, mode, *arguments, **options)
            return file if mode in ("r", "rb") else Full(file)

        with monkeypatch.context() as patch:
            patch.setattr(builtins, "open", opened)
            yield

    return full_disk
