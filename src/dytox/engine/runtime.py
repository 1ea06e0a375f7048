"""Settings of the process: threads, deterministic algorithms, and running out of GPU memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dytox.config import RuntimeConfig
from dytox.errors import UserError


def set_up(runtime: RuntimeConfig) -> None:
    """Set the number of threads and the choice of algorithms; call it before anything is computed."""
    if runtime.threads is not None:
        torch.set_num_threads(runtime.threads)
    if runtime.deterministic:  # cuBLAS reads it once, and torch refuses products on a GPU without it
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(runtime.deterministic)


@contextmanager
def within_memory(what: str) -> Iterator[None]:
    """Turn running out of GPU memory while computing `what` into a UserError."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"The GPU's memory is not enough for {what}; the last checkpoint is intact: resume with more "
            "processes, which divide every batch, or start a new run with a smaller training.batch and "
            "finetuning.batch, or with runtime.precision bf16."
        ) from error
