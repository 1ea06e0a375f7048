"""Coverage slows all Python code, not only dytox's: here it looks away from slow parts of libraries."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo  # torch imports it at the first update
import torch.export
import torch.onnx
from matplotlib.figure import Figure

# Nothing of dytox runs in them, but for forward passes in an export, which run in each prediction too.
LIBRARIES: list[tuple[Any, str]] = [
    (torch.Tensor, "backward"),
    (torch.optim.AdamW, "step"),
    (torch.optim.SGD, "step"),
    (torch.export, "export"),
    (torch.export, "save"),
    (torch.export, "load"),
    (torch.onnx, "export"),
    (Figure, "savefig"),
    (copy, "deepcopy"),
]


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, not traced."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*arguments, **options)
        finally:
            sys.settrace(tracer)

    return call


def look_away() -> None:
    """From all of them, in this process."""
    for owner, name in LIBRARIES:
        setattr(owner, name, untraced(getattr(owner, name)))
