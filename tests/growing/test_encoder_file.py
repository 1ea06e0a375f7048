"""A pretrained encoder for a folder of images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

from dytox.growing.plan import Plan
from dytox.learner import ContinualLearner
from dytox.models.pretrained import VisionTransformer


def test_an_encoder_from_a_file_for_a_folder(
    photos: Callable[..., Path], planned: Callable[..., Plan], model: Path, tmp_path: Path, small: list[str]
) -> None:
    torch.manual_seed(0)
    vit = VisionTransformer(image_size=8, patch_size=4, dim=12, heads=3, depth=1, mlp_ratio=2.0)
    save_file(vit.state_dict(), tmp_path / "vit.safetensors")
    shape = [each for each in small if not each.startswith(("model", "data"))]
    plan = planned(
        model,
        photos("one", 0, 2),
        method="dytox",
        overrides=[*shape, "model.heads=3"],
        encoder=str(tmp_path / "vit.safetensors"),
    )
    assert isinstance(plan.learner, ContinualLearner)
    found = plan.learner.config.model
    assert (found.encoder, found.frozen, found.patch_size, found.dim) == ("vit", True, 4, 12)
    assert plan.learner.size == 8
    for name, tensor in vit.state_dict().items():
        assert torch.equal(plan.learner.method.model.encoder.state_dict()[name], tensor)
