"""Every figure against numbers worked out by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from dytox import metrics
from dytox.errors import UserError
from dytox.metrics import Step

SCORES = torch.tensor(
    [
        [0.9, 0.1, 0.0, 0.3],  # ranking 0 3 1 2
        [0.2, 0.1, 0.7, 0.6],  # ranking 2 3 0 1
        [0.5, 0.4, 0.3, 0.2],  # ranking 0 1 2 3
        [0.1, 0.2, 0.3, 0.4],  # ranking 3 2 1 0
    ]
)
LABELS = torch.tensor([0, 3, 2, 0])  # at places 1, 2, 3, 4 of the rankings

# After task 0: 90. After task 1: 60, 80. After task 2: 70, 50, 85.
MATRIX = [[90.0], [60.0, 80.0], [70.0, 50.0, 85.0]]


@pytest.mark.parametrize(("k", "percent"), [(1, 25.0), (2, 50.0), (3, 75.0), (4, 100.0), (5, 100.0)])
def test_top_k_counts_the_labels_among_the_first_k(k: int, percent: float) -> None:
    assert metrics.top_k(SCORES, LABELS, k) == percent


def test_top_1_is_what_argmax_says_also_with_equal_scores() -> None:
    scores = torch.randint(0, 3, (200, 7), generator=torch.Generator().manual_seed(0)).float()
    labels = torch.randint(0, 7, (200,), generator=torch.Generator().manual_seed(1))
    argmax = 100 * int((scores.argmax(1) == labels).sum()) / 200
    assert metrics.top_k(scores, labels, 1) == argmax


def test_equal_scores_do_not_make_a_hit() -> None:
    # All four scores equal: the lower class is ahead, label 0 is first, 0 and 1 are the first two.
    scores, labels = torch.zeros(4, 4), torch.arange(4)
    assert metrics.top_k(scores, labels, 1) == 25.0
    assert metrics.top_k(scores, labels, 2) == 50.0


def test_a_score_that_is_no_number_is_a_miss() -> None:
    scores = torch.tensor([[math.nan, 1.0], [math.nan, math.nan], [0.0, math.nan], [2.0, 1.0]])
    assert metrics.top_k(scores, torch.tensor([0, 1, 0, 0]), 1) == 25.0


def test_task_aware_looks_only_at_the_classes_of_the_image_s_task() -> None:
    # Tasks {0, 1} and {2, 3}. Row 0, label 0: .9 > .1, hit. Row 1, label 3: .6 < .7, miss.
    # Row 2, label 2: .3 > .2, hit. Row 3, label 0: .1 < .2, miss.
    assert metrics.task_aware(SCORES, LABELS, [2, 4]) == 50.0
    # Tasks {0}, {1, 2}, {3}: alone in its task a class always wins; row 2, label 2: .3 < .4, miss.
    assert metrics.task_aware(SCORES, LABELS, [1, 3, 4]) == 75.0
    # One task: plain top-1.
    assert metrics.task_aware(SCORES, LABELS, [4]) == 25.0


def test_calibration_error_by_hand() -> None:
    # 5 bins of width 0.2. (0, .2]: .1 wrong -> 1 · |0 - .1| = .1
    # (.2, .4]: none. (.4, .6]: .5 right, .6 wrong -> |1 - 1.1| = .1
    # (.8, 1]: .9 right, 1. right -> |2 - 1.9| = .1. Sum .3, of 5 images: 6 %.
    confidence = torch.tensor([0.1, 0.5, 0.6, 0.9, 1.0], dtype=torch.float64)
    correct = torch.tensor([False, True, False, True, True])
    assert metrics.calibration_error(confidence, correct, bins=5) == pytest.approx(6.0)
    # In one bin the gaps cancel: |3 - 3.1| / 5 = 2 %.
    assert metrics.calibration_error(confidence, correct, bins=1) == pytest.approx(2.0)


def test_calibration_bins_are_closed_on_the_right_and_the_first_has_zero() -> None:
    # 2 bins: 0 and .5 in the first: |1 - .5| = .5; .75 in the second: |0 - .75| = .75. 1.25 / 3 = 41.67 %.
    confidence = torch.tensor([0.0, 0.5, 0.75])
    correct = torch.tensor([0, 1, 0])
    assert metrics.calibration_error(confidence, correct, bins=2) == pytest.approx(125 / 3)


def test_nothing_to_measure_on_is_the_user_s_to_mend() -> None:
    with pytest.raises(UserError, match="no test images"):
        metrics.top_k(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), 1)
    with pytest.raises(UserError, match="no test images"):
        metrics.calibration_error(torch.zeros(0), torch.zeros(0))


def test_confusion_has_labels_as_rows() -> None:
    predictions, labels = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 0, 2, 0])
    assert metrics.confusion(predictions, labels, 3).tolist() == [[2, 1, 0], [0, 0, 0], [0, 1, 0]]


def test_forgetting_by_hand() -> None:
    # Task 0: best before the end max(90, 60) = 90, at the end 70: 20. Task 1: 80 - 50 = 30. Mean 25.
    assert metrics.forgetting_per_task(MATRIX) == [20.0, 30.0]
    assert metrics.forgetting(MATRIX) == 25.0
    # After two tasks: 90 - 60 = 30.
    assert metrics.forgetting(MATRIX[:2]) == 30.0
    assert metrics.forgetting(MATRIX[:1]) is None
    assert metrics.forgetting_per_task(MATRIX[:1]) == []


def test_forgetting_takes_the_best_of_the_middle_and_may_be_negative() -> None:
    # Task 0: max(50, 60) - 65 = -5. The last row itself is not among those of the maximum.
    assert metrics.forgetting_per_task([[50.0], [60.0, 10.0], [65.0, 10.0, 99.0]]) == [-5.0, 0.0]


def test_backward_transfer_by_hand() -> None:
    # Task 0: 70 - 90 = -20. Task 1: 50 - 80 = -30. Mean -25.
    assert metrics.backward_transfer(MATRIX) == -25.0
    # Unlike forgetting it compares with the first time: task 0: 65 - 50 = 15, task 1: 0. Mean 7.5.
    assert metrics.backward_transfer([[50.0], [60.0, 10.0], [65.0, 10.0, 99.0]]) == 7.5
    assert metrics.backward_transfer(MATRIX[:1]) is None


def test_a_matrix_of_another_shape_is_refused() -> None:
    with pytest.raises(AssertionError, match="i \\+ 1 entries"):
        metrics.forgetting([[90.0, 0.0], [60.0, 80.0]])


def test_mean_and_sample_deviation() -> None:
    # Mean of 60, 62, 67 is 63; deviations -3, -1, 4: (9 + 1 + 16) / 2 = 13.
    mean, std = metrics.mean_std([60.0, 62.0, 67.0])
    assert (mean, std) == (63.0, pytest.approx(math.sqrt(13)))
    assert metrics.mean_std([60.0]) == (60.0, None)


def steps() -> list[Step]:
    first = Step(0, 4, 90.0, None, 90.0, 3.0, 1000, 20, 10.5)
    second = Step(1, 8, 70.0, 95.0, 85.0, 4.0, 1100, 20, 20.0)
    third = Step(2, 12, 68.0, 91.0, 80.0, 5.0, 1200, 20, 30.0)
    return [first, second, third]


def summarise(steps: list[Step], matrix: list[list[float]]) -> dict[str, object]:
    content = metrics.summary(
        method="dytox", dataset="digits", seed=1, order=[2, 0, 1], steps=steps, accuracy_matrix=matrix
    )
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    return content


def test_summary_holds_every_figure() -> None:
    content = summarise(steps(), MATRIX)
    assert content.pop("steps") == [
        {
            "task": task,
            "classes_seen": seen,
            "top1": top1,
            "top5": top5,
            "task_aware_top1": aware,
            "calibration_error": error,
            "parameters": parameters,
            "memory_images": 20,
            "seconds": seconds,
        }
        for task, seen, top1, top5, aware, error, parameters, seconds in [
            (0, 4, 90.0, None, 90.0, 3.0, 1000, 10.5),
            (1, 8, 70.0, 95.0, 85.0, 4.0, 1100, 20.0),
            (2, 12, 68.0, 91.0, 80.0, 5.0, 1200, 30.0),
        ]
    ]
    assert content == {
        "format": 1,
        "method": "dytox",
        "dataset": "digits",
        "seed": 1,
        "order": [2, 0, 1],
        "flipped": False,
        "accuracy_matrix": MATRIX,
        "avg_top1": 76.0,  # (90 + 70 + 68) / 3, the first step included
        "last_top1": 68.0,
        "avg_top5": 93.0,  # (95 + 91) / 2, of the steps that have one
        "last_top5": 91.0,
        "forgetting": 25.0,
        "forgetting_per_task": [20.0, 30.0],
        "backward_transfer": -25.0,
        "seconds": 60.5,
    }


def test_summary_after_one_task_and_before_any() -> None:
    content = summarise(steps()[:1], MATRIX[:1])
    assert (content["avg_top1"], content["last_top1"]) == (90.0, 90.0)
    for key in ("avg_top5", "last_top5", "forgetting", "backward_transfer"):
        assert content[key] is None
    assert content["forgetting_per_task"] == []
    assert summarise([], [])["last_top1"] is None


def test_summary_has_null_for_what_is_no_number() -> None:
    content = summarise([replace(steps()[0], calibration_error=math.nan, top1=math.inf)], [[math.nan]])
    assert content["steps"][0]["calibration_error"] is None  # type: ignore[index]
    assert content["accuracy_matrix"] == [[None]]
    assert content["avg_top1"] is None
