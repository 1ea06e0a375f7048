"""The metrics of continual learning: pure functions, each with its definition; accuracies in percent.

`a[i][j]` is the accuracy on the test images of task j after task i was learned, over all classes seen by
then. The matrix is ragged: row i has i + 1 entries. T is the number of tasks learned so far.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from dytox.errors import UserError

FORMAT = 1

Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Step:
    """What was measured after one task, on the test images of all classes seen."""

    task: int  # counted from 0
    classes_seen: int
    top1: float
    top5: float | None  # None below 6 classes, where it would be trivial
    task_aware_top1: float
    calibration_error: float
    parameters: int
    memory_images: int
    seconds: float


def percent(hits: Tensor) -> float:
    """Return the share of true values, in percent."""
    return 100 * int(hits.sum()) / len(hits)


def top_k(scores: Tensor, labels: Tensor, k: int) -> float:
    """100/n · Σ_i [fewer than k classes stand ahead of label i]; of equal scores the lower class is ahead."""
    _refuse_empty(labels)
    own = scores.gather(1, labels[:, None])  # (n, 1)
    classes = torch.arange(scores.shape[1], device=scores.device)
    # NaN is behind nothing: a label without a score is a miss.
    not_ahead = (scores < own) | ((scores == own) & (classes >= labels[:, None]))  # (n, C)
    hits = not_ahead.sum(1) > scores.shape[1] - k
    return percent(hits)


def task_aware(scores: Tensor, labels: Tensor, boundaries: Sequence[int]) -> float:
    """100/n · Σ_i [label i = argmax of scores i over its own task's classes]: top-1 with the task told.

    Task t has the classes boundaries[t-1] … boundaries[t] - 1.
    """
    assert boundaries[-1] == scores.shape[1], (boundaries, scores.shape)
    ends = torch.tensor(boundaries, device=scores.device)
    task_of = torch.bucketize(torch.arange(scores.shape[1], device=scores.device), ends, right=True)  # (C,)
    others = task_of[None] != task_of[labels][:, None]  # (n, C)
    return top_k(scores.masked_fill(others, -math.inf), labels, 1)


def calibration_error(confidence: Tensor, correct: Tensor, bins: int = 15) -> float:
    """100 · Σ_b |B_b|/n · |acc(B_b) - conf(B_b)| over the equal bins B_b = (b/bins, (b+1)/bins] (Guo 2017).

    acc is the share of the bin that is correct, conf its mean confidence; confidence 0 is in the first bin.
    """
    _refuse_empty(confidence)
    confidence = confidence.double()
    inner = torch.arange(1, bins, dtype=torch.float64, device=confidence.device) / bins
    bin_of = torch.bucketize(confidence, inner)
    gaps = torch.zeros(bins, dtype=torch.float64, device=confidence.device)
    gaps.index_add_(0, bin_of, correct.double() - confidence)  # |B_b| · (acc - conf)
    return 100 * float(gaps.abs().sum()) / len(confidence)


def confusion(predictions: Tensor, labels: Tensor, classes: int) -> Tensor:
    """C[i][j] = number of images of class i that were taken for class j, (classes, classes)."""
    pairs = torch.bincount(labels * classes + predictions, minlength=classes * classes)
    return pairs.reshape(classes, classes)


def forgetting_per_task(matrix: Matrix) -> list[float]:
    """f_j = max over l = j … T-2 of a[l][j], minus a[T-1][j], for j < T-1 (Chaudhry 2018)."""
    _check(matrix)
    tasks = len(matrix)
    return [
        max(matrix[row][task] for row in range(task, tasks - 1)) - matrix[-1][task]
        for task in range(tasks - 1)
    ]


def forgetting(matrix: Matrix) -> float | None:
    """F = 1/(T-1) · Σ_{j<T-1} f_j; None with one task. Below 0: old tasks became better."""
    return average(forgetting_per_task(matrix))


def backward_transfer(matrix: Matrix) -> float | None:
    """BWT = 1/(T-1) · Σ_{j<T-1} (a[T-1][j] - a[j][j]); None with one task (Lopez-Paz 2017)."""
    _check(matrix)
    return average([matrix[-1][task] - matrix[task][task] for task in range(len(matrix) - 1)])


def average(values: Sequence[float | None]) -> float | None:
    """Mean of the values that are not None, or None; over the top-1 of all steps it is iCaRL's Avg."""
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if there else None


def mean_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation √(Σ (x - mean)² / (n-1)); the latter is None for a single value."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def summary(
    *,
    method: str,
    dataset: str,
    seed: int,
    order: int | Sequence[int] | str,
    steps: Sequence[Step],
    accuracy_matrix: Matrix,
    flipped: bool = False,
) -> dict[str, Any]:
    """Return the content of `metrics.json`; NaN and infinity become None.

    `flipped` says that the scores of an image and of its mirror image were averaged (`evaluation.flip`).
    """
    assert len(accuracy_matrix) == len(steps), (len(accuracy_matrix), len(steps))
    last = steps[-1] if steps else None
    content = {
        "format": FORMAT,
        "method": method,
        "dataset": dataset,
        "seed": seed,
        "order": order,
        "flipped": flipped,
        "steps": [asdict(step) for step in steps],
        "accuracy_matrix": accuracy_matrix,
        "avg_top1": average([step.top1 for step in steps]),
        "last_top1": last and last.top1,
        "avg_top5": average([step.top5 for step in steps]),
        "last_top5": last and last.top5,
        "forgetting": forgetting(accuracy_matrix),
        "forgetting_per_task": forgetting_per_task(accuracy_matrix),
        "backward_transfer": backward_transfer(accuracy_matrix),
        "seconds": math.fsum(step.seconds for step in steps),
    }
    return {key: _without_nan(value) for key, value in content.items()}


def _refuse_empty(values: Tensor) -> None:
    if not len(values):
        raise UserError("There are no test images to measure on: every task needs at least one.")


def _check(matrix: Matrix) -> None:
    lengths = [len(row) for row in matrix]
    assert lengths == list(range(1, len(matrix) + 1)), f"row i must have i + 1 entries, not {lengths}"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
