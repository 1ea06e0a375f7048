"""The sums that exemplar-free methods keep: equal in any order, exact when a class is forgotten."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dytox.models.moments import Moments, triangular


def some(images: int = 60, classes: int = 4, dim: int = 6) -> tuple[Tensor, Tensor]:
    """Features (images, dim) in float64 with a label each."""
    source = torch.Generator().manual_seed(0)
    labels = torch.arange(images) % classes
    return torch.randn(images, dim, generator=source).double() + labels[:, None], labels


def learned(features: Tensor, labels: Tensor, parts: list[Tensor], *, scatter: str = "own") -> Moments:
    """The moments after lessons of the images at these places."""
    moments = Moments(features.shape[1], scatter=scatter)
    moments.expand(int(labels.max()) + 1)
    for part in parts:
        moments.add(features[part], labels[part])
    return moments


@pytest.mark.parametrize("dim", [6, 40])  # fewer and more features than images of a class
@pytest.mark.parametrize("scatter", ["own", "shared"])
def test_counts_means_and_scatter_are_those_of_the_definition(dim: int, scatter: str) -> None:
    features, labels = some(dim=dim)
    moments = learned(features, labels, [torch.arange(60)], scatter=scatter)
    means = torch.stack([features[labels == label].mean(dim=0) for label in range(4)])
    apart = features - means[labels]
    assert moments.counts.tolist() == [15] * 4
    torch.testing.assert_close(moments.means, means)
    torch.testing.assert_close(moments.scatter, apart.T @ apart)


@pytest.mark.parametrize("scatter", ["own", "shared"])
def test_any_order_and_any_number_of_lessons_give_the_same_sums(scatter: str) -> None:
    features, labels = some()
    once = learned(features, labels, [torch.arange(60)], scatter=scatter)
    for steps in (3, 10):
        shuffled = torch.randperm(60, generator=torch.Generator().manual_seed(steps))
        several = learned(features, labels, list(shuffled.chunk(steps)), scatter=scatter)
        torch.testing.assert_close(several.means, once.means, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(several.scatter, once.scatter, rtol=1e-12, atol=1e-12)


def test_a_forgotten_class_leaves_the_sums_of_a_model_that_never_saw_it() -> None:
    features, labels = some()
    moments = learned(features, labels, [torch.arange(60)])
    moments.forget([1])
    other = labels != 1
    never = learned(features[other], torch.tensor([0, -1, 1, 2])[labels[other]], [torch.arange(45)])
    assert torch.equal(moments.counts, never.counts)
    assert torch.equal(moments.means, never.means)
    assert torch.equal(moments.scatter, never.scatter)


def test_a_factor_is_no_larger_than_the_images_or_the_features_need() -> None:
    features, labels = some(dim=40)
    moments = learned(features, labels, [torch.arange(60)])
    assert [factor.shape for factor in moments.factors] == [(14, 40)] * 4  # 15 centred images have rank 14
    assert triangular(torch.randn(100, 7).double()).shape == (7, 7)


def test_moments_stay_in_double_precision_and_are_loaded_as_they_were_saved() -> None:
    features, labels = some()
    moments = learned(features, labels, [torch.arange(60)])
    assert moments.float().means.dtype == torch.float64
    again = Moments(6)
    again.rebuild(moments.structure())
    again.load_state_dict(moments.state_dict())
    assert torch.equal(again.scatter, moments.scatter)
    with pytest.raises(ValueError, match="do not fit"):
        again.rebuild({"classes": 2, "rows": [1]})
