"""Vision models of Hugging Face as encoders, on small random ones that `save_pretrained` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dytox import ContinualLearner
from dytox.errors import UserError
from dytox.models import hugging_face

transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 32,
    "patch_size": 8,
}
STAGES: dict[str, Any] = {"hidden_sizes": [8, 16], "depths": [1, 1]}
MODELS: dict[str, dict[str, Any]] = {
    "ViT": SMALL,
    "Dinov2": SMALL,
    "CLIPVision": SMALL,
    "SiglipVision": SMALL,
    "ConvNext": {"num_stages": 2, **STAGES},
    "ResNet": {"embedding_size": 8, **STAGES},
}
SQUARE = {"size": {"height": 32, "width": 32}, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}


def saved(name: str, folder: Path, preprocessor: dict[str, Any] = SQUARE) -> Any:
    """A random model, in a folder with the file of its preprocessor."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**MODELS[name])
    model = getattr(transformers, f"{name}Model")(config).eval()
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    return model


@pytest.mark.parametrize("name", MODELS)
def test_a_model_sees_what_the_original_sees(name: str, tmp_path: Path) -> None:
    model = saved(name, tmp_path)
    learner = ContinualLearner.create("own-images", method="ncm", encoder=tmp_path)
    config = learner.config
    assert (learner.size, config.data.mean, config.data.std) == (32, [0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    assert config.model.frozen
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        found, wanted = learner.method.model.encoder(images), model(images)
    pooled = wanted.last_hidden_state[:, 0] if name == "ViT" else wanted.pooler_output.flatten(1)
    torch.testing.assert_close(found.features, pooled)
    assert found.tokens.shape[2] == found.features.shape[1] == 16


@pytest.mark.parametrize("name", ["ViT", "ConvNext"])
def test_a_saved_model_needs_the_folder_no_more(name: str, tmp_path: Path) -> None:
    saved(name, tmp_path / "encoder")
    learner = ContinualLearner.create("own-images", method="ncm", encoder=tmp_path / "encoder")
    images = torch.randint(0, 256, (12, 3, 32, 32), dtype=torch.uint8)
    learner.learn(images, ["a", "b"] * 6)
    learner.save(tmp_path / "model")
    (tmp_path / "encoder").rename(tmp_path / "gone")
    again = ContinualLearner.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(images), learner.predict_proba(images))


@pytest.mark.parametrize(
    ("preprocessor", "sides"),
    [
        ({"size": 224}, (224, None)),
        ({"size": {"shortest_edge": 256}, "crop_size": 224, "do_center_crop": True}, (224, 256)),
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875}, (224, 256)),
        ({"size": {"shortest_edge": 384}, "crop_pct": 0.875}, (384, None)),
    ],
)
def test_sizes_are_those_of_the_preprocessor(
    preprocessor: dict[str, Any], sides: tuple[int, int | None], tmp_path: Path
) -> None:
    saved("ResNet", tmp_path, preprocessor)
    about = hugging_face.describe(str(tmp_path))
    assert (about.image_size, about.resize) == sides


def test_the_image_half_of_clip_is_taken(tmp_path: Path) -> None:
    text = {**SMALL, "vocab_size": 8, "max_position_embeddings": 4}
    config = transformers.CLIPConfig(text_config=text, vision_config=SMALL, projection_dim=8)
    model = transformers.CLIPModel(config).eval()
    model.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(SQUARE))
    learner = ContinualLearner.create("own-images", method="ncm", encoder=tmp_path)
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        wanted = model.vision_model(images).pooler_output
        torch.testing.assert_close(learner.method.model.encoder(images).features, wanted)


def test_folders_that_hold_no_encoder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no config.json: an encoder is a folder as"):
        hugging_face.describe(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UserError, match=r"has no preprocessor_config.json"):
        hugging_face.describe(str(tmp_path))
    (tmp_path / "preprocessor_config.json").write_text('{"size": {"height": 32, "width": 16}}')
    with pytest.raises(UserError, match=r"a 'bert' model, which is not an encoder that is known"):
        hugging_face.describe(str(tmp_path))
