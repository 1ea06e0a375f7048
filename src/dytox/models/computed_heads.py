"""Classifiers that are computed from the moments of the classes' features, in closed form: pure functions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, normalize

PENALTIES = tuple(10 ** (step / 4) for step in range(21))  # 1 to 100,000, four for each power of 10


class Linear(NamedTuple):
    """A linear classifier: logits = features @ weight.T + bias."""

    weight: Tensor  # (classes, dim)
    bias: Tensor  # (classes,)

    def logits(self, features: Tensor) -> Tensor:
        """Of features (n, dim): (n, classes)."""
        return linear(features, self.weight, self.bias)


def transformed(features: Tensor, power: float) -> Tensor:
    """sign(x) |x|^power (Tukey's ladder), each vector then scaled to the length √dim."""
    bent = features if power == 1 else features.sign() * features.abs().pow(power)
    return normalize(bent) * features.shape[1] ** 0.5


def nearest_mean(means: Tensor) -> Linear:
    """The cosine with the mean of each class, for features of length √dim."""
    weight = normalize(means) / means.shape[1] ** 0.5
    return Linear(weight, weight.new_zeros(len(weight)))


def ridge(
    counts: Tensor, means: Tensor, scatter: Tensor, penalty: float | None = None
) -> tuple[Linear, float]:
    """Ridge regression of the one-hot labels on the features, with an intercept; and the penalty.

    Without a `penalty` it is the one of PENALTIES with the least error by generalised cross-validation
    (Golub, Heath and Wahba, 1979): each image held out in turn, which needs no more than the sums.
    """
    images, classes = counts.sum(), len(counts)
    share, centre = counts / images, counts @ means / images  # (classes,), (dim,)
    apart = means - centre
    total = scatter + (apart * counts[:, None]).T @ apart  # Σ (x - centre)(x - centre)ᵀ
    cross = apart * counts[:, None]  # (classes, dim): Σ y (x - centre)ᵀ, the labels centred too
    values, vectors = torch.linalg.eigh(total)
    values = values.clamp_min(0)
    along = cross @ vectors  # (classes, dim), along each direction
    labels = images - (counts * share).sum()  # Σ of the squares of the centred labels

    def error(tried: float) -> float:
        fitted = along.square() / (values + tried)
        residual = labels - 2 * fitted.sum() + (fitted * values / (values + tried)).sum()
        freedom = images - 1 - (values / (values + tried)).sum()
        return float(images * residual / freedom.clamp_min(1e-9).square())

    if penalty is None:
        penalty = min(PENALTIES, key=error) if classes > 1 and images > classes else 1.0
    weight = (along / (values + penalty)) @ vectors.T
    return Linear(weight, share - weight @ centre), penalty


def discriminant(counts: Tensor, means: Tensor, scatter: Tensor, shrinkage: float | None) -> Linear:
    """Linear discriminant analysis: log-likelihoods under one covariance for all classes, no prior.

    The covariance is drawn towards a multiple of the identity, by the share `shrinkage`; without one, by the
    oracle approximating share (Chen, Wiesel, Eldar and Hero, 2010), which comes from the sums too.
    """
    images = float(counts.sum())
    covariance = scatter / max(1.0, images)
    variance = covariance.diagonal().mean().clamp_min(1e-12)
    if shrinkage is None:
        shrinkage = oracle_shrinkage(covariance, images)
    drawn = (1 - shrinkage) * covariance
    drawn.diagonal().add_(shrinkage * variance)
    centre = means.mean(dim=0)  # what all classes have in common is left out, for the sake of float32
    weight = torch.linalg.solve(drawn, (means - centre).T).T
    return Linear(weight, -(weight * (means + centre)).sum(dim=1) / 2)


def oracle_shrinkage(covariance: Tensor, images: float) -> float:
    """The share of the identity that is nearest to the best one, for normally distributed features."""
    dim = covariance.shape[0]
    squares, square = float(covariance.square().sum()), float(covariance.trace().square())
    spread = (images + 1 - 2 / dim) * (squares - square / dim)
    wanted = (1 - 2 / dim) * squares + square
    return min(1.0, wanted / spread) if spread > 0 else 1.0


class Mahalanobis(NamedTuple):
    """Squared distances from the means, each class by the inverse of its own correlation matrix."""

    means: Tensor  # (classes, dim)
    scales: Tensor  # (classes, dim): the deviation of each feature, over √δ
    rows: Tensor  # (classes, rows, dim): what the covariance takes off; classes with fewer rows have zeros

    def logits(self, features: Tensor) -> Tensor:
        """Minus the squared distance over dim, of features (n, dim): (n, classes)."""
        found = []
        for mean, scale, rows in zip(self.means, self.scales, self.rows, strict=True):
            apart = (features - mean) * scale
            taken = (apart @ rows.T).square().sum(dim=1)
            found.append((taken - apart.square().sum(dim=1)) / features.shape[1])
        return torch.stack(found, dim=1)


def mahalanobis(
    counts: Tensor, means: Tensor, factors: list[Tensor], *, diagonal: float, off_diagonal: float
) -> Mahalanobis:
    """FeCAM's distances: each class's covariance, shrunk, normalised to a correlation matrix and inverted.

    Shrunk is Σ + diagonal · v₁ I + off_diagonal · v₂ (1 - I) with the mean v₁ of the diagonal and v₂ of the
    rest (0 if it is negative). That is δ I + UᵀU with few rows U, which Woodbury's identity inverts.
    """
    dim, found = means.shape[1], []
    overall = torch.cat(factors).square().sum() / dim / (counts - 1).clamp_min(1).sum()
    for count, factor in zip(counts.tolist(), factors, strict=True):
        rows = factor / max(1.0, count - 1) ** 0.5  # Σ = rowsᵀ rows
        mean_variance = rows.square().sum() / dim if len(rows) else overall  # one image has no variance
        sums = rows.sum(dim=1)
        covariance = ((sums.square().sum() - rows.square().sum()) / (dim * (dim - 1))).clamp_min(0)
        shared = off_diagonal * covariance
        base = (diagonal * mean_variance - shared).clamp_min(1e-12)  # δ
        spread = torch.cat([rows, shared.sqrt() * rows.new_ones(1, dim)])  # U
        deviations = (base + spread.square().sum(dim=0)).sqrt()
        inner = base * torch.eye(len(spread), dtype=spread.dtype) + spread @ spread.T
        taken = torch.linalg.solve_triangular(torch.linalg.cholesky(inner), spread, upper=False)
        found.append((deviations / base.sqrt(), taken))
    most = max(len(taken) for _, taken in found)
    rows = torch.stack([torch.cat([each, each.new_zeros(most - len(each), dim)]) for _, each in found])
    return Mahalanobis(means, torch.stack([scale for scale, _ in found]), rows)
