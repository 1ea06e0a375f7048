"""What tests share."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from importlib.resources import files
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from dytox import recipes
from dytox.checking import merge
from dytox.config import Config
from dytox.data.samples import Samples
from dytox.methods import registry

torch.set_num_threads(1)
IN_MEMORY = Path("/dev/shm")  # what is flushed to a disk costs milliseconds each time, and again when it goes
if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))
if sys.gettrace() is not None and "PYTEST_XDIST_WORKER" in os.environ:
    sys.path.insert(0, str(Path(__file__).parent))
    import untraced

    untraced.look_away()

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
        memory = (
            {"memory": {"size": 14, "per_class": None}} if registry.find_method(method).uses_memory else {}
        )
        few = {"method": {"correction": {"epochs": 3}}} if method == "bic" else {}  # a phase of its own
        return recipes.compose("digits", method=name, values=merge(merge(merge(TINY, memory), few), over))

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


@pytest.fixture(scope="session")
def imagenet(tmp_path_factory) -> Path:
    """A tree as ImageNet's, of small JPEGs: odd sizes, grey, CMYK and lying on their side among them.

    The first four classes of the published order have six images to learn and two to test, others one each.
    """
    root = tmp_path_factory.mktemp("imagenet")
    facts = json.loads((files("dytox") / "facts" / "class_orders.json").read_text())
    wnids, order = facts["imagenet100_wnids"], facts["imagenet100_order1"]
    for place, wnid in enumerate(wnids):
        some = place in order[:4]
        for part, count in (("train", 6 if some else 1), ("val", 2 if some else 1)):
            folder = root / part / wnid
            folder.mkdir(parents=True)
            for number in range(count):
                stem = f"{wnid}_{number}" if part == "train" else f"ILSVRC2012_val_{place:05}{number:03}"
                (folder / f"{stem}.JPEG").write_bytes(photo(place, number + 10 * (part == "val")))
    return root


def photo(label: int, number: int) -> bytes:
    """A JPEG of 31 to 60 pixels a side: a pattern of its class, with noise; each in another of five kinds."""
    source = np.random.default_rng([label, number])
    height, width = source.integers(31, 61, 2)
    pattern = np.random.default_rng(label).integers(0, 256, (2, 2, 3), dtype=np.uint8)
    image = Image.fromarray(pattern).resize((width, height), Image.Resampling.BILINEAR)
    noise = source.integers(-20, 21, (height, width, 3))
    image = Image.fromarray((np.asarray(image) + noise).clip(0, 255).astype(np.uint8))
    kind, options = number % 5, {}
    if kind == 1:
        image = image.convert("L")
    elif kind == 2:
        image = image.convert("CMYK")
    elif kind == 3:
        options["exif"] = Image.Exif()
        options["exif"][0x0112] = 6
    stream = io.BytesIO()
    image.save(stream, "PNG" if kind == 4 else "JPEG", **options)  # ImageNet has a PNG that is called JPEG
    return stream.getvalue()
