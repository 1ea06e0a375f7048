"""RandAugment's operations against what Pillow made of the same images, its argument table and its draws."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from dytox.config import RandAugmentConfig
from dytox.data.randaugment import OPERATIONS, PIXEL_OPERATIONS, RandAugment, apply, arguments, matrices

FIXTURE = Path(__file__).parents[1] / "fixtures" / "randaugment.safetensors"


def recorded() -> tuple[dict[str, list[float]], dict[str, Tensor]]:
    with safe_open(FIXTURE, "pt") as file:
        given = json.loads(file.metadata()["config"])["arguments"]
        return given, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


GIVEN, TENSORS = recorded()
# The share of levels that may differ, by one: Pillow's double precision falls below a whole number here and
# there (AutoContrast; shifts by 3.2 pixels, whose levels are multiples of 0.2), and resampling has an error.
SHARES = {"AutoContrast": 0.002, "Rotate": 0.004, "ShearX": 0.005, "ShearY": 0.005}
SHARES |= {"TranslateX": 0.025, "TranslateY": 0.025}


def perform(name: str, images: Tensor, argument: float | Tensor = 0.0) -> Tensor:
    operation = torch.full((len(images),), OPERATIONS.index(name))
    argument = torch.as_tensor(argument, dtype=torch.float32).expand(len(images))
    return apply(images, operation, argument, matrices(operation, argument))


@pytest.mark.parametrize("key", GIVEN)
def test_an_operation_gives_what_pillow_gives(key: str) -> None:
    name = key.split(".")[0]
    result = perform(name, TENSORS["images"], *GIVEN[key])
    assert result.dtype == torch.uint8
    difference = (result.int() - TENSORS[key].int()).abs()
    share = (difference > 0).float().mean().item()
    assert difference.max() <= (1 if name in SHARES else 0), f"{key}: {difference.max()} levels"
    assert share <= SHARES.get(name, 0), f"{key}: {share:.2%} of the levels differ"


def test_the_fixture_has_every_operation() -> None:
    assert {key.split(".")[0] for key in GIVEN} == set(OPERATIONS)
    assert len(OPERATIONS) == 15
    assert len(PIXEL_OPERATIONS) == OPERATIONS.index("Rotate")


TABLE = {  # the argument at m = 0, 9, 10, worked out by hand; of the signed ones, with a positive sign
    **dict.fromkeys(("AutoContrast", "Equalize", "Invert"), (0, 0, 0)),
    "Posterize": (4, 1, 0),
    "Solarize": (256, 26, 0),
    "SolarizeAdd": (0, 99, 110),
    **dict.fromkeys(("Color", "Contrast", "Brightness", "Sharpness"), (1, 1.81, 1.9)),
    "Rotate": (0, 27, 30),
    **dict.fromkeys(("ShearX", "ShearY"), (0, 0.27, 0.3)),
    **dict.fromkeys(("TranslateX", "TranslateY"), (0, 0.405, 0.45)),
}
NEGATIVE = {  # with a negative sign, where it makes a difference
    **dict.fromkeys(("Color", "Contrast", "Brightness", "Sharpness"), (1, 0.19, 0.1)),
    "Rotate": (0, -27, -30),
    **dict.fromkeys(("ShearX", "ShearY"), (0, -0.27, -0.3)),
    **dict.fromkeys(("TranslateX", "TranslateY"), (0, -0.405, -0.45)),
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", OPERATIONS)
def test_magnitudes_become_arguments(name: str, sign: int) -> None:
    expected = TABLE[name] if sign == 1 else NEGATIVE.get(name, TABLE[name])
    operation = torch.full((3,), OPERATIONS.index(name))
    found = arguments(operation, torch.tensor([0.0, 9.0, 10.0]), torch.full((3,), sign))
    exact = name in ("Posterize", "Solarize", "SolarizeAdd")
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float32), rtol=0, atol=0 if exact else 1e-6
    )


def test_whole_arguments_are_cut() -> None:
    names, magnitude = ("Posterize", "Solarize", "SolarizeAdd"), torch.full((3,), 7.4)
    operation = torch.tensor([OPERATIONS.index(name) for name in names])
    assert arguments(operation, magnitude, torch.ones(3)).tolist() == [4 - 2, 256 - 189, 81]


def test_every_image_has_its_own_operation_and_argument() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (64, 3, 9, 9), dtype=torch.uint8, generator=generator)
    operation = torch.arange(64) % 16 - 1
    argument = arguments(operation, torch.linspace(3, 10, 64), torch.arange(64) % 2 * 2 - 1)
    matrix = matrices(operation, argument)
    together = apply(images, operation, argument, matrix)
    for i in range(64):
        alone = apply(images[i : i + 1], operation[i : i + 1], argument[i : i + 1], matrix[i : i + 1])
        assert torch.equal(together[i], alone[0]), OPERATIONS[operation[i]]
    unchanged = (together == images).flatten(1).all(1)
    assert unchanged[operation == -1].all()
    assert not unchanged[operation >= OPERATIONS.index("Posterize")].any()


def test_images_of_one_level_and_of_two() -> None:
    flat = torch.full((1, 3, 16, 16), 77, dtype=torch.uint8)
    for name in ("AutoContrast", "Equalize"):
        assert torch.equal(perform(name, flat), flat), name
    two = flat.clone()
    two[0, 1, 0] = 79  # the second channel: 16 pixels of 79, 240 of 77
    stretched = perform("AutoContrast", two)
    assert torch.equal(stretched[:, ::2], two[:, ::2])
    assert set(stretched[0, 1].flatten().tolist()) == {0, 255}
    assert torch.equal(
        perform("Equalize", two), two
    )  # a step of (256 - 16) // 255 = 0 levels: nothing to spread
    two[0, 1, 0, 1:] = 77  # now one pixel of 79: the step is 1, 77 -> 0 and 79 -> 255
    assert set(perform("Equalize", two)[0, 1].flatten().tolist()) == {0, 255}


def test_what_comes_from_outside_is_grey() -> None:
    white = torch.full((1, 3, 10, 10), 255, dtype=torch.uint8)
    moved = perform("TranslateX", white, 0.3)[0, 0]  # the content goes three pixels to the left
    assert moved[:, :7].eq(255).all()
    assert moved[:, 7:].eq(128).all()
    moved = perform("TranslateY", white, -0.3)[0, 0]
    assert moved[:3].eq(128).all()
    assert moved[3:].eq(255).all()


def test_draws_are_spread_over_operations_signs_and_magnitudes() -> None:
    count = 30_000
    draws = RandAugment(RandAugmentConfig()).draw(torch.Generator().manual_seed(0), count)
    operation, argument = draws["operation"], draws["argument"]
    assert operation.shape == argument.shape == (count, 2)
    assert draws["matrix"].shape == (count, 2, 6)
    shares = torch.bincount(operation.flatten() + 1, minlength=16) / operation.numel()
    assert shares[0].item() == pytest.approx(0.5, abs=0.01)
    torch.testing.assert_close(shares[1:], torch.full((15,), 0.5 / 15), rtol=0, atol=0.004)  # five deviations
    both = (operation >= 0).all(1)
    assert both.float().mean().item() == pytest.approx(0.25, abs=0.013)
    again = (operation[both, 0] == operation[both, 1]).float().mean().item()
    assert again == pytest.approx(1 / 15, abs=0.015)  # with replacement
    degrees = argument[operation == OPERATIONS.index("Rotate")]
    assert (degrees > 0).float().mean().item() == pytest.approx(0.5, abs=0.06)
    magnitude = degrees.abs() / 3
    assert magnitude.max().item() == pytest.approx(10)  # clipped: N(9, 0.5) is above 10 once in 44
    assert (magnitude > 9.999).float().mean().item() == pytest.approx(0.0228, abs=0.02)
    assert magnitude.median().item() == pytest.approx(9, abs=0.06)
    assert magnitude.std().item() == pytest.approx(0.49, abs=0.04)


def test_probability_rounds_and_magnitude_follow_the_config() -> None:
    config = RandAugmentConfig(operations=3, probability=1.0, magnitude=5.0, magnitude_std=0.0)
    draws = RandAugment(config).draw(torch.Generator().manual_seed(0), 500)
    assert draws["operation"].shape == (500, 3)
    assert draws["operation"].min() == 0
    degrees = draws["argument"][draws["operation"] == OPERATIONS.index("Rotate")]
    assert set(degrees.tolist()) == {-15.0, 15.0}


def test_rounds_follow_one_another() -> None:
    config = RandAugmentConfig(operations=2)
    images = TENSORS["images"]
    operation = torch.tensor([[OPERATIONS.index("Invert"), OPERATIONS.index("Posterize")]]).expand(3, 2)
    argument = torch.tensor([[0.0, 1.0]]).expand(3, 2)
    draws = {"operation": operation, "argument": argument, "matrix": matrices(operation, argument)}
    expected = perform("Posterize", perform("Invert", images), 1.0)
    assert torch.equal(RandAugment(config)(images, draws), expected)
    assert not torch.equal(expected, perform("Invert", perform("Posterize", images, 1.0)))
