"""A run on a tree of files, through the program."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

TINY = [
    *("data.image_size=8", "data.resize=9", "scenario.classes=4", "scenario.increment=2", "memory.size=8"),
    *("model.patch_size=4", "model.dim=8", "model.heads=2", "model.depth=1", "training.epochs=1"),
    *(
        "training.batch=8",
        "training.schedule.warmup_epochs=0",
        "training.schedule.min_lr=0",
        "finetuning.epochs=1",
    ),
    *("finetuning.batch=4", "runtime.device=cpu", "runtime.report=false", "runtime.workers=1"),
]
OPTIONS = [part for change in TINY for part in ("--set", change)]


def test_train_predict_and_a_broken_file(
    imagenet: Path, tmp_path: Path, dytox: Callable[..., Any], refused: Callable[..., str]
) -> None:
    run = tmp_path / "run"
    outcome = dytox("train", "imagenet100-10", "--data", imagenet, "--out", run, *OPTIONS)
    assert outcome.code == 0, outcome.err
    classes = json.loads((run / "model" / "config.json").read_text())["classes"]
    image = next((imagenet / "val" / classes[0]).iterdir())
    found = json.loads(dytox("predict", run / "model", image, "--json").out)
    assert found[0]["class"] in classes

    copy = Path(shutil.copytree(imagenet, tmp_path / "copy", copy_function=os.link))
    broken = next((copy / "train" / classes[2]).iterdir())
    broken.unlink()
    broken.write_bytes(image.read_bytes()[:200])
    said = refused("train", "imagenet100-10", "--data", copy, "--out", tmp_path / "second", *OPTIONS)
    assert said.startswith(f"{broken} cannot be read as an image")
