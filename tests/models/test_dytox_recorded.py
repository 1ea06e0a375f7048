"""The model against numbers recorded from the authors' implementation."""

from __future__ import annotations

import pytest
import torch

from dytox import DyTox
from dytox.config import Config
from dytox.data.loader import Batch
from dytox.methods.dytox import DyToxMethod
from dytox.models.original import rename

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture
def method(recorded):
    """The method around the recorded model and its teacher, as in the recording: all weights learn."""
    config = Config.model_validate(
        {"data": {"image_size": 16}, "model": {"dim": 48, "heads": 12, "depth": 3, "drop_path": 0.0}}
    )
    method = DyToxMethod(config)
    method.model = DyTox.from_original(recorded("dytox_small", "model."), image_size=16, heads=12)
    method.teacher = DyTox.from_original(recorded("dytox_small", "teacher."), image_size=16, heads=12)
    return method.eval()


def test_outputs(method, recorded):
    expected = recorded("dytox_small")
    output = method.model(expected["input"])
    torch.testing.assert_close(output.logits, expected["logits"], **CLOSE)
    torch.testing.assert_close(output.embeddings, expected["embeddings"], **CLOSE)
    torch.testing.assert_close(output.divergence, expected["div_logits"], **CLOSE)
    torch.testing.assert_close(method.teacher(expected["input"]).logits, expected["teacher_logits"], **CLOSE)


def test_losses_and_gradients(method, recorded):
    expected = recorded("dytox_small")
    terms = method(Batch.plain(expected["input"], expected["target"]))
    means = {name: term.sum / term.count for name, term in terms.items()}
    for name in ("clf", "kd", "div"):
        torch.testing.assert_close(means[name], expected[f"loss.{name}"], **CLOSE)
    total = sum(term.weight * means[name] for name, term in terms.items())
    torch.testing.assert_close(total, expected["loss.total"], **CLOSE)

    total.backward()
    weights = dict(method.model.named_parameters())
    gradients = recorded("dytox_small", "grad.")
    assert len(gradients) == len(weights)
    for name, gradient in gradients.items():
        if name.endswith("pos_proj.bias"):  # none, mathematically
            assert gradient.abs().max() < 1e-6
            continue
        ours = weights[rename(name)].grad
        torch.testing.assert_close(ours, gradient.reshape(ours.shape), **CLOSE)


def test_gpsa_initialisation(recorded):
    expected = recorded("gpsa_init")
    attention = DyTox(image_size=16).encoder.sabs[0].attn
    assert torch.equal(attention.relative, expected["rel"])
    assert torch.equal(attention.pos_proj.weight[:9], expected["pos_proj.weight.first9"])
    assert torch.equal(attention.gate, expected["gating"])
    assert torch.equal(attention.v.weight, torch.eye(384))


def test_a_foreign_state_dict_is_refused():
    from dytox.errors import UserError

    with pytest.raises(UserError, match="not a state dict of the authors' DyTox"):
        DyTox.from_original({"fc.weight": torch.zeros(1)}, image_size=16, heads=12)
