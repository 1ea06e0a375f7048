"""Classifiers in closed form, against the same computed from the images themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dytox.models import computed_heads as heads
from dytox.models.moments import Moments

CLASSES, DIM = 3, 5


def images(count: int = 60) -> tuple[Tensor, Tensor, Moments]:
    source = torch.Generator().manual_seed(1)
    labels = torch.arange(count) % CLASSES
    features = torch.randn(count, DIM, generator=source).double() + 1.5 * labels[:, None]
    moments = Moments(DIM)
    moments.expand(CLASSES)
    moments.add(features, labels)
    return features, labels, moments


def test_tukeys_transform_keeps_the_sign_and_gives_vectors_of_length_root_dim() -> None:
    found = heads.transformed(torch.tensor([[4.0, -9.0, 0.0, 0.0]]), 0.5)
    torch.testing.assert_close(found, torch.tensor([[2.0, -3.0, 0.0, 0.0]]) * 2 / 13**0.5)


def test_nearest_mean_gives_the_cosine_with_each_mean() -> None:
    means = torch.tensor([[3.0, 0.0], [0.0, 2.0]])
    features = heads.transformed(torch.tensor([[1.0, 1.0], [5.0, 0.0]]), 1.0)
    found = heads.nearest_mean(means).logits(features)
    torch.testing.assert_close(found, torch.tensor([[0.5**0.5, 0.5**0.5], [1.0, 0.0]]))


def test_ridge_is_the_regression_of_one_hot_labels_with_an_intercept_that_is_not_penalised() -> None:
    features, labels, moments = images()
    head, penalty = heads.ridge(moments.counts, moments.means, moments.scatter, 7.0)
    x, y = features.numpy(), one_hot(labels).double().numpy()
    centred = x - x.mean(axis=0)
    weight = np.linalg.solve(centred.T @ centred + 7.0 * np.eye(DIM), centred.T @ (y - y.mean(axis=0)))
    wanted = (x - x.mean(axis=0)) @ weight + y.mean(axis=0)
    assert penalty == 7.0
    np.testing.assert_allclose(head.logits(features).numpy(), wanted, atol=1e-12)


def test_the_penalty_has_the_least_error_by_generalised_cross_validation() -> None:
    features, labels, moments = images()
    x = features - features.mean(dim=0)
    y = one_hot(labels).double() - one_hot(labels).double().mean(dim=0)

    def error(penalty: float) -> float:
        hat = x @ torch.linalg.solve(x.T @ x + penalty * torch.eye(DIM), x.T)
        return float((y - hat @ y).square().sum() / (len(x) - 1 - hat.trace()) ** 2)

    _, penalty = heads.ridge(moments.counts, moments.means, moments.scatter)
    assert penalty == min(heads.PENALTIES, key=error)


def test_discriminants_differ_by_the_log_ratio_of_two_gaussians() -> None:
    features, _, moments = images()
    head = heads.discriminant(moments.counts, moments.means, moments.scatter, 0.2)
    covariance = moments.scatter / 60
    drawn = 0.8 * covariance + 0.2 * covariance.trace() / DIM * torch.eye(DIM)
    densities = [torch.distributions.MultivariateNormal(mean, drawn) for mean in moments.means]
    log_likelihood = torch.stack([each.log_prob(features) for each in densities], dim=1)
    found = head.logits(features)
    torch.testing.assert_close(found - found[:, :1], log_likelihood - log_likelihood[:, :1])


def test_oracle_shrinkage_by_hand() -> None:
    covariance = torch.diag(
        torch.tensor([3.0, 1.0], dtype=torch.float64)
    )  # Σ² has trace 10, (trace Σ)² is 16
    assert heads.oracle_shrinkage(covariance, 9) == pytest.approx((0 * 10 + 16) / (9 * (10 - 8)))
    assert heads.oracle_shrinkage(torch.eye(2), 9) == 1.0


def test_mahalanobis_is_the_inverse_of_the_shrunk_correlation_matrix() -> None:
    source = torch.Generator().manual_seed(2)
    common = torch.randn(60, 1, generator=source).double()  # features that vary together
    features, labels = torch.randn(60, DIM, generator=source).double() + common, torch.arange(60) % CLASSES
    moments = Moments(DIM)
    moments.expand(CLASSES)
    moments.add(features, labels)
    head = heads.mahalanobis(moments.counts, moments.means, moments.factors, diagonal=2.0, off_diagonal=1.5)
    eye = torch.eye(DIM, dtype=torch.float64)
    for label in range(CLASSES):
        sigma = torch.cov(features[labels == label].T)
        off = (sigma.sum() - sigma.trace()) / (DIM * (DIM - 1))
        assert off > 0
        shrunk = sigma + 2.0 * sigma.diagonal().mean() * eye + 1.5 * off * (1 - eye)
        deviation = shrunk.diagonal().sqrt()
        apart = features - moments.means[label]
        precision = torch.linalg.inv(shrunk / deviation[:, None] / deviation)
        wanted = -((apart @ precision) * apart).sum(dim=1) / DIM
        torch.testing.assert_close(head.logits(features)[:, label], wanted)


def test_one_image_of_a_class_is_enough_for_every_head() -> None:
    moments = Moments(DIM)
    moments.expand(2)
    features = torch.tensor([[9.0, 0, 0, 0, 0], [0, 8.0, 0, 0, 0], [0, 9.0, 1.0, 0, 0]], dtype=torch.float64)
    moments.add(features, torch.tensor([0, 1, 1]))
    sums = moments.counts, moments.means, moments.scatter
    near = torch.stack([*moments.means])
    solved = [
        heads.nearest_mean(moments.means),
        heads.ridge(*sums)[0],
        heads.discriminant(*sums, None),
        heads.mahalanobis(*sums[:2], moments.factors, diagonal=1.0, off_diagonal=1.0),
    ]
    for head in solved:
        assert head.logits(near).argmax(dim=1).tolist() == [0, 1]
