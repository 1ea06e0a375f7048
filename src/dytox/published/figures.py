"""The published results as rows: a method, in a setting, with a kind of memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dytox.errors import unknown

MEMORIES = {
    "all": "all images at once",
    "global": "one memory of the stated size",
    "distributed": "a memory of the stated size, split over the processes",
    "original": "first edition, up to N times the stated memory on N GPUs",
    "rerun": "the appendix's second run, of the first edition",
}
DATASETS = {"cifar100": "CIFAR-100", "imagenet100": "ImageNet-100", "imagenet1000": "ImageNet-1000"}
CLASSES = {"cifar100": 100, "imagenet100": 100, "imagenet1000": 1000}
JOINT_NOTE = (
    "ResNet18 joint is a new model at each step; its published Last varies with the steps, as an average "
    "over them does: compare it with Avg."
)
PER_CLASS = 20  # exemplars a class at the end, in every setting of the paper
_SECTIONS = {
    "baselines": "global",
    "erratum_global_memory": "global",
    "erratum_distributed_memory": "distributed",
    "original": "original",
    "rerun_plus_plusplus": "rerun",
}


@dataclass(frozen=True)
class Row:
    """One method's figures in one setting, in percent, and its parameters in millions at the end."""

    method: str
    memory: str  # a key of MEMORIES
    params_m: float | None = None
    avg: float | None = None
    last: float | None = None
    avg_std: float | None = None
    last_std: float | None = None
    top5_avg: float | None = None
    top5_last: float | None = None


@cache
def facts() -> dict[str, Any]:
    """Everything as it was copied from the paper."""
    content: dict[str, Any] = json.loads(
        (files("dytox") / "facts" / "paper_results.json").read_text(encoding="utf-8")
    )
    return content


def steps(dataset: str) -> list[int]:
    """In how many steps the paper learns a dataset."""
    if dataset not in DATASETS:
        raise unknown("dataset of the paper", dataset, DATASETS)
    return [10, 20, 50] if dataset == "cifar100" else [10]


def rows(dataset: str, number: int) -> list[Row]:
    """All rows of a dataset in so many steps: bounds and baselines first, then DyTox by memory."""
    if number not in steps(dataset):
        raise unknown(f"number of steps on {dataset}", number, steps(dataset))
    found = []
    for section, memory in _SECTIONS.items():
        for method, figures in facts()[dataset].get(section, {}).items():
            own = figures.get(str(number)) if dataset == "cifar100" else figures
            if own is not None:
                found.append(_row(method, "all" if method.endswith(" joint") else memory, own))
    return found


def _row(method: str, memory: str, figures: dict[str, float]) -> Row:
    named = {key.removeprefix("top1_"): value for key, value in figures.items()}
    return Row(method, memory, **named)
