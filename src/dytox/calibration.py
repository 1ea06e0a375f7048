"""Calibrated confidences, and the threshold below which a prediction is rejected: pure functions.

The scores of a method are between 0 and 1 for each class: a distribution (softmax), independent probabilities
(sigmoid), or another quantity by which the method predicts. One number, the temperature, turns them into
confidences; it is chosen on images that were not used for training.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LEAST = 1e-30  # the lower bound of scores
WIDEST = math.log(20)  # the temperature is between 1/20 and 20


def confidences(scores: Tensor, temperature: float) -> Tensor:
    """p = softmax(log(scores) / T), (n, classes): each row sums to 1 and keeps the order of the scores.

    For softmax scores this is temperature scaling of the logits (Guo 2017).
    """
    return (scores.clamp_min(LEAST).log() / temperature).softmax(dim=1)


def temperature(scores: Tensor, labels: Tensor) -> float:
    """The temperature T that minimises -Σ log p of the correct classes.

    As in Platt scaling, each target gives 1/(n + 2) to the other classes, so that a few images that are all
    classified correctly do not lead to unlimited confidence.
    """
    classes = scores.shape[1]
    if not len(labels) or classes < 2:
        return 1.0
    share = 1 / (len(labels) + 2)
    targets = torch.full((len(labels), classes), share / (classes - 1), dtype=torch.float64)
    targets[torch.arange(len(labels)), labels] = 1 - share

    def loss(log_temperature: float) -> float:
        found = confidences(scores.double(), math.exp(log_temperature))
        return -float((targets * found.clamp_min(LEAST).log()).sum())

    low, high = -WIDEST, WIDEST
    while high - low > 1e-4:  # the loss is convex in 1 / T, so it has one minimum
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return math.exp((low + high) / 2)


def threshold(confidence: Tensor, right: Tensor, error_rate: float) -> float:
    """The lowest confidence above which at most `error_rate` of the answers are wrong; ∞ if there is none."""
    best = math.inf
    order = confidence.argsort(descending=True)
    errors = (~right[order]).cumsum(0).tolist()
    sorted_confidence = confidence[order].tolist()
    for count, (errors_so_far, value) in enumerate(zip(errors, sorted_confidence, strict=True), start=1):
        last_of_equals = count == len(errors) or sorted_confidence[count] < value
        if last_of_equals and errors_so_far <= error_rate * count:
            best = value
    return best
