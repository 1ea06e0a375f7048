"""What tests share."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

torch.set_num_threads(1)

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="session")
def recorded():
    """Recorded tensors by file name; with a prefix, those under it, without it."""

    def load(name: str, prefix: str = "") -> dict[str, Tensor]:
        tensors = load_file(FIXTURES / f"{name}.safetensors")
        return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}

    return load
