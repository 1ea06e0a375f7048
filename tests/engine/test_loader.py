"""Batches as a function of position, and of the processes that share them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dytox import DyTox
from dytox.config import AugmentConfig, PhaseConfig
from dytox.data.augment import Augmentation
from dytox.data.loader import Batch, Loader, epoch_order, split_batches
from dytox.data.samples import Samples
from dytox.engine.distributed import World
from dytox.randomness import Position

PLAIN = AugmentConfig(pad=0, flip=0.0, randaugment=None)
FULL = AugmentConfig()  # crop, flip, RandAugment
HERE = Position(task=1, phase=2, epoch=3, step=4)


def numbered(count: int) -> Samples:
    """Images that are their own number, in both senses: so a batch says which it has."""
    numbers = torch.arange(count)
    return Samples(numbers.to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 4, 4), numbers)


def noisy(count: int, size: int = 8) -> Samples:
    source = torch.Generator().manual_seed(count)
    images = torch.randint(0, 256, (count, 3, size, size), generator=source).to(torch.uint8)
    return Samples(images, torch.arange(count) % 5)


def loader(samples: Samples, *, augment=PLAIN, seed=0, mixup=0.0, rows=None, **phase) -> Loader:
    augmentation = Augmentation(augment, mean=[0.5] * 3, std=[0.5] * 3)
    rows = {} if rows is None else {"rows": rows}
    device = torch.device("cpu")
    config = PhaseConfig(**{"batch": 8, **phase})
    return Loader(samples, config, augmentation, seed=seed, mixup=mixup, device=device, **rows)


def model_draw(source: torch.Generator, batch: int) -> dict[str, torch.Tensor]:
    model = DyTox(image_size=8, dim=4, heads=1, depth=2, drop_path=0.5)
    model.expand(2)
    model.expand(2)
    return model.draw(source, batch)


def no_draw(source: torch.Generator, batch: int) -> dict[str, torch.Tensor]:
    return {}


def tensors(batch: Batch) -> dict[str, torch.Tensor]:
    named = {name: getattr(batch, name) for name in ("images", "labels", "partners", "shares")}
    return {**named, **batch.draws}


def equal(one: Batch, other: Batch) -> bool:
    mine, its = tensors(one), tensors(other)
    return mine.keys() == its.keys() and all(torch.equal(mine[name], its[name]) for name in mine)


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        (8, 4, [4, 4]),
        (9, 4, [4, 5]),  # a tail of less than half a batch joins
        (10, 4, [4, 4, 2]),  # half a batch stands
        (11, 4, [4, 4, 3]),
        (5, 4, [5]),
        (3, 4, [3]),
        (1, 4, [1]),  # there is none before it
        (12, 5, [5, 7]),
        (13, 5, [5, 5, 3]),
        (1000, 256, [256, 256, 256, 232]),
    ],
)
def test_the_tail_of_an_epoch(count, size, expected):
    parts = split_batches(torch.arange(count), size)
    assert [len(part) for part in parts] == expected
    assert torch.equal(torch.cat(parts), torch.arange(count))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 35, 64, 101])
def test_an_epoch_is_the_whole_dataset(count):
    this = loader(numbered(count))
    orders = []
    for epoch in range(2):
        position = replace(HERE, epoch=epoch)
        found = [
            this.batch(places, replace(position, step=step), "train", no_draw).labels
            for step, places in enumerate(this.epoch(position))
        ]
        orders.append(torch.cat(found))
        assert sorted(orders[-1].tolist()) == list(range(count))
    assert count < 7 or not torch.equal(*orders)


def test_repeats_cover_a_third():
    for count in (9, 30, 100):
        order = epoch_order(count, 3, torch.Generator().manual_seed(0))
        times = torch.bincount(order, minlength=count)
        assert len(order) == count
        assert (times > 0).sum() == -(-count // 3)
        assert (times == 3).sum() == count // 3


def test_repeats_reach_every_image_in_the_end():
    this = loader(numbered(30), repeats=3)
    seen = set()
    for epoch in range(30):
        seen |= set(torch.cat(this.epoch(Position(epoch=epoch))).tolist())
    assert seen == set(range(30))


def test_a_batch_is_permuted_after_repetition():
    this = loader(numbered(60), repeats=3, batch=30)
    places = this.epoch(HERE)[0]
    assert places.view(10, 3).eq(places.view(10, 3)[:, :1]).all()  # three of each in a row
    first, second = (this.batch(places, replace(HERE, step=step), "train", no_draw).labels for step in (0, 1))
    assert sorted(first.tolist()) == sorted(places.tolist())
    assert not torch.equal(first, places)
    assert not torch.equal(first, second)


def test_repeats_are_varied_each_on_its_own():
    this = loader(noisy(30), augment=FULL, repeats=3, batch=30)
    batch = this.batch(torch.zeros(30, dtype=torch.int64), HERE, "train", no_draw)
    assert len(torch.unique(batch.images.flatten(1), dim=0)) > 15


@pytest.mark.parametrize("mixup", [0.0, 0.8])
def test_the_same_position_gives_the_same_batch(mixup):
    first = loader(noisy(30), augment=FULL, mixup=mixup)
    second = loader(noisy(30), augment=FULL, mixup=mixup)
    torch.rand(5)
    first.batch(
        torch.arange(5), replace(HERE, step=9), "train", model_draw
    )  # what came before does not count
    assert all(
        torch.equal(one, other) for one, other in zip(first.epoch(HERE), second.epoch(HERE), strict=True)
    )
    places = first.epoch(HERE)[1]
    assert equal(
        first.batch(places, HERE, "train", model_draw), second.batch(places, HERE, "train", model_draw)
    )


@pytest.mark.parametrize("other", ["task", "phase", "epoch", "step", "seed"])
def test_another_position_gives_another_batch(other):
    samples, places = noisy(30), torch.arange(16)
    seed, there = (1, HERE) if other == "seed" else (0, replace(HERE, **{other: 7}))
    one = loader(samples, augment=FULL, mixup=0.8).batch(places, HERE, "train", model_draw)
    two = loader(samples, augment=FULL, mixup=0.8, seed=seed).batch(places, there, "train", model_draw)
    for name in ("images", "shares", "sab_keep", "tab_keep"):
        assert not torch.equal(tensors(one)[name], tensors(two)[name]), name
    orders = [torch.cat(loader(samples, seed=s).epoch(p)) for s, p in ((0, HERE), (seed, there))]
    assert torch.equal(*orders) == (other == "step")  # an epoch has one order, wherever it is taken up


def test_a_batch_names_its_phase():
    assert loader(noisy(4)).batch(torch.arange(4), HERE, "finetune", no_draw).phase == "finetune"


def test_images_are_normalised():
    batch = loader(numbered(3)).batch(torch.arange(3), HERE, "train", no_draw)
    torch.testing.assert_close(batch.images[:, 0, 0, 0], (torch.arange(3.0) / 255 - 0.5) / 0.5)
    assert torch.equal(batch.partners, batch.labels)
    assert (batch.shares == 1).all()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 23, 64])
def test_processes_share_a_batch_by_whole_pairs(count, size):
    rows = [World(rank, size).rows(count) for rank in range(size)]
    taken = [list(range(count))[each] for each in rows]
    assert [place for part in taken for place in part] == list(range(count))
    assert all(part[0] % 2 == 0 for part in taken if part)
    assert all(len(part) % 2 == 0 for part in taken[:-1])
    assert max(map(len, taken)) - min(map(len, taken)) <= 2


@pytest.mark.parametrize(
    "augment", [PLAIN, FULL, AugmentConfig(resized_crop=[0.3, 1.0])], ids=["plain", "full", "resized"]
)
@pytest.mark.parametrize("mixup", [0.0, 0.8], ids=["unmixed", "mixup"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_rows_of_all_processes_are_the_global_batch(size, mixup, augment):
    """Bit by bit, for even and odd batches, and for repeats."""
    for count, repeats in ((24, 1), (23, 1), (9, 1), (23, 3)):

        def batch(rows=None, count=count, repeats=repeats):
            this = loader(noisy(40), augment=augment, mixup=mixup, repeats=repeats, batch=count, rows=rows)
            return this.batch(this.epoch(HERE)[0], HERE, "train", model_draw)

        whole = tensors(batch())
        parts = [tensors(batch(World(rank, size).rows)) for rank in range(size)]
        assert len(whole["images"]) == count
        for name, tensor in whole.items():
            assert torch.equal(torch.cat([part[name] for part in parts]), tensor), (name, count, repeats)


@pytest.mark.parametrize("count", [2, 8, 9])
def test_mixup_mixes_neighbours(count):
    samples = noisy(count)
    plain = loader(samples).batch(torch.arange(count), HERE, "train", no_draw)
    mixed = loader(samples, mixup=0.8).batch(torch.arange(count), HERE, "train", no_draw)
    share = mixed.shares[0].item()
    assert 0 < share < 1
    assert (mixed.shares == share).all()  # one λ a batch
    for j in range(0, count - 1, 2):
        a, b = plain.images[j], plain.images[j + 1]
        torch.testing.assert_close(mixed.images[j], share * a + (1 - share) * b)
        torch.testing.assert_close(mixed.images[j + 1], share * b + (1 - share) * a)
        assert mixed.partners[j : j + 2].tolist() == plain.labels[j : j + 2].flip(0).tolist()
    assert torch.equal(mixed.labels, plain.labels)


def test_mixup_leaves_an_odd_last_row_as_it_is():
    samples = noisy(9)
    plain = loader(samples).batch(torch.arange(9), HERE, "train", no_draw)
    mixed = loader(samples, mixup=0.8).batch(torch.arange(9), HERE, "train", no_draw)
    torch.testing.assert_close(mixed.images[-1], plain.images[-1], atol=1e-6, rtol=0)
    torch.testing.assert_close(mixed.targets(5)[-1], plain.targets(5)[-1])


def test_mixup_draws_from_the_beta_distribution():
    this = loader(noisy(2, size=4), mixup=0.8)
    shares = [
        this.batch(torch.arange(2), Position(step=step), "train", no_draw).shares[0] for step in range(400)
    ]
    drawn = torch.stack(shares)
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.05)
    assert drawn.var().item() == pytest.approx(1 / (4 * (2 * 0.8 + 1)), abs=0.012)  # of Beta(0.8, 0.8)
