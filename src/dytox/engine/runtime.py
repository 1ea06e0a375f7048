"""How this process computes, as far as the whole of it has one setting."""

from __future__ import annotations

import os

import torch

from dytox.config import RuntimeConfig


def set_up(runtime: RuntimeConfig) -> None:
    """Threads and algorithms, before anything is computed."""
    if runtime.threads is not None:
        torch.set_num_threads(runtime.threads)
    if runtime.deterministic:  # cuBLAS reads it once, and torch refuses products on a GPU without it
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(runtime.deterministic)
