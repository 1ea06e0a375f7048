"""CIFAR-100 in its published layout; it is downloaded if it is missing.

The published files are pickles. They are read by an unpickler that knows five names, none of which leads to
code of another module, and only after their opcodes have been checked: a file that needs more is refused.
"""

from __future__ import annotations

import hashlib
import http.client
import pickle
import pickletools
import shutil
import sys
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import torch

from dytox.config import DataConfig
from dytox.data.samples import Samples
from dytox.errors import UserError
from dytox.machine import open_regular

URL = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
MD5 = "eb9058c3a382ffc7106e4002c42a8d85"
FOLDER = "cifar-100-python"
FILES = ("train", "test", "meta")
CACHE = Path("~/.cache/dytox")
_MAX_BYTES = 1 << 28  # of a file and of the archive; the largest has 169 million
MAX_DEPTH = 1000  # of nested values; each batch of 1000 labels that is appended to a list counts as one

_OPCODES = {
    *("PROTO", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2"),
    *("SHORT_BINSTRING", "BINSTRING", "BINUNICODE", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS"),
    *("BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "GLOBAL", "REDUCE", "BUILD"),
}


def load(config: DataConfig) -> tuple[Samples, Samples, tuple[str, ...]]:
    """Load the 50,000 training and 10,000 test images, and the names of the fine classes."""
    folder = _locate(config.root)
    names = _read(folder / "meta").get(b"fine_label_names")
    if not isinstance(names, list) or not all(isinstance(name, bytes) for name in names):
        raise _damaged(folder / "meta", "it has no fine label names")
    class_names = tuple(name.decode("latin-1") for name in names)
    return _samples(folder / "train", len(names)), _samples(folder / "test", len(names)), class_names


def _samples(path: Path, classes: int) -> Samples:
    content = _read(path)
    array, labels = content.get(b"data"), content.get(b"fine_labels")
    if not isinstance(array, _Array) or not isinstance(labels, list):
        raise _damaged(path, "it has no images and fine labels")
    if array.shape != (len(labels), 3072) or not labels:
        raise _damaged(path, f"it has {len(labels)} labels and images of shape {array.shape}")
    if not all(type(label) is int and 0 <= label < classes for label in labels):
        raise _damaged(path, f"it has labels that are not 0 to {classes - 1}")
    pixels = torch.frombuffer(bytearray(array.pixels), dtype=torch.uint8)
    return Samples(pixels.view(-1, 3, 32, 32), torch.tensor(labels, dtype=torch.int64))


def _damaged(path: Path, why: object) -> UserError:
    return UserError(
        f"{path} is not CIFAR-100 as published ({str(why).rstrip('.')}): remove {path.parent} to have it "
        f"fetched again, or unpack {URL} there."
    )


# --- reading -----------------------------------------------------------------------------------------------


class _Dtype:
    """Takes the place of numpy's dtype and accepts unsigned bytes only."""

    def __init__(self, name: object, *_: object) -> None:
        if name not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"it has an array of {name!r}")

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """Takes the place of numpy's ndarray and keeps its shape and bytes."""

    def __init__(self, *_: object) -> None:
        self.shape: tuple[int, ...] = ()
        self.pixels = b""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, fortran, pixels = state
        if not isinstance(dtype, _Dtype) or not isinstance(pixels, bytes) or fortran or len(shape) != 2:
            raise pickle.UnpicklingError("it has an array that is not one of images")
        if shape[0] * shape[1] != len(pixels):
            raise pickle.UnpicklingError(f"it has {len(pixels)} bytes for an array of shape {shape}")
        self.shape, self.pixels = shape, pixels


class _Unpickler(pickle.Unpickler):
    """Resolves only the names in the published files, and the one that Python 3 writes for bytes."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="bytes")
        self._left = _MAX_BYTES

    def find_class(self, module: str, name: str) -> Callable[..., object]:
        known: dict[tuple[str, str], Callable[..., object]] = {
            ("numpy", "ndarray"): _Array,
            ("numpy", "dtype"): _Dtype,
            ("numpy.core.multiarray", "_reconstruct"): _Array,
            ("numpy._core.multiarray", "_reconstruct"): _Array,
            ("_codecs", "encode"): self._encode,
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return known[module, name]

    def _encode(self, text: str, encoding: str) -> bytes:
        self._left -= len(text)
        if encoding != "latin1" or self._left < 0:
            raise pickle.UnpicklingError("it has too many bytes")
        return text.encode("latin-1")


def _read(path: Path) -> dict[bytes, object]:
    try:
        with open_regular(path, _MAX_BYTES) as file:
            _check_opcodes(file)
            file.seek(0)
            content = _Unpickler(file).load()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # a damaged pickle can raise any exception
        raise _damaged(path, error or type(error).__name__) from None
    if not isinstance(content, dict):
        raise _damaged(path, f"it holds a {type(content).__name__}")
    return content


def _check_opcodes(file: BinaryIO) -> None:
    """Refuse a pickle with unknown opcodes, a memo with gaps, or values that are nested too deeply.

    The hash of a deep tuple recurses without a limit and would crash the interpreter, so the depth of each
    value on the unpickler's stack is followed here.
    """
    stack: list[int] = []  # the depth of each value; -1 for a mark
    memo: dict[int, int] = {}
    argument: Any
    for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if opcode.name not in _OPCODES:
            raise pickle.UnpicklingError(f"it has the opcode {opcode.name}")
        # The memo is an array: a high index alone would take gigabytes.
        if opcode.name == "LONG_BINPUT" and (argument is None or argument > count):
            raise pickle.UnpicklingError("its memo has gaps")
        if opcode.name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif opcode.name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        else:
            _follow(opcode, stack)


def _follow(opcode: pickletools.OpcodeInfo, stack: list[int]) -> None:
    """Apply an opcode to the depths on the stack."""
    if opcode.name == "MARK":
        stack.append(-1)
        return
    taken = [each.name for each in opcode.stack_before]
    deepest = -1
    if "mark" in taken:
        while (depth := stack.pop()) >= 0:
            deepest = max(deepest, depth)
        taken = taken[: taken.index("mark")]
    for _ in taken:
        deepest = max(deepest, stack.pop())
    if deepest > MAX_DEPTH:
        raise pickle.UnpicklingError("its values are nested too deeply")
    stack += [deepest + 1] * len(opcode.stack_after)


# --- fetching ----------------------------------------------------------------------------------------------


def _locate(root: str | None) -> Path:
    """Find the folder with the three files; download them if they are in none of the expected places."""
    base = (CACHE if root is None else Path(root)).expanduser()
    if root is not None and not base.is_dir():
        raise UserError(f"There is no folder {base}: name the one that holds {FOLDER} with --data.")
    for folder in (base, base / FOLDER):
        if _complete(folder):
            return folder
    for folder in (base, base / FOLDER):
        if (folder.name == FOLDER and folder.is_dir()) or (folder / "meta").exists():
            lacking = next(name for name in FILES if not (folder / name).is_file())
            raise UserError(f"{folder} lacks the file {lacking}: unpack {URL} there, or remove the folder.")
    try:
        _fetch(base)
    except (OSError, http.client.HTTPException) as error:
        reason = str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
        raise UserError(
            f"CIFAR-100 is not in {base} and could not be fetched ({reason}): put {URL} there "
            f"(as it is, or unpacked), or name the folder that holds {FOLDER} with --data."
        ) from None
    return base / FOLDER


def _complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in FILES)


def _fetch(base: Path) -> None:
    base.mkdir(parents=True, exist_ok=True)
    given = base / f"{FOLDER}.tar.gz"
    with tempfile.TemporaryDirectory(prefix=".cifar100-", dir=base) as scratch:
        if given.exists():
            archive, origin = given, str(given)
        else:
            archive, origin = Path(scratch) / given.name, f"What {URL} gave"
            _download(archive)
        unpacked = Path(scratch) / FOLDER
        _verify(archive, origin)
        _extract(archive, origin, unpacked)
        try:
            unpacked.rename(base / FOLDER)
        except OSError:
            if not _complete(base / FOLDER):  # else another process was faster
                raise


def _download(archive: Path) -> None:
    request = urllib.request.Request(URL, headers={"User-Agent": "dytox"})
    with urllib.request.urlopen(request, timeout=30) as response, archive.open("wb") as file:
        total = int(response.headers.get("Content-Length") or 0)
        print(f"Fetching {URL} ({total / 1e6:.0f} MB)", file=sys.stderr)
        done = tenth = 0
        while done < _MAX_BYTES and (block := response.read(1 << 20)):
            file.write(block)
            done += len(block)
            if total and done * 10 // total > tenth:
                tenth = done * 10 // total
                print(f"  {10 * tenth} %", file=sys.stderr)


def _verify(archive: Path, origin: str) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    with archive.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != MD5:
        found = digest.hexdigest()
        raise UserError(f"{origin} is not the published archive (MD5 {found}, not {MD5}): fetch it again.")


def _extract(archive: Path, origin: str, folder: Path) -> None:
    folder.mkdir()
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for name in FILES:
                member = tar.getmember(f"{FOLDER}/{name}")
                source = tar.extractfile(member)
                if source is None or member.size > _MAX_BYTES:
                    raise tarfile.TarError(f"{name} is no file of a sensible size")
                with source, (folder / name).open("wb") as target:
                    shutil.copyfileobj(source, target)
    except (tarfile.TarError, KeyError, EOFError, zlib.error) as error:
        raise UserError(f"{origin} cannot be unpacked ({error}): fetch it again.") from None
