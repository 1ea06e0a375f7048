"""Atomic files: a reader finds the old content or the new, never a part; what goes wrong is one sentence."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from dytox.errors import UserError
from dytox.runs import tensor_file

_TEMPORARY = ".dytox-tmp"


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


def write(path: Path, pieces: Iterable[bytes | memoryview], *, hashed: bool = False) -> tuple[Path, str]:
    """All or nothing; gives the path and the content's SHA-256. `hashed`: `a.b` becomes `a-1a2b3c4d.b`."""
    temporary = path.with_name(f".{secrets.token_hex(8)}{_TEMPORARY}")
    digest = hashlib.sha256()
    with explained(path):
        try:
            with open(temporary, "xb") as file:
                for piece in pieces:
                    digest.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            if hashed:
                path = path.with_name(f"{path.stem}-{digest.hexdigest()[:8]}{path.suffix}")
            os.replace(temporary, path)
            _sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    return path, digest.hexdigest()


def append(path: Path, data: bytes) -> None:
    """`data` at the end of a file, on the disk when this returns; nothing of it where that fails."""
    with explained(path), open(path, "ab", buffering=0) as file:
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
    """Opens also a pipe at once, that nobody writes to."""
    return os.open(path, flags | os.O_NONBLOCK)


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


def write_json(path: Path, content: Any) -> None:
    """`content` as an indented JSON file."""
    write(path, [to_json(content, indent=2), b"\n"])


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
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> str:
    """Tensors as a safetensors file; its SHA-256."""
    return write(path, tensor_file.encode(tensors, metadata))[1]


def read_tensors(path: Path, sha256: str | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors (on the CPU) and metadata; without a SHA-256 only the file's structure is checked."""
    data = read(path, sha256)
    try:
        return tensor_file.decode(data)
    except ValueError as error:
        raise damaged(path, str(error)) from error


def make_folder(folder: Path) -> None:
    """The folder, with those above it, where it is not there yet."""
    with explained(folder):
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _sync_folder(folder.parent)


def remove(path: Path) -> None:
    """Away with a file that nothing names any more; one that stays does no harm."""
    with suppress(OSError):
        os.unlink(path)


def is_temporary(path: Path) -> bool:
    """Whether `write` made this file and was cut off before its rename."""
    return path.name.startswith(".") and path.name.endswith(_TEMPORARY)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Within it what the system refuses becomes one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = (
                f"The disk is full, {path} was not written and what was there is intact: free some space."
            )
        else:
            message = f"Cannot write {path}: {error.strerror}."
        raise UserError(message) from error


def _sync_folder(folder: Path) -> None:
    """Makes a rename in it last; some network file systems cannot, and say EINVAL."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
