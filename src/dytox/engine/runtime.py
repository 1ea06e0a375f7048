"""What a process asks of its machine: threads, algorithms, memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dytox.config import RuntimeConfig
from dytox.errors import UserError


def set_up(runtime: RuntimeConfig) -> None:
    """Threads and algorithms, before anything is computed."""
    if runtime.threads is not None:
        torch.set_num_threads(runtime.threads)
    if runtime.deterministic:  # cuBLAS reads it once, and torch refuses products on a GPU without it
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(runtime.deterministic)


@contextmanager
def within_memory(what: str) -> Iterator[None]:
    """Within it a GPU whose memory is not enough for `what` becomes one sentence."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"The GPU's memory is not enough for {what}; what was kept before it is intact: go on with more "
            "processes, which share every batch, or begin anew with a smaller training.batch and "
            "finetuning.batch, or with runtime.precision bf16."
        ) from error
