"""The small convolutional encoder."""

from __future__ import annotations

import pytest
import torch

from dytox.models.conv import _SHAPES, ConvEncoder


@pytest.mark.parametrize(
    ("size", "pixels", "dim"), [("tiny", 8, 128), ("small", 32, 256), ("medium", 32, 384)]
)
def test_sixteen_tokens_of_an_image(size, pixels, dim):
    encoder = ConvEncoder(size).eval()
    images = torch.randn(2, 3, pixels, pixels)
    assert encoder.dim == dim
    assert encoder(images).tokens.shape == (2, 16, dim)
    sides = [(each.shape[1], each.shape[2]) for each in encoder(images).maps]
    expected = [(channels, 4 * 2**place) for place, channels in enumerate(reversed(_SHAPES[size].channels))]
    assert sides == expected[::-1]


def test_a_token_is_a_place_of_the_last_map():
    encoder = ConvEncoder("tiny").eval()
    images = torch.randn(2, 3, 8, 8)
    encoding = encoder(images)
    assert torch.equal(encoding.tokens[1, 6], encoding.maps[-1][1, :, 1, 2])


def test_multiplications_of_a_pass():
    """About 71 million for an image of 32 pixels: 3×3 convolutions at 16×16, 8×8 and 4×4 places."""
    counted = []
    encoder = ConvEncoder("small").eval()
    for module in encoder.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(
                lambda module, _, output: counted.append(output[0].numel() * module.weight[0].numel())
            )
    encoder(torch.randn(1, 3, 32, 32))
    assert sum(counted) == 256 * 32 * 12 + 3 * 256 * 64 * 9 * (32 + 64 + 64)


def test_every_weight_learns_and_maps_are_channels_last():
    encoder = ConvEncoder("tiny").train()
    tokens, maps, _ = encoder(torch.randn(4, 3, 8, 8))
    (tokens * torch.randn_like(tokens)).sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in encoder.parameters())
    assert all(each.is_contiguous(memory_format=torch.channels_last) for each in maps)


def test_features_are_negative_only_without_the_last_activation():
    torch.manual_seed(0)
    images = torch.randn(8, 3, 8, 8)
    with_it, without = ConvEncoder("tiny"), ConvEncoder("tiny", last_activation=False)
    without.load_state_dict(with_it.state_dict())
    assert with_it(images).maps[-1].min() > -0.4  # of the sum of two GELUs, each above -0.17
    assert without(images).maps[-1].min() < -0.4
