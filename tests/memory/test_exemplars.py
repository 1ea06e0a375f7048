"""The memory itself."""

from __future__ import annotations

import pytest
import torch

from dytox.data.exemplars import Exemplars
from dytox.data.samples import Samples


def numbered(labels: list[int], first: int = 0) -> Samples:
    """Samples whose pixels are their numbers."""
    images = torch.arange(first, first + len(labels), dtype=torch.uint8).view(-1, 1, 1, 1)
    return Samples(images.expand(-1, 3, 2, 2), torch.tensor(labels, dtype=torch.int64))


def numbers(memory: Exemplars) -> list[int]:
    return memory.samples.images[:, 0, 0, 0].tolist()


@pytest.fixture
def memory() -> Exemplars:
    """Two shares: images 0 to 4 in the first, 5 to 8 in the second."""
    return Exemplars.empty(2).extended(numbered([0, 0, 0, 1, 1]), 0).extended(numbered([0, 1, 0, 1], 5), 1)


def test_an_empty_memory():
    empty = Exemplars.empty(8)
    assert len(empty) == 0
    assert empty.samples.images.shape == (0, 3, 8, 8)
    assert len(empty.shrunk(3)) == 0


def test_extending_keeps_what_was_there(memory):
    assert numbers(memory) == list(range(9))
    assert memory.samples.labels.tolist() == [0, 0, 0, 1, 1, 0, 1, 0, 1]
    assert memory.shares.tolist() == [0] * 5 + [1] * 4
    more = memory.extended(numbered([2], 20), 1)
    assert numbers(more) == [*range(9), 20]
    assert len(memory) == 9


def test_shrinking_keeps_the_first_of_each_class_in_each_share(memory):
    assert numbers(memory.shrunk(2)) == [0, 1, 3, 4, 5, 6, 7, 8]
    small = memory.shrunk(1)
    assert numbers(small) == [0, 3, 5, 6]
    assert small.samples.labels.tolist() == [0, 1, 0, 1]
    assert small.shares.tolist() == [0, 0, 1, 1]
    assert len(memory.shrunk(0)) == 0
    assert numbers(memory) == list(range(9))


def test_shrinking_twice_is_shrinking_once(memory):
    assert numbers(memory.shrunk(2).shrunk(1)) == numbers(memory.shrunk(1))
    assert numbers(memory.shrunk(10)) == numbers(memory)


def test_through_plain_tensors(memory):
    tensors = memory.tensors()
    assert set(tensors) == {"images", "labels", "shares"}
    again = Exemplars.from_tensors(tensors)
    assert numbers(again) == numbers(memory)
    assert torch.equal(again.samples.labels, memory.samples.labels)
    assert torch.equal(again.shares, memory.shares)


def test_shares_that_have_no_image_in_common_do_not_overlap(memory):
    assert memory.overlap() == 0.0
    assert Exemplars.empty(2).overlap() == 0.0


def test_overlap_is_the_part_of_the_distinct_images_that_several_shares_hold():
    """Shares {0, 1} and {1, 2} and {1}: of three images one is in more than one share."""
    memory = Exemplars.empty(2).extended(numbered([0, 0]), 0)
    memory = memory.extended(numbered([0, 0], 1), 1).extended(numbered([0], 1), 2)
    assert memory.overlap() == pytest.approx(100 / 3)
    assert memory.extended(numbered([0], 0), 0).overlap() == pytest.approx(100 / 3)  # twice in one share
