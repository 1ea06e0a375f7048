"""How many exemplars."""

from __future__ import annotations

import pytest

from dytox.config import MemoryConfig
from dytox.errors import UserError
from dytox.memory import exemplars_per_share


@pytest.mark.parametrize(
    ("config", "classes", "expected"),
    [
        ({"size": 2000}, 10, 200),
        ({"size": 2000}, 100, 20),
        ({"size": 2000}, 30, 66),  # rounded down: 1,980
        ({"size": 7}, 7, 1),
        ({"per_class": 20}, 10, 20),
        ({"per_class": 20}, 100, 20),
        ({"per_class": 20, "size": 500}, 100, 5),  # within both
        ({"per_class": 4, "size": 40}, 2, 4),
        ({"size": 2000, "shares": 2}, 10, 100),
        ({"size": 2000, "shares": 2, "budget": "each"}, 10, 200),
        ({"size": 2000, "shares": 3}, 30, 22),
        ({"per_class": 20, "shares": 4}, 50, 5),
        ({"per_class": 20, "shares": 4, "budget": "each"}, 50, 20),
    ],
)
def test_by_hand(config, classes, expected):
    assert exemplars_per_share(MemoryConfig(**config), classes) == expected


@pytest.mark.parametrize("shares", [1, 2, 3, 7])
@pytest.mark.parametrize("classes", [2, 3, 10, 17])
def test_shares_that_split_stay_within_the_budget(shares, classes):
    config = MemoryConfig(size=500, shares=shares)
    per_share = exemplars_per_share(config, classes)
    assert per_share * shares * classes <= 500 < (per_share + 1) * shares * classes + shares * classes
    each = exemplars_per_share(config.model_copy(update={"budget": "each"}), classes)
    assert each * classes <= 500


@pytest.mark.parametrize(
    ("config", "classes", "message"),
    [
        (
            {"size": 9},
            10,
            "memory.size 9 leaves no image for each of 10 classes: it must be at least 10, or 0",
        ),
        ({"size": 19, "shares": 2}, 10, "memory.size 19 leaves no image in each of 2 shares .* at least 20"),
        ({"size": 9, "shares": 2, "budget": "each"}, 10, "memory.size 9 .* at least 10"),
        (
            {"per_class": 2, "shares": 3},
            10,
            "memory.per_class 2 leaves no image in each of 3 shares.* at least 3",
        ),
    ],
)
def test_too_small_a_memory_is_refused(config, classes, message):
    with pytest.raises(UserError, match=message) as refused:
        exemplars_per_share(MemoryConfig(**config), classes)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "config", [{"size": 10}, {"size": 20, "shares": 2}, {"size": 10, "shares": 2, "budget": "each"}]
)
def test_the_least_that_an_error_names_is_enough(config):
    assert exemplars_per_share(MemoryConfig(**config), 10) == 1
