"""What tests share."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dytox import recipes
from dytox.config import Config, merge
from dytox.data.samples import Samples
from dytox.methods import registry

torch.set_num_threads(1)

FIXTURES = Path(__file__).parent / "fixtures"

TINY = {
    "data": {"image_size": 8},
    "model": {"patch_size": 4, "dim": 12, "heads": 3, "depth": 2, "drop_path": 0.2},
    "training": {"epochs": 2, "batch": 16, "lr": 1e-3, "schedule": {"name": "constant", "warmup_epochs": 0}},
    "finetuning": {"epochs": 2, "batch": 8, "lr": 1e-3},
    "runtime": {"device": "cpu"},
}


@pytest.fixture(scope="session")
def recorded():
    """Recorded tensors by file name; with a prefix, those under it, without it."""

    def load(name: str, prefix: str = "") -> dict[str, Tensor]:
        tensors = load_file(FIXTURES / f"{name}.safetensors")
        return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}

    return load


@pytest.fixture(scope="session")
def tiny():
    """The config of a method with a network and phases that take milliseconds; memory 14 where it may be."""

    def config(name: str = "dytox", /, **over) -> Config:
        method = recipes.compose("digits", method=name).method.name  # `name` may be a preset of it
        memory = {"memory": {"size": 14, "per_class": None}} if registry.find(method).uses_memory else {}
        return recipes.compose("digits", method=name, values=merge(merge(TINY, memory), over))

    return config


@pytest.fixture(scope="session")
def made():
    """Images of made classes: a pattern of its own for each, with noise; labels count from `first`."""

    def samples(first: int, last: int, *, each: int = 12, noise: int = 30, size: int = 8) -> Samples:
        images = []
        for label in range(first, last):
            source = torch.Generator().manual_seed(label)
            pattern = torch.randint(0, 256, (1, 3, 2, 2), generator=source).repeat_interleave(size // 2, 2)
            pattern = pattern.repeat_interleave(size // 2, 3)
            speckle = torch.randint(-noise, noise + 1, (each, 3, size, size), generator=source)
            images.append((pattern + speckle).clamp(0, 255).to(torch.uint8))
        return Samples(torch.cat(images), torch.arange(first, last).repeat_interleave(each))

    return samples
