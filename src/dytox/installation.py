"""Checks of the installation for `dytox doctor`: versions, devices, disk space and extras."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from dytox import __version__
from dytox.machine import cores

LITTLE = 1e9  # bytes; with less free disk space a run is likely to fail


@dataclass(frozen=True)
class Finding:
    """The result of one check; `mend` says how to repair what is not good."""

    topic: str  # version | device | disk | extra
    name: str
    value: str
    good: bool = True
    needed: bool = True  # False for extras
    mend: str = ""


def examine() -> list[Finding]:
    """Check everything that decides whether and how fast dytox runs on this machine."""
    return [*_versions(), *_devices(), *_disk(), *_extras()]


def _versions() -> Iterator[Finding]:
    yield Finding("version", "dytox", f"{__version__}, in {Path(__file__).parent}")
    yield Finding("version", "python", f"{platform.python_version()}, {platform.platform()}")
    for name, least in _requirements().get("", {}).items():
        yield _package(name, least)


def _package(name: str, least: str) -> Finding:
    """Check that a package is installed and new enough."""
    mend = f"pip install '{name}>={least}'" if least else f"pip install {name}"
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding("version", name, "missing", good=False, mend=mend)
    if least and _number(found) < _number(least):
        return Finding("version", name, f"{found}, older than {least}", good=False, mend=mend)
    return Finding("version", name, found)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def _requirements() -> dict[str, dict[str, str]]:
    """The requirements of each extra, and of the package itself (""): name -> lowest version."""
    try:
        lines = metadata.requires("dytox") or []
    except metadata.PackageNotFoundError:
        return {}  # dytox runs from a source folder and is not installed
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        what, _, when = line.partition(";")
        name = re.split(r"[^\w.-]", what, maxsplit=1)[0]
        least, extra = re.search(r">=([\d.]+)", what), re.search(r"extra == ['\"]([\w-]+)", when)
        if name != "dytox":  # an extra may name another extra
            found.setdefault(extra[1] if extra else "", {})[name] = least[1] if least else ""
    return found


def _devices() -> Iterator[Finding]:
    cpus = cores()
    try:
        import torch
    except (ImportError, OSError) as error:
        mend = "pip install --force-reinstall torch"
        yield Finding("device", "torch", f"cannot be imported: {error}", good=False, mend=mend)
        return
    from dytox.config import Config
    from dytox.learner.classifier import device

    threads = torch.get_num_threads()
    mend = f"OMP_NUM_THREADS={cpus} dytox …" if threads > cpus else ""
    value = f"cores: {cpus}, threads in use: {threads}"
    yield Finding("device", "cpu", value, good=not mend, needed=False, mend=mend)
    yield Finding("device", "auto", f"{device(Config())}, what runtime.device: auto takes")
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        yield Finding("device", f"cuda:{index}", f"{about.name}, {about.total_memory / 1e9:.0f} GB")
    if torch.backends.mps.is_available():
        yield Finding("device", "mps", "taken with --set runtime.device=mps")


def _disk() -> Iterator[Finding]:
    yield _folder("here", Path.cwd())
    yield _folder("temporary", Path(tempfile.gettempdir()))
    try:
        from dytox.data.cifar100 import CACHE
    except (ImportError, OSError):
        return  # torch is missing, which another check reports
    yield _folder("cache", CACHE.expanduser())


def _folder(name: str, path: Path) -> Finding:
    """Check that a folder, or the nearest existing one above it, is writable and has free space."""
    there = next(each for each in (path, *path.parents) if each.is_dir())
    free = shutil.disk_usage(there).free
    value = f"{path}, {free / 1e9:.1f} GB free"
    if not os.access(there, os.W_OK):
        return Finding("disk", name, f"{path}, not writable", good=False, mend=f"allow writing to {there}")
    if free < LITTLE:
        return Finding("disk", name, value, good=False, mend=f"make room on the disk of {there}")
    return Finding("disk", name, value)


def _extras() -> Iterator[Finding]:
    for extra, packages in _requirements().items():
        if extra:
            missing = [name for name, least in packages.items() if not _package(name, least).good]
            mend = f"pip install 'dytox[{extra}]'" if missing else ""
            value = f"missing {', '.join(missing)}" if missing else f"has {', '.join(packages)}"
            yield Finding("extra", extra, value, good=not missing, needed=False, mend=mend)
