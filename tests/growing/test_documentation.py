"""The examples of docs/own-images.md run as they stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from dytox.data.samples import Samples
from dytox.growing.plan import Plan
from dytox.learner import ContinualLearner
from dytox.models.pretrained import VisionTransformer

TEXT = (Path(__file__).parents[2] / "docs" / "own-images.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def place(made: Callable[..., Samples], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Photos and variables of the examples' names."""
    monkeypatch.chdir(tmp_path)
    samples = made(0, 4, size=32)
    pictures = [Image.fromarray(each.permute(1, 2, 0).numpy()) for each in samples.images]
    for number, (picture, label) in enumerate(zip(pictures, samples.labels.tolist(), strict=True)):
        if label < 2:
            for folder in ("photos", "test-photos"):
                path = Path(folder) / ("rose", "tulip")[label] / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                picture.save(path)
    pictures[0].save("garden.jpg")
    third = samples.between(2, 3)
    dataset = [(pictures[36 + place], "daisy") for place in range(12)]
    return {"images": third.images, "labels": ["lily"] * 12, "dataset": dataset}


def test_the_python_of_the_page(place: dict[str, Any]) -> None:
    place["tiny"] = {
        "data": {"image_size": 32},
        "model": {"dim": 12, "heads": 3, "depth": 1},
        "training": {"epochs": 2, "schedule": {"warmup_epochs": 0}},
    }
    code = BLOCKS[1].replace('config={"data": {"image_size": 32}}', "config=tiny")
    assert "config=tiny" in code
    exec(code, place)
    assert place["learner"].classes_ == ["rose", "lily", "daisy"]


def test_an_encoder_of_ones_own(place: dict[str, Any]) -> None:
    place["my_module"] = nn.Sequential(nn.Conv2d(3, 12, 8, stride=8), nn.ReLU())
    lines = BLOCKS[0].splitlines()
    exec("from dytox import ContinualLearner\n" + lines[0], place)
    place["learner"].learn("photos/")
    place["learner"].save("flowers/")
    exec("\n".join(lines), place)
    assert place["learner"].classes_ == ["rose", "tulip"]


def test_an_encoder_from_a_file_for_a_folder(
    photos: Callable[..., Path], planned: Callable[..., Plan], model: Path, tmp_path: Path, small: list[str]
) -> None:
    torch.manual_seed(0)
    vit = VisionTransformer(image_size=8, patch_size=4, dim=12, heads=3, depth=1, mlp_ratio=2.0)
    save_file(vit.state_dict(), tmp_path / "vit.safetensors")
    shape = [each for each in small if not each.startswith(("model", "data"))]
    plan = planned(
        model, photos("one", 0, 2), overrides=[*shape, "model.heads=3"], encoder=tmp_path / "vit.safetensors"
    )
    assert isinstance(plan.learner, ContinualLearner)
    found = plan.learner.config.model
    assert (found.encoder, found.frozen, found.patch_size, found.dim) == ("vit", True, 4, 12)
    assert plan.learner.size == 8
    for name, tensor in vit.state_dict().items():
        assert torch.equal(plan.learner.method.model.encoder.state_dict()[name], tensor)
