"""A JSON file with its kind, format, writer and checksum, and with the checksums of the files beside it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dytox import __version__, upgrade
from dytox.errors import UserError
from dytox.runs import files

_OWN = ("kind", "format", "package", "checksum")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def write_sealed(path: Path, kind: str, content: Mapping[str, Any], *, member: bool = False) -> None:
    """Write `content`, JSON with text as keys, in the current format."""
    assert not set(_OWN) & set(content), f"{_OWN} are not the content's"
    head = {"kind": kind, "format": upgrade.current(), "package": __version__}
    sealed = json.loads(files.to_json({**head, **content}))
    files.write_json(path, {**sealed, "checksum": _checksum(sealed)}, member=member)


def read_sealed(path: Path, kind: str) -> tuple[dict[str, Any], int]:
    """The content and its format, refused where it is of another kind, newer or not what was written."""
    sealed = files.read_json(path)
    if not isinstance(sealed, dict) or sealed.get("kind") != kind:
        raise UserError(f"{path} does not belong to a {kind}: name the folder of one.")
    intact = sealed.pop("checksum", None) == _checksum(sealed)
    try:
        found = upgrade.check_format(sealed.get("format"), sealed.get("package"), path)
    except upgrade.NewerFormat as error:
        raise error if intact else UserError(str(error)) from None  # perhaps the number itself is damaged
    if not intact:
        raise files.damaged(path, "its checksum is another")
    return {key: value for key, value in sealed.items() if key not in _OWN}, found


def attach(path: Path, pieces: Iterable[bytes | memoryview], *, member: bool = False) -> dict[str, str]:
    """Write a file `a.b` as `a-1a2b3c4d.b`; returns how a sealed file beside it names it."""
    path, sha256 = files.write(path, pieces, hashed=True, member=member)
    return {"name": path.name, "sha256": sha256}


def follow(source: Path, reference: Any) -> tuple[Path, str]:
    """Path and SHA-256 of a file that `source` names, which must be a plain name and stay in its folder."""
    match reference:
        case {"name": str(name), "sha256": str(sha256)}:
            path = source.parent / name
            inside = os.path.dirname(os.path.realpath(path)) == os.path.realpath(source.parent)
            if not _PLAIN.fullmatch(name) or not inside:
                raise UserError(f"{source} names {name!r}, where only a file in its own folder is allowed.")
            return path, sha256
    raise files.damaged(source, "it does not name its files")


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()
