"""What this process may use of the machine."""

from __future__ import annotations

import os


def cores() -> int:
    """The cores that it may run on: a container or a cluster may allow fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
