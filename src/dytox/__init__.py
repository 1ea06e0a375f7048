"""DyTox: continual image classification, task after task."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

# OpenMP's threads sleep while they wait. By default they spin, and beside any other load they would take the
# cores from the threads that they wait for. Read when torch is loaded, so that this must come before it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from dytox.learner import ContinualLearner
    from dytox.models.dytox import DyTox

__version__ = "0.1.0"
__all__ = ["ContinualLearner", "DyTox", "__version__"]

_PLACES = {"ContinualLearner": "dytox.learner", "DyTox": "dytox.models.dytox"}


def __getattr__(name: str) -> Any:
    """Imports torch, and what needs it, only once it is used."""
    if name not in _PLACES:
        raise AttributeError(f"module 'dytox' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
