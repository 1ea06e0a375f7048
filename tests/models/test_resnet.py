"""Residual networks: counts as published, stems, the last ReLU, and growing and forgetting with a head."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dytox import recipes
from dytox.config import Config
from dytox.errors import UserError
from dytox.models.build import network, path_net, pooled, token_network
from dytox.models.linear_heads import CosineHead, LinearHead
from dytox.models.pooled import PooledNet
from dytox.models.resnet import Block, ResNet


def count(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def test_parameters_as_published() -> None:
    assert count(ResNet("resnet18")) == 11_168_832
    assert count(ResNet("resnet18", stem="large")) == 11_176_512  # 64 · 3 · (49 - 9) more
    assert count(ResNet("resnet32")) == 463_504
    model = network(recipes.compose("cifar100-10", method="replay-resnet"))
    for _ in range(10):
        model.expand(10)
    assert model.count_parameters() == 11_168_832 + 51_200  # 11.22 M


@pytest.mark.parametrize(
    ("name", "stem", "size", "sides"),
    [
        ("resnet18", "small", 32, [32, 16, 8, 4]),
        ("resnet18", "large", 64, [16, 8, 4, 2]),
        ("resnet32", "small", 32, [32, 16, 8]),
        ("resnet8", "small", 8, [8, 4, 2]),
    ],
)
def test_stage_maps_and_features(name: str, stem: str, size: int, sides: list[int]) -> None:
    backbone = ResNet(name, stem=stem).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        encoding = backbone(torch.randn(2, 3, size, size))
    features, maps = encoding.features, encoding.maps
    assert [each.shape[-1] for each in maps] == sides
    torch.testing.assert_close(features, maps[-1].mean(dim=(2, 3)))
    assert features.shape == (2, backbone.dim)


@pytest.mark.parametrize("last_relu", [True, False])
def test_only_without_the_last_relu_features_may_be_negative(last_relu: bool) -> None:
    torch.manual_seed(0)
    maps = ResNet("resnet8", last_relu=last_relu)(torch.randn(4, 3, 8, 8)).maps
    with_negatives = [bool((each < 0).any()) for each in maps]
    # At first a block is its shortcut: what it gets is not negative, so neither is what it gives.
    assert with_negatives == [False, False, False]
    backbone = ResNet("resnet8", last_relu=last_relu)
    for module in backbone.modules():
        if isinstance(module, Block):
            nn.init.ones_(module.bn2.weight)
    with_negatives = [bool((each < 0).any()) for each in backbone(torch.randn(4, 3, 8, 8)).maps]
    assert with_negatives == [False, False, not last_relu]


def test_every_block_starts_as_its_shortcut() -> None:
    backbone = ResNet("resnet18").train()
    for stage in backbone.stages:
        for block in stage:
            x = torch.rand(2, block.conv1.in_channels, 4, 4)
            torch.testing.assert_close(block(x), block.shortcut(x).relu())


@pytest.mark.parametrize("kind", [LinearHead, CosineHead])
def test_growing_and_forgetting_move_no_other_logit_by_a_bit(kind: type[LinearHead]) -> None:
    torch.manual_seed(0)
    model = PooledNet(ResNet("resnet8"), kind(64)).eval()
    images = torch.randn(5, 3, 8, 8)
    with torch.no_grad():
        for size in (3, 1, 2):
            before = model(images).logits if model.increments else None
            model.expand(size)
            if before is not None:
                assert torch.equal(model(images).logits[:, : before.shape[1]], before)
        before = model(images).logits
        for gone, left in (([1], [0, 2, 3, 4, 5]), ([2], [0, 2, 4, 5])):  # then the task of one class
            model.forget(gone)
            assert torch.equal(model(images).logits, before[:, left])
            twin = PooledNet(ResNet("resnet8"), kind(64)).eval()
            twin.rebuild(model.structure())
            twin.load_state_dict(model.state_dict())
            assert torch.equal(twin(images).logits, before[:, left])
        assert model.increments == [2, 2]
        model.expand(2)
        torch.testing.assert_close(model(images).logits[:, :4], before[:, [0, 2, 4, 5]])


def test_cosines_are_bounded_and_scaled() -> None:
    head = CosineHead(2)
    head.expand(2)
    with torch.no_grad():
        head.linears()[0].weight.copy_(torch.tensor([[2.0, 0.0], [3.0, 3.0]]))
        head.scale.fill_(7.0)
        found = head(torch.tensor([[5.0, 0.0], [0.0, -1.0]]))
    root = 2**-0.5
    torch.testing.assert_close(found, 7 * torch.tensor([[1.0, root], [0.0, -root]]))


def test_a_method_that_needs_another_network_says_so() -> None:
    convolutional = recipes.compose("digits", method="replay-resnet")
    with pytest.raises(UserError, match=r"has task tokens, so model\.decoder must be tab"):
        token_network(convolutional)
    with pytest.raises(UserError, match=r"dytox predicts from pooled features"):
        pooled(Config(), LinearHead)
    with pytest.raises(UserError, match=r"model\.encoder must be resnet8, resnet18 or resnet32, not dytox"):
        path_net(Config(), places=1, tasks_per_path=1)
