"""Run directories made up for tests, written by the same code as real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from dytox import metrics, recipes
from dytox.config import Config
from dytox.methods import registry
from dytox.randomness import Position
from dytox.runs import files
from dytox.runs.run_directory import RunDirectory

SIDE = 4  # patches of an attention map, each way


def make_run(
    path: Path,
    *,
    recipe: str = "digits",
    method: str = "dytox",
    overrides: list[str] | None = None,
    tasks: int = 5,
    classes: int = 10,
    epochs: int = 6,
    names: list[str] | None = None,
    image_size: int = 8,
    better: float = 0.0,
    killed: bool = False,
    nan: bool = False,
    tokens: bool = True,
) -> Path:
    """A run that learned so many tasks of equal size; `killed`: in the middle of the task after."""
    config = registry.complete(recipes.compose(recipe, method=method, overrides=overrides or []))
    run = RunDirectory(path)
    run.create(config)
    chance = torch.Generator().manual_seed(config.seed + len(method))
    log(run, tasks + killed, epochs, nan=nan, chance=chance)
    if killed:
        run.checkpoints.save(Position(tasks, 1, epochs), {"weight": torch.zeros(2)}, {"sums": {}})
    if tasks:
        measure(run, config, tasks, classes // tasks, better, chance)
        evaluation = introspection(tasks, classes, image_size, chance, tokens=tokens)
        run.save_evaluation(tasks - 1, evaluation)
        files.make_folder(run.model)
        labels = names or [f"class {number}" for number in range(classes)]
        files.write_json(run.model / "config.json", {"classes": labels})
    return path


def log(run: RunDirectory, tasks: int, epochs: int, *, nan: bool, chance: torch.Generator) -> None:
    lines: list[dict[str, Any]] = []
    for task in range(tasks):
        for phase_index, phase in [(1, "train"), (4, "finetune")][: 2 if task else 1]:
            for epoch in range(epochs):
                loss = 0.7 / (1 + epoch) + 0.02 * float(torch.rand((), generator=chance))
                losses = {"clf": loss, "total": loss}
                if task and phase == "train":
                    losses = {"clf": loss, "kd": loss / 40, "div": loss * 1.5, "total": loss * 0.6}
                if nan and epoch == epochs // 2:
                    losses["total"] = float("nan")
                place = {"task": task, "phase": phase, "phase_index": phase_index, "epoch": epoch}
                lines.append(
                    {**place, "losses": losses, "lr": 1e-3 / (1 + epoch), "images_per_second": 250.0}
                )
    text = b"".join(files.to_json(files.finite(line)) + b"\n" for line in lines)
    files.write(run.path / "log.jsonl", [text])


def measure(
    run: RunDirectory, config: Config, tasks: int, new: int, better: float, chance: torch.Generator
) -> None:
    steps, matrix = [], []
    for task in range(tasks):
        ages = range(task, -1, -1)
        noise = torch.rand(task + 1, generator=chance).tolist()
        row = [max(1.0, 88 + better - 9 * age**0.7 - 4 * each) for age, each in zip(ages, noise, strict=True)]
        matrix.append(row)
        seen = (task + 1) * new
        top5 = None if seen < 6 else min(100.0, sum(row) / len(row) + 15)
        steps.append(
            metrics.Step(
                task, seen, sum(row) / len(row), top5, 85.0, 6.5, 10_723_216 + 1_152 * task, 40, 12.5
            )
        )
    summary = metrics.summary(
        method=config.method.name,
        dataset=config.data.dataset,
        seed=config.seed,
        order=config.scenario.order,
        steps=steps,
        accuracy_matrix=matrix,
    )
    run.write_metrics(summary)


def introspection(
    tasks: int, classes: int, image_size: int, chance: torch.Generator, *, tokens: bool
) -> dict[str, torch.Tensor]:
    shown = 8
    labels = torch.linspace(0, classes - 1, shown).long()
    targets = torch.arange(classes).repeat_interleave(2)
    confusion = 20 * torch.eye(classes, dtype=torch.int64)
    confusion += torch.randint(0, 4, (classes, classes), generator=chance)
    found = {
        "targets": targets,
        "top_classes": torch.randint(0, classes, (len(targets), min(5, classes)), generator=chance),
        "confusion": confusion,
        "images": torch.randint(0, 256, (shown, 3, image_size, image_size), generator=chance).to(torch.uint8),
        "image_labels": labels,
        "image_places": labels * 2,
    }
    if tokens:
        vectors = torch.randn(tasks, 16, generator=chance)
        attention = torch.rand(shown, tasks, SIDE * SIDE, generator=chance) ** 3
        found["token_distances"] = torch.cdist(vectors, vectors)
        found["attention"] = attention / attention.sum(-1, keepdim=True)
    return found
