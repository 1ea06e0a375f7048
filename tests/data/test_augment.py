"""Crop, flip, RandAugment and normalisation of a batch, against Pillow and image by image."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from dytox.config import AugmentConfig, RandAugmentConfig
from dytox.data.augment import Augmentation, draw_crops, flip, normalise, padded_crop, resized_crop, windows
from dytox.data.randaugment import OPERATIONS

MEAN, STD = (0.5, 0.25, 0.125), (0.5, 0.25, 2.0)
CONFIGS = {
    "crop": AugmentConfig(),
    "resized crop": AugmentConfig(resized_crop=[0.08, 1.0]),
    "every operation": AugmentConfig(randaugment=RandAugmentConfig(operations=4, probability=1.0)),
    "no RandAugment": AugmentConfig(pad=0, randaugment=None),
}


def pictures(count: int, size: int = 32) -> Tensor:
    """Smooth images with some noise, a little like photographs."""
    generator = torch.Generator().manual_seed(3)
    coarse = torch.rand(count, 3, 5, 5, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(size, size), mode="bicubic").clamp_(0, 1)
    return (smooth * 240 + torch.rand(smooth.shape, generator=generator) * 15).to(torch.uint8)


def augmentation(config: AugmentConfig) -> Augmentation:
    return Augmentation(config, mean=MEAN, std=STD)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def levels(result: Tensor) -> Tensor:
    """The uint8 levels of normalised images."""
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (MEAN, STD))
    return ((result * std + mean) * 255).round().to(torch.uint8)


def test_normalise_gives_the_values_worked_out_by_hand() -> None:
    images = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 1, 1, 3).expand(1, 3, 1, 3)
    expected = torch.tensor([[-1, -0.6, 1], [-1, -0.2, 3], [-0.0625, 0.0375, 0.4375]])
    result = normalise(images, MEAN, STD)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result[0, :, 0], expected, rtol=0, atol=1e-7)
    every = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(1, 3, 16, 16)
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (MEAN, STD))
    assert torch.equal(normalise(every, MEAN, STD), (every.float() / 255 - mean) / std)


def test_crops_are_windows_of_the_image_padded_with_black_and_all_occur() -> None:
    images = pictures(1500, 8)
    images.clamp_(min=1)
    config = AugmentConfig(flip=0.0, randaugment=None)
    draws = augmentation(config).draw(seeded(), 1500, 8)
    offsets = [tuple(pair) for pair in draws["offset"].tolist()]
    assert set(offsets) == set(itertools.product(range(9), range(9)))
    cropped = padded_crop(images, draws["offset"], pad=4)
    padded = torch.nn.functional.pad(images, (4, 4, 4, 4))
    for i, (top, left) in enumerate(offsets):
        assert torch.equal(cropped[i], padded[i, :, top : top + 8, left : left + 8])
    assert torch.equal(augmentation(config)(images, draws), normalise(cropped, MEAN, STD))


def test_flips_are_mirrored_and_as_frequent_as_asked() -> None:
    images = pictures(4, 8)
    assert torch.equal(
        flip(images, torch.tensor([True, False, False, True]))[[0, 3]], images[[0, 3]].flip(-1)
    )
    assert torch.equal(flip(images, torch.tensor([True, False, False, True]))[1:3], images[1:3])
    for probability in (0.0, 0.2, 0.5, 1.0):
        drawn = augmentation(AugmentConfig(flip=probability)).draw(seeded(), 10_000, 8)["flip"]
        assert drawn.float().mean().item() == pytest.approx(probability, abs=0.02)
    assert drawn.all()


@pytest.mark.parametrize("name", CONFIGS)
def test_the_halves_of_a_batch_and_any_order_give_the_same_bits(name: str) -> None:
    augment, images = augmentation(CONFIGS[name]), pictures(101)
    draws = augment.draw(seeded(), 101, 32)
    assert {len(each) for each in draws.values()} == {101}
    whole = augment(images, draws)
    assert whole.dtype == torch.float32
    assert whole.shape == images.shape
    for first, last in ((0, 50), (50, 101), (7, 8), (90, 99)):
        part = augment(images[first:last], {key: each[first:last] for key, each in draws.items()})
        assert torch.equal(part, whole[first:last])
    order = torch.randperm(101, generator=seeded(1))
    permuted = augment(images[order], {key: each[order] for key, each in draws.items()})
    assert torch.equal(permuted, whole[order])
    assert torch.equal(images, pictures(101))  # and the input is left as it was


@pytest.mark.parametrize("name", ["crop", "resized crop"])
def test_each_image_has_its_own_draw_and_a_seed_its_own_result(name: str) -> None:
    augment = augmentation(CONFIGS[name])
    images = pictures(1).expand(32, 3, 32, 32)
    results = [augment(images, augment.draw(seeded(seed), 32, 32)) for seed in (0, 0, 1)]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert len({each.numpy().tobytes() for each in results[0]}) > 28  # a repetition by chance is rare


def test_the_result_can_be_trained_on_and_a_batch_may_be_empty() -> None:
    augment = augmentation(AugmentConfig())
    layer = torch.nn.Conv2d(3, 2, 3)
    layer(augment(pictures(4), augment.draw(seeded(), 4, 32))).sum().backward()
    assert layer.weight.grad is not None
    assert augment(pictures(4)[:0], augment.draw(seeded(), 0, 32)).shape == (0, 3, 32, 32)


def test_windows_lie_within_the_image_and_have_the_areas_and_aspects_asked_for() -> None:
    size = 224
    top, left, height, width = windows(draw_crops(seeded(), 5000), size, size, area=[0.08, 1.0]).unbind(1)
    for start, length in ((top, height), (left, width)):
        assert start.min() == 0
        assert (start + length).max() == size
        assert torch.equal(start, start.round())
    area, aspect = height * width / size**2, (width / height).log()
    assert area.min().item() == pytest.approx(0.08, abs=0.005)
    assert area.max() > 0.95
    assert aspect.abs().max().item() == pytest.approx(np.log(4 / 3), abs=0.03)
    assert aspect.mean().item() == pytest.approx(0, abs=0.02)
    small = area < 0.5  # which always fit
    assert (aspect[small] > np.log(4 / 3) / 2).float().mean().item() == pytest.approx(0.25, abs=0.04)
    whole = windows(
        draw_crops(seeded(), 2000), size, size, area=[1.0, 1.0]
    )  # fits only when it is nearly square
    assert (whole == torch.tensor([0.0, 0, size, size])).all(1).all()


def test_a_resized_crop_is_pillows() -> None:
    images = pictures(20, 48)
    window = windows(draw_crops(seeded(), 20), 48, 48, area=[0.08, 1.0]).float()
    result = resized_crop(images, window)
    for image, made, (top, left, height, width) in zip(images, result, window.int().tolist(), strict=True):
        cropped = to_pillow(image).crop((left, top, left + width, top + height))
        expected = from_pillow(cropped.resize((48, 48), Image.Resampling.BILINEAR))
        assert (made.int() - expected.int()).abs().max() <= 1


def test_a_batch_is_what_pillow_makes_of_its_images_one_by_one() -> None:
    augment, images = augmentation(AugmentConfig()), pictures(256)
    draws = augment.draw(seeded(), 256, 32)
    result = levels(augment(images, draws))
    close = []
    for i in range(256):
        top, left = draws["offset"][i].tolist()
        image = ImageOps.expand(to_pillow(images[i]), 4).crop((left, top, left + 32, top + 32))
        image = ImageOps.mirror(image) if draws["flip"][i] else image
        for operation, argument in zip(
            draws["operation"][i].tolist(), draws["argument"][i].tolist(), strict=True
        ):
            image = image if operation < 0 else by_pillow(OPERATIONS[operation], image, argument)
        close.append(((result[i].int() - from_pillow(image).int()).abs() <= 2).float().mean().item())
    # one level of difference grows where Posterize, Solarize or Equalize comes after a resampling
    assert np.mean(close) > 0.998
    assert np.mean(np.array(close) == 1) > 0.95


def to_pillow(image: Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())


def from_pillow(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def by_pillow(name: str, image: Image.Image, argument: float) -> Image.Image:
    """One operation as timm's RandAugment asks it of Pillow."""
    width, height = image.size
    if name in ("Color", "Contrast", "Brightness", "Sharpness"):
        enhanced: Image.Image = getattr(ImageEnhance, name)(image).enhance(argument)
        return enhanced
    if name in ("AutoContrast", "Equalize", "Invert"):
        changed: Image.Image = getattr(ImageOps, name.lower())(image)
        return changed
    if name == "Posterize":  # Pillow refuses to keep no bits; timm's table has it at magnitude 10
        return ImageOps.posterize(image, int(argument)) if argument else Image.new("RGB", image.size)
    if name == "Solarize":
        return ImageOps.solarize(image, int(argument))
    if name == "SolarizeAdd":
        return image.point([level + int(argument) if level < 128 else level for level in range(256)] * 3)
    if name == "Rotate":
        return image.rotate(argument, Image.Resampling.BILINEAR, fillcolor=(128, 128, 128))
    matrix = {
        "ShearX": (1, argument, 0, 0, 1, 0),
        "ShearY": (1, 0, 0, argument, 1, 0),
        "TranslateX": (1, 0, argument * width, 0, 1, 0),
        "TranslateY": (1, 0, 0, 0, 1, argument * height),
    }[name]
    method, filling = Image.Transform.AFFINE, (128, 128, 128)
    return image.transform(image.size, method, matrix, Image.Resampling.BILINEAR, fillcolor=filling)


def test_brightness_is_pillows_with_a_factor_for_each_image() -> None:
    images = pictures(300, 8)
    vary = augmentation(AugmentConfig(pad=0, flip=0.0, randaugment=None, brightness=63 / 255))
    factors = vary.draw(seeded(), 300, 8)["brightness"]
    assert 1 - 63 / 255 <= factors.min() < 0.77
    assert 1.23 < factors.max() <= 1 + 63 / 255
    assert factors.unique().numel() > 290
    found = levels(vary(images, {"brightness": factors, "flip": torch.zeros(300, dtype=torch.bool)}))
    for image, factor, result in zip(images, factors.tolist(), found, strict=True):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        expected = torch.from_numpy(np.array(ImageEnhance.Brightness(picture).enhance(factor)))
        assert torch.equal(result, expected.permute(2, 0, 1))
