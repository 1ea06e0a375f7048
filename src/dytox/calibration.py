"""From scores to confidences that keep their word, and when to say nothing: pure functions.

A method's scores are between 0 and 1 for each class: a distribution (softmax), a probability of its own for
each class (sigmoid), or whatever else the method predicts by. One number, the temperature, makes confidences
of them, and it is chosen on images that were not learned.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LEAST = 1e-30  # a score below counts as this
WIDEST = math.log(20)  # the temperature is between 1/20 and 20


def confidences(scores: Tensor, temperature: float) -> Tensor:
    """p = softmax(log(scores) / T), (n, classes): sums to 1, in the order of the scores.

    Of softmax scores that is temperature scaling of their logits (Guo 2017).
    """
    return (scores.clamp_min(LEAST).log() / temperature).softmax(dim=1)


def temperature(scores: Tensor, labels: Tensor) -> float:
    """The T with the least -Σ log p of the right classes.

    As Platt does, each target keeps 1/(n + 2) for the other classes: a few images that are all right
    do not make the confidences boundless.
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
    while high - low > 1e-4:  # convex in 1 / T, so it falls and then rises
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return math.exp((low + high) / 2)


def threshold(confidence: Tensor, right: Tensor, error_rate: float) -> float:
    """The lowest confidence from which on at most this share of the answers is wrong; ∞ if there is none."""
    best = math.inf
    order = confidence.argsort(descending=True)
    errors = (~right[order]).cumsum(0).tolist()
    sorted_confidence = confidence[order].tolist()
    for count, (errors_so_far, value) in enumerate(zip(errors, sorted_confidence, strict=True), start=1):
        last_of_equals = count == len(errors) or sorted_confidence[count] < value
        if last_of_equals and errors_so_far <= error_rate * count:
            best = value
    return best
