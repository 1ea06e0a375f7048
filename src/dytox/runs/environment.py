"""Where a run was computed: what somebody needs who gets other numbers."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

_PACKAGES = ("dytox", "torch", "numpy", "pillow", "safetensors")


def describe_environment() -> dict[str, Any]:
    """Versions, machine and command line of this process, now."""
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": list(sys.argv),
        "python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
        "commit": _commit(Path(__file__).resolve().parents[3]),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": _devices(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> list[str]:
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return ["cpu", *names, *(["mps"] if torch.backends.mps.is_available() else [])]


def _commit(checkout: Path) -> str | None:
    """The commit the package runs from, with `-dirty` where files differ from it; None if it is installed."""
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
