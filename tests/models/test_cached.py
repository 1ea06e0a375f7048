"""What does not depend on the images: computed once while it is cached, with the same result."""

from __future__ import annotations

import pytest
import torch

from dytox import DyTox
from dytox.bench import plain
from dytox.models.cached import cached, frozen
from dytox.models.heads import IndependentHeads


@pytest.fixture
def model() -> DyTox:
    torch.manual_seed(0)
    model = DyTox(image_size=8, dim=12, heads=3, depth=2)
    for classes in (2, 4, 1):
        model.expand(classes)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    return model.eval()


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[object]:
    calls, original = [], getattr(owner, name)

    def counted(self):
        calls.append(self)
        return original(self)

    monkeypatch.setattr(owner, name, counted)
    return calls


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_held_is_computed_once_and_equal_to_plain(model, monkeypatch, mode):
    calls = count_calls(monkeypatch, IndependentHeads, "compute_constants")
    batches = torch.randn(3, 2, 3, 8, 8).unbind()
    with cached(model.modules()), mode():
        found = [model(images) for images in batches]
    assert len(calls) == 1
    for images, output in zip(batches, found, strict=True):
        expected = plain.forward(model, images)
        torch.testing.assert_close(output.logits, expected.logits, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(output.embeddings, expected.embeddings, atol=1e-5, rtol=1e-5)


def test_weights_changed_between_two_holdings_are_seen(model):
    images = torch.randn(2, 3, 8, 8)
    for _ in range(2):
        with cached(model.modules()), torch.no_grad():
            logits = model(images).logits
        torch.testing.assert_close(logits, plain.forward(model, images).logits, atol=1e-5, rtol=1e-5)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.1)


def test_weights_changed_while_they_are_held_are_found_out(model):
    with pytest.raises(AssertionError, match="changed while constants were cached"), cached(model.modules()):
        torch.nn.init.zeros_(model.task_tokens[1])
    assert "cache" not in vars(model)


def test_gradients_of_what_learns_beside_a_held_encoder(model):
    """As in finetuning: the encoder is frozen and cached, tokens, TAB and heads learn."""
    model.drop_divergence_head()
    model.encoder.requires_grad_(False)
    learns = [weight for weight in model.parameters() if weight.requires_grad]
    images = torch.randn(2, 3, 8, 8)
    with cached(frozen(model.modules())):
        assert "cache" in vars(model.encoder.sabs[0].attn)
        assert "cache" not in vars(model)
        mine = torch.autograd.grad(model(images).logits.square().sum(), learns)
    theirs = torch.autograd.grad(plain.forward(model, images).logits.square().sum(), learns)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_half_precision_takes_what_is_held(model):
    images = torch.randn(2, 3, 8, 8)
    expected = plain.forward(model, images).logits
    with cached(model.modules()), torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(model(images).logits.float(), expected, atol=0.1, rtol=0.05)
