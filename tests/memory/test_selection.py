"""Which exemplars: against the recording, and by hand."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from dytox import memory as batched
from dytox.memory import closest, furthest, random, selected

NAMES = ("herding", "closest", "furthest", "random")


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 6, generator=source(seed)) + torch.tensor([3.0, 1.0, 0.0, 0.0, 0.0, 0.0])


def select(name: str, features: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Of one class."""
    return selected(name, [features], count, generator)[0]


@pytest.mark.parametrize("case", [0, 1, 2])
@pytest.mark.parametrize(("name", "key"), [("herding", "selected"), ("closest", "closest")])
def test_as_recorded(recorded, name, key, case):
    data = recorded("herding")
    assert torch.equal(select(name, data[f"features.{case}"], 10, source()), data[f"{key}.{case}"])


def test_herding_by_hand():
    """Unit vectors at 0°, 90° and 200°: each in turn brings the mean of all chosen closest."""
    angles = torch.tensor([0.0, 90.0, 200.0]).deg2rad()
    features = torch.stack([angles.cos(), angles.sin()], dim=1) * torch.tensor([[1.0], [2.0], [3.0]])
    # mean = (1 + 0 - 0.940, 0 + 1 - 0.342) / 3 = (0.020, 0.219): 90° is nearest. Then 2 · mean - x_1 =
    # (0.040, -0.561): 200° (0.154), then 3 · mean - x_1 - x_2 = (1, 0): 0°.
    assert select("herding", features, 3, source()).tolist() == [1, 2, 0]


def test_herding_ignores_the_length_of_features():
    features = some(30)
    longer = features * torch.rand(30, 1, generator=source(1)).add(0.5)
    assert torch.equal(select("herding", features, 10, source()), select("herding", longer, 10, source()))


def test_herding_follows_the_mean_better_than_chance():
    normed = normalize(some(60).double())
    mean = normed.mean(dim=0)

    def off(places: torch.Tensor) -> float:
        return (normed[places].mean(dim=0) - mean).norm().item()

    chances = [off(random(normed, 8, source(seed))) for seed in range(50)]
    assert off(select("herding", normed, 8, source())) < min(chances)


def test_closest_and_furthest_by_hand():
    features = torch.tensor([[0.0], [1.0], [2.0], [9.0]])  # the mean is 3
    assert closest(features, 4, source()).tolist() == [2, 1, 0, 3]
    assert furthest(features, 4, source()).tolist() == [3, 0, 1, 2]
    assert closest(features, 2, source()).tolist() == [2, 1]
    assert furthest(features, 1, source()).tolist() == [3]


def test_equal_distances_keep_their_order():
    features = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    assert closest(features, 4, source()).tolist() == [0, 1, 2, 3]
    assert furthest(features, 4, source()).tolist() == [0, 1, 2, 3]


def test_random_is_a_draw_without_replacement():
    features = some(20)
    drawn = random(features, 20, source())
    assert sorted(drawn.tolist()) == list(range(20))
    assert torch.equal(drawn, random(features, 20, source()))
    assert not torch.equal(drawn, random(features, 20, source(1)))


@pytest.mark.parametrize("name", NAMES)
def test_a_smaller_memory_is_a_prefix_of_a_larger_one(name):
    features = some(40)
    whole = select(name, features, 40, source())
    assert sorted(whole.tolist()) == list(range(40))
    for count in range(41):
        assert torch.equal(select(name, features, count, source()), whole[:count])


@pytest.mark.parametrize("name", NAMES)
def test_more_are_wanted_than_there_are(name):
    chosen = select(name, some(7), 20, source())
    assert sorted(chosen.tolist()) == list(range(7))


@pytest.mark.parametrize("name", NAMES)
def test_equal_images_are_chosen_once_each(name):
    chosen = select(name, torch.ones(12, 3), 5, source())
    assert len(set(chosen.tolist())) == len(chosen) == 5
    assert chosen.dtype == torch.int64


@pytest.mark.parametrize("name", NAMES)
def test_dead_features_are_no_trouble(name):
    features = some(8)
    features[3] = 0.0
    assert len(set(select(name, features, 8, source()).tolist())) == 8


def test_herding_stays_a_prefix_where_an_image_wins_late():
    """2,000 equal images and one other, which wins after a thousand turns: whether it does must not depend on
    how many are wanted."""
    features = torch.zeros(2001, 2)
    features[:2000, 0] = features[2000, 1] = 1.0
    whole = select("herding", features, 150, source()).tolist()
    assert select("herding", features, 50, source()).tolist() == whole[:50]


@pytest.mark.parametrize("values", [1, 400, 2**19], ids=["one by one", "some at a time", "all at once"])
def test_many_classes_at_once_are_herded_as_one_by_one(monkeypatch, values):
    """Of unequal sizes; one has fewer images than wanted."""
    monkeypatch.setattr(batched, "VALUES", values)
    classes = [some(30, 1), some(4, 2), some(17, 3), some(31, 4)]
    together = selected("herding", classes, 12, source())
    for order, features in zip(together, classes, strict=True):
        wanted, mean, chosen = normalize(features.double()), normalize(features.double()).mean(dim=0), []
        moved = torch.zeros(6).double()
        for turn in range(1, 400):  # the definition, a turn at a time
            best = int(((mean * turn - moved) @ wanted.T).argmax())
            moved = moved + wanted[best]
            chosen.append(best)
        first = list(dict.fromkeys(chosen))[:12]
        assert order.tolist()[: len(first)] == first
        assert len(set(order.tolist())) == len(order) == min(12, len(features))
