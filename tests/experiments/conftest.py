"""Tiny runs: two or three tasks of two digits, a network and phases that take milliseconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dytox import recipes
from dytox.checking import merge
from dytox.config import Config
from dytox.methods import registry
from dytox.runs import model_directory
from dytox.runs.run_directory import RunDirectory

TINY: dict[str, Any] = {
    "data": {"test_share": 0.8},
    "scenario": {"classes": 6, "increment": 2},
    "model": {"patch_size": 4, "dim": 8, "heads": 2, "depth": 1, "drop_path": 0.2},
    "training": {"epochs": 2, "batch": 24, "lr": 5e-3, "schedule": {"warmup_epochs": 0}},
    "finetuning": {"epochs": 2, "batch": 10, "lr": 1e-3},
    "runtime": {"device": "cpu", "report": False},
}


@pytest.fixture(scope="session")
def tiny_run() -> Callable[..., Config]:
    """The config of a tiny run; memory 24 where the method may have one."""

    def config(method: str = "dytox", **over: Any) -> Config:
        memory = (
            {"memory": {"size": 24, "per_class": None}} if registry.find_method(method).uses_memory else {}
        )
        return recipes.compose("digits", method=method, values=merge(merge(TINY, memory), over))

    return config


@pytest.fixture(scope="session")
def result() -> Callable[[Path], dict[str, Any]]:
    """All that a run found out, times aside; tensors as bytes, so that equal means bit by bit."""

    def result(path: Path) -> dict[str, Any]:
        run = RunDirectory(path)
        model = model_directory.load(run.model)
        metrics = without(run.read_metrics(), "seconds")
        evaluations = {
            str(step["task"]): tensors(run.load_evaluation(step["task"])[0]) for step in metrics["steps"]
        }
        return {
            "metrics": metrics,
            "evaluations": evaluations,
            "weights": tensors(model.model),
            "memory": tensors(model.memory or {}),
            "description": model.description,
            "history": without(model.history, "seconds", "finished"),
            "log": without(run.log_lines(), "images_per_second"),
        }

    return result


def tensors(values: dict[str, torch.Tensor]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {
        name: (str(each.dtype), tuple(each.shape), each.contiguous().numpy().tobytes())
        for name, each in values.items()
    }


def without(value: Any, *keys: str) -> Any:
    """A nested value without these keys."""
    if isinstance(value, dict):
        return {key: without(each, *keys) for key, each in value.items() if key not in keys}
    if isinstance(value, list):
        return [without(each, *keys) for each in value]
    return json.loads(json.dumps(value))
