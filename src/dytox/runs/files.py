"""Atomic files: a reader finds the old content or the new, never a part; what goes wrong is one sentence."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from dytox.errors import UserError
from dytox.runs import tensor_file

_TEMPORARY = ".dytox-tmp"
_FULL = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT") if hasattr(errno, name)}
_DESCRIPTORS = hasattr(os, "O_DIRECTORY") and {os.open, os.rename, os.unlink} <= os.supports_dir_fd  # POSIX


class MissingFile(UserError):
    """A file that should be there is not."""


def damaged(path: Path, why: str) -> UserError:
    """The error for a file whose content is not what was written."""
    return UserError(f"{path} is damaged ({why}): restore it from a copy or make it anew.")


def not_a(kind: str, folder: Path, *, without: str) -> UserError:
    """The error for a folder that is no run or model directory, or that is not there at all."""
    if not folder.exists():
        return UserError(f"There is no folder {folder}: name a {kind} directory.")
    return UserError(f"{folder} is not a {kind} directory: there is no {without} in it.")


@dataclass(frozen=True)
class _Folder:
    """A folder to write into, which cannot be exchanged for another one meanwhile where systems allow it."""

    path: Path
    descriptor: int | None  # None: the system has no descriptors of folders

    def at(self, name: str) -> tuple[str | Path, dict[str, int]]:
        """How functions of `os` are told of a member."""
        return (self.path / name, {}) if self.descriptor is None else (name, {"dir_fd": self.descriptor})

    def opener(self, name: str, flags: int) -> int:
        """For `open`: a member, which must not be a link."""
        path, options = self.at(name)
        if self.descriptor is None and os.path.islink(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666, **options)

    def replace(self, source: str, target: str) -> None:
        """Rename a member; a link at `target` is replaced, not followed."""
        if self.descriptor is None:
            os.replace(self.path / source, self.path / target)
        else:
            os.replace(source, target, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def unlink(self, name: str) -> None:
        """Remove a member that is a file or a link."""
        path, options = self.at(name)
        os.unlink(path, **options)

    def sync(self) -> None:
        """Make renames last; some network file systems cannot, and say EINVAL."""
        if self.descriptor is None:
            return
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise


@contextmanager
def _opened(folder: Path, member: bool = False) -> Iterator[_Folder]:
    """Open a folder to write into. A `member` of a run or model directory must not be a link."""
    if member:
        _refuse_link(folder)
    if not _DESCRIPTORS:
        yield _Folder(folder, None)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | (os.O_NOFOLLOW if member else 0))
    try:
        yield _Folder(folder, descriptor)
    finally:
        os.close(descriptor)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise UserError(
            f"{path} is a symbolic link, and dytox does not write through links in its directories: put a "
            "real file or folder in its place."
        )


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """Raise if one of these members of a folder is a link."""
    for name in names:
        _refuse_link(folder / name)


def write(
    path: Path, pieces: Iterable[bytes | memoryview], *, hashed: bool = False, member: bool = False
) -> tuple[Path, str]:
    """Write a whole file or nothing; returns its path and SHA-256.

    With `hashed`, `a.b` becomes `a-1a2b3c4d.b`, with the beginning of the SHA-256. `member` says that the
    file's folder is a member of a run or model directory, where links are refused.
    """
    temporary = f".{secrets.token_hex(8)}{_TEMPORARY}"
    digest = hashlib.sha256()
    with explained(path), _opened(path.parent, member) as folder:
        try:
            with open(temporary, "xb", opener=folder.opener) as file:
                for piece in pieces:
                    digest.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            if hashed:
                path = path.with_name(f"{path.stem}-{digest.hexdigest()[:8]}{path.suffix}")
            folder.replace(temporary, path.name)
            folder.sync()
        except BaseException:
            with suppress(OSError):
                folder.unlink(temporary)
            raise
    return path, digest.hexdigest()


def append(path: Path, data: bytes) -> None:
    """Add `data` to the end of a file, on the disk when this returns; nothing of it where that fails."""
    with (
        explained(path),
        _opened(path.parent) as folder,
        open(path.name, "ab", buffering=0, opener=folder.opener) as file,
    ):
        size = file.tell()
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                file.truncate(size)
            raise


def overwrite(path: Path, data: bytes) -> None:
    """Replace the content of a file that others may have open; OSError where that fails."""
    with _opened(path.parent) as folder, open(path.name, "wb", opener=folder.opener) as file:
        file.write(data)


def read(path: Path, sha256: str | None = None) -> bytes:
    """The whole content, which must have the SHA-256 where one is given."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"{path} is not a file: name a file, or take it out of the way.")
            data = file.read()
    except FileNotFoundError:
        raise MissingFile(f"{path} is missing: restore it from a copy or make it anew.") from None
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise damaged(path, "its checksum is another")
    return data


def _without_waiting(path: str, flags: int) -> int:
    """Open also a pipe at once, that nobody writes to."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def to_json(content: Any, indent: int | None = None) -> bytes:
    """`content` as JSON; ValueError for NaN and infinity, which JSON does not have."""
    return json.dumps(content, indent=indent, allow_nan=False).encode()


def finite(value: Any) -> Any:
    """`value` with None for every NaN and infinity in it."""
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, content: Any, *, member: bool = False) -> None:
    """`content` as an indented JSON file."""
    write(path, [to_json(content, indent=2), b"\n"], member=member)


def read_json(path: Path, sha256: str | None = None) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(read(path, sha256).decode())
    except (ValueError, RecursionError) as error:
        raise damaged(path, "not a whole JSON file") from error


def read_mapping(path: Path) -> dict[str, Any]:
    """The content of a JSON file that holds keys and values."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise damaged(path, "it should hold keys and values")
    return content


def write_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str] | None = None,
    *,
    member: bool = False,
) -> str:
    """Tensors as a safetensors file; returns its SHA-256."""
    return write(path, tensor_file.encode_tensors(tensors, metadata), member=member)[1]


def read_tensors(path: Path, sha256: str | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors (on the CPU) and metadata; without a SHA-256 only the file's structure is checked."""
    data = read(path, sha256)
    try:
        return tensor_file.decode_tensors(data)
    except ValueError as error:
        raise damaged(path, str(error)) from error


def make_folder(folder: Path, *, member: bool = False) -> None:
    """Make a folder, and those above it, unless they are there; a `member` must not be a link."""
    with explained(folder):
        if member:
            _refuse_link(folder)
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            with _opened(folder.parent) as parent:
                parent.sync()


def remove(path: Path, *, member: bool = False) -> None:
    """Remove a file that nothing names any more; one that cannot be removed does no harm."""
    with suppress(OSError), _opened(path.parent, member) as folder:
        folder.unlink(path.name)


def remove_folder(folder: Path) -> None:
    """Remove a member of a run or model directory with all that is in it; links in it are not followed."""
    _refuse_link(folder)
    shutil.rmtree(folder, ignore_errors=True)  # refuses a link that was put there meanwhile


def is_temporary(path: Path) -> bool:
    """Whether `write` made this file and was cut off before its rename."""
    return path.name.startswith(".") and path.name.endswith(_TEMPORARY)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Within it what the system refuses becomes one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            message = (
                f"The disk is full, {path} was not written and what was there is intact: free some space."
            )
        elif error.errno == errno.ELOOP:
            message = f"{path} is a symbolic link, and dytox does not write through it: remove it."
        else:
            message = f"Cannot write {path}: {error.strerror}."
        raise UserError(message) from error
