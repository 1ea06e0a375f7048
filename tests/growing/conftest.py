"""Folders of made images, and options that make a model tiny."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dytox.data.samples import Samples
from dytox.engine.observer import Observer
from dytox.growing import teaching
from dytox.growing.measure import AccuracyChange
from dytox.growing.plan import Plan, make

NAMES = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu"]
TINY = [
    *("data.image_size=8", "model.patch_size=4", "model.dim=12", "model.heads=3", "model.depth=1"),
    *("training.epochs=3", "training.batch=16", "training.lr=5e-3", "training.schedule.name=constant"),
    *("training.schedule.warmup_epochs=0", "finetuning.epochs=2", "finetuning.batch=16", "memory.size=40"),
    *("augment.randaugment=null", "augment.pad=1", "runtime.device=cpu"),
]


def put(samples: Samples, folder: Path, names: list[str], start: int = 0) -> Path:
    """Images as files, `folder/<class>/<number>.png`."""
    for place, (image, label) in enumerate(zip(samples.images, samples.labels.tolist(), strict=True)):
        path = folder / names[label] / f"{start + place:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    return folder


@pytest.fixture
def photos(tmp_path: Path, made: Callable[..., Samples]) -> Callable[..., Path]:
    """`photos("a", 0, 3)`: a folder of classes 0, 1 and 2, twenty images each."""

    def photos(name: str, first: int, last: int, *, each: int = 20, skip: int = 0) -> Path:
        samples = made(first, last, each=each + skip)
        kept = [place for place in range(len(samples)) if place % (each + skip) >= skip]
        return put(Samples(samples.images[kept], samples.labels[kept]), tmp_path / name, NAMES, skip)

    return photos


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Where the model is going to be."""
    return tmp_path / "model"


@pytest.fixture
def small() -> list[str]:
    """Changes that make a model tiny."""
    return list(TINY)


@pytest.fixture
def planned() -> Callable[..., Plan]:
    """What learning a folder would do, to a model that is tiny and learns from scratch."""

    def planned(model: Path, folder: Path, **options: Any) -> Plan:
        tiny = {} if (model / "config.json").exists() else {"overrides": TINY, "encoder": "none"}
        return make(model, folder, **{**tiny, **options})

    return planned


@pytest.fixture
def grow(model: Path, planned: Callable[..., Plan]) -> Callable[..., list[AccuracyChange]]:
    """Learns a folder, as `dytox learn` does."""

    def grow(folder: Path, observer: Observer | None = None, **options: Any) -> list[AccuracyChange]:
        return teaching.teach(planned(model, folder, **options), observer or Observer())

    return grow
