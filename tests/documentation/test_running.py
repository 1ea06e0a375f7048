"""The code blocks run as they stand, page by page, with networks and trainings made tiny."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pages
import pytest
import torch
from PIL import Image

from dytox import recipes
from dytox.checking import merge
from dytox.cli.main import run
from dytox.config import Config
from dytox.data.samples import Samples

NETWORK = {"patch_size": 4, "dim": 12, "heads": 3, "depth": 1}
QUICK = {
    "training": {"epochs": 1, "schedule": {"warmup_epochs": 0}},
    "finetuning": {"epochs": 1},
    "runtime": {"report": False, "device": "cpu"},
}
FEW = {"scenario": {"classes": 4}, "data": {"test_share": 0.8}}
SETTINGS = ["training.epochs=1", "training.schedule.warmup_epochs=0", "finetuning.epochs=1", "model.dim=12"]
RUN = [path for path in pages.PAGES if any(each.language and not each.skipped for each in pages.blocks(path))]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Callable[..., Samples]) -> Path:
    """A folder with photos as the pages name them, where every recipe is tiny."""
    compose = recipes.compose

    def tiny(recipe: str, *, values: Mapping[str, Any] | None = None, **others: Any) -> Config:
        own = "encoder" in (values or {}).get("model", {})
        over = QUICK if own else merge(QUICK, {"model": NETWORK})
        over = merge(over, FEW) if recipe == "digits" else over
        return compose(recipe, values=merge(values or {}, over), **others)

    monkeypatch.setattr(recipes, "compose", tiny)
    monkeypatch.chdir(tmp_path)
    samples = made(0, 4, size=32, each=8)
    names = [("photos", "rose"), ("photos", "tulip"), ("spring", "crocus"), ("spring", "daisy")]
    for number, (image, label) in enumerate(zip(samples.images, samples.labels.tolist(), strict=True)):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        folder, name = names[label]
        for path in (Path(folder, name), *([Path("test-photos", name)] if folder == "photos" else [])):
            path.mkdir(parents=True, exist_ok=True)
            picture.save(path / f"{number}.png")
    Path("holiday").mkdir()
    picture.save("garden.jpg")
    picture.save("holiday/beach.jpg")
    return tmp_path


def execute(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of dytox, through the program's own entry."""
    arguments = pages.dytox_arguments(words)
    assert arguments is not None, f"only dytox is run here: say `<!-- not run: why -->` before {words}"
    chosen = {"--encoder", "--method", "--recipe"} & {*arguments}  # else nothing is trained
    if arguments[0] == "learn" and not Path(arguments[1]).exists() and chosen:
        arguments += [part for each in SETTINGS for part in ("--set", each)]
    monkeypatch.setattr(sys, "argv", ["dytox", *arguments])
    with pytest.raises(SystemExit) as left:
        run()
    assert left.value.code in (0, None), words


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.name)
def test_the_blocks_of_a_page(path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    images = torch.randint(0, 256, (24, 3, 8, 8), dtype=torch.uint8)
    space: dict[str, Any] = {"images": images[:12], "labels": ["a", "b"] * 6}
    space |= {"more_images": images[12:], "more_labels": ["c", "d"] * 6}
    for block in pages.blocks(path):
        if block.skipped:
            continue
        if block.language == "python":
            exec(compile(block.before, block.place, "exec"), space)
            exec(compile(block.code, block.place, "exec"), space)
        elif block.language in pages.SHELL:
            for words in block.commands():
                execute(words, monkeypatch)
