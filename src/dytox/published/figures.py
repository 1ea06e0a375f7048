"""The figures printed in the paper and its erratum, as they were copied into `facts/paper_results.json`."""

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
CLASS_COUNTS = {"cifar100": 100, "imagenet100": 100, "imagenet1000": 1000}
PER_CLASS = 20  # exemplars per class at the end, in every setting of the paper
_SECTIONS = {  # of the JSON file -> the kind of memory; the fairest comparison first
    "baselines": "global",
    "erratum_global_memory": "global",
    "erratum_distributed_memory": "distributed",
    "original": "original",
    "rerun_plus_plusplus": "rerun",
}


@dataclass(frozen=True)
class PublishedResult:
    """One method's figures in one setting: accuracies in percent, parameters at the end in millions."""

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
    """Return the whole content of the file of published figures."""
    content: dict[str, Any] = json.loads(
        (files("dytox") / "facts" / "paper_results.json").read_text(encoding="utf-8")
    )
    return content


def step_counts(dataset: str) -> list[int]:
    """Return the numbers of steps in which the paper learns a dataset."""
    if dataset not in DATASETS:
        raise unknown("dataset of the paper", dataset, DATASETS)
    return [10, 20, 50] if dataset == "cifar100" else [10]


def rows(dataset: str, steps: int) -> list[PublishedResult]:
    """Return all results on a dataset in `steps` steps: bounds and baselines first, then DyTox by memory."""
    if steps not in step_counts(dataset):
        raise unknown(f"number of steps on {dataset}", steps, step_counts(dataset))
    found = []
    for section, memory in _SECTIONS.items():
        for method, figures in facts()[dataset].get(section, {}).items():
            own = figures.get(str(steps)) if dataset == "cifar100" else figures
            if own is not None:
                values = {key.removeprefix("top1_"): value for key, value in own.items()}
                found.append(PublishedResult(method, _memory(method, memory), **values))
    return found


def _memory(method: str, memory: str) -> str:
    return "all" if method.endswith(" joint") else memory
