"""Write golden directories with the code as it is now: models, cut-off runs and a cut-off lesson.

Usage: python tools/golden.py tests/fixtures/golden/NAME, once for every change of a saved format
(CONTRIBUTING.md).
`tests/test_golden.py` then predicts with every model, learns on and resumes. Beside each directory stands
what the
code that wrote it made of it: images and confidences for a model, the final metrics and scores for a run.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

from dytox import ContinualLearner, recipes
from dytox.engine.observer import Interrupted, Observer
from dytox.experiments.train import resume, train
from dytox.experiments.watchers import Watcher
from dytox.growing import plan, teaching
from dytox.models.pretrained import VisionTransformer

SIZE, EACH = 8, 10
NAMES = ["ant", "bee", "cat", "dog", "elk", "fox"]
TRANSFORMER = {"patch_size": 4, "dim": 12, "heads": 3, "depth": 1, "drop_path": 0.2}
TINY: dict[str, Any] = {
    "data": {"image_size": SIZE},
    "training": {
        "epochs": 2,
        "batch": 16,
        "schedule": {"name": "constant", "warmup_epochs": 0, "milestones": []},
    },
    "finetuning": {"epochs": 1, "batch": 8, "schedule": {"name": "constant", "milestones": []}},
    "runtime": {"device": "cpu"},
}
MODELS: dict[
    str, tuple[str, dict[str, Any], list[str]]
] = {  # method, its values, classes forgotten at the end
    "dytox": ("dytox", {}, []),
    "dytox-forgot": ("dytox", {}, ["ant", "dog", "elk", "fox"]),  # one of the first task, all of the second
    "dytox-per-task-forgot": ("dytox", {"model": {"decoder": "tab-per-task"}}, ["ant", "cat", "bee"]),
    "dytox-adapters": ("dytox", {"model": {"decoder": "adapters"}}, []),
    "dytox-film-forgot": ("dytox", {"model": {"decoder": "film"}}, ["bee"]),
    "dytox-one-head-forgot": (
        "dytox",
        {"method": {"independent_heads": False}},
        ["bee", "dog", "elk", "fox"],
    ),
    "dytox-hybrid": ("dytox-hybrid", {}, []),
    "replay-forgot": ("replay", {}, ["cat"]),
    "finetune": ("finetune", {}, []),
    "icarl-forgot": ("icarl", {}, ["bee"]),
    "wa-forgot": ("wa", {}, ["ant", "elk"]),
    "ucir-forgot": ("ucir", {}, ["fox"]),
    "podnet-forgot": ("podnet", {}, ["fox", "ant"]),
    "bic-forgot": ("bic", {"method": {"correction": {"epochs": 2}}}, ["dog", "elk", "fox"]),
    "e2e": ("e2e", {}, []),
    "der-forgot": ("der", {}, ["bee"]),
    "der-pruned": ("der-pruned", {}, []),
    "simple_der": ("simple_der", {"method": {"recovery_epochs": 1}}, []),
    "rpsnet-forgot": ("rpsnet", {}, ["cat"]),
}
RUNS: dict[str, tuple[str, dict[str, Any], int]] = {  # method, its values, updates after which it is cut off
    "dytox": ("dytox", {}, 10),
    "dytox-looksam": ("dytox-plus-plus", {"sam": {"every": 2, "rho": 0.1}}, 10),
    "wa": ("wa", {}, 10),
    "bic": ("bic", {"method": {"correction": {"epochs": 2}}}, 13),
    "finetune-finished-task": ("finetune", {}, 12),
}


class Cut(Watcher):
    """Stops after so many updates."""

    def __init__(self, updates: int) -> None:
        self.left = updates

    def step_ended(self, lesson: Any, total: Tensor) -> None:
        self.left -= 1

    def stop_wanted(self) -> bool:
        return self.left <= 0


def pictures(first: int, last: int) -> tuple[Tensor, list[str]]:
    """A pattern for each class, with noise."""
    images = []
    for label in range(first, last):
        source = torch.Generator().manual_seed(label)
        pattern = torch.randint(0, 256, (1, 3, 2, 2), generator=source).repeat_interleave(SIZE // 2, 2)
        noise = torch.randint(-40, 41, (EACH, 3, SIZE, SIZE), generator=source)
        images.append((pattern.repeat_interleave(SIZE // 2, 3) + noise).clamp(0, 255).to(torch.uint8))
    return torch.cat(images), [NAMES[label] for label in range(first, last) for _ in range(EACH)]


def values_of(method: str, values: dict[str, Any]) -> dict[str, Any]:
    from dytox.checking import merge

    config = recipes.compose("digits", method=method)
    model = TRANSFORMER if config.model.decoder != "pool" else {}
    memory = {"memory": {"size": 24, "per_class": None}} if config.memory.size else {}
    return merge(merge(merge(TINY, {"model": model}), memory), values)


def expected(learner: ContinualLearner, folder: Path) -> None:
    """The images of all classes, and the confidences in each."""
    images, _ = pictures(0, len(NAMES))
    found = torch.from_numpy(learner.predict_proba(images))
    save_file({"images": images, "confidences": found}, folder.parent / f"{folder.name}.safetensors")


def write_models(root: Path) -> None:
    for name, (method, values, forgotten) in MODELS.items():
        learner = ContinualLearner.create("digits", method=method, config=values_of(method, values))
        for first, last in ((0, 3), (3, 6)):
            learner.learn(*pictures(first, last), held_out=0.2)
        if forgotten:
            learner.forget(*forgotten)
        learner.save(root / name)
        expected(learner, root / name)
    torch.manual_seed(0)
    vit = VisionTransformer(image_size=SIZE, patch_size=4, dim=12, heads=4, depth=1, mlp_ratio=2.0)
    save_file(vit.state_dict(), root / "vit.safetensors")
    values = values_of("dytox", {})
    values["model"] = {"heads": 4, "drop_path": 0.0}
    learner = ContinualLearner.create("digits", config=values, encoder=root / "vit.safetensors")
    (root / "vit.safetensors").unlink()
    for first, last in ((0, 3), (3, 6)):
        learner.learn(*pictures(first, last))
    learner.save(root / "dytox-vit")
    expected(learner, root / "dytox-vit")


def write_runs(root: Path) -> None:
    for name, (method, values, updates) in RUNS.items():
        small = {"data": {"test_share": 0.9}, "scenario": {"classes": 6, "increment": 2}}
        config = recipes.compose("digits", method=method, values={**values_of(method, values), **small})
        try:
            train(config, root / name, Cut(updates))
        except Interrupted:
            pass
        else:
            raise SystemExit(f"{name} was not cut off")
        whole = root / "whole"
        shutil.copytree(root / name, whole)
        resume(whole, Watcher())
        shutil.copy(whole / "metrics.json", root / f"{name}.metrics.json")
        shutil.copy(max((whole / "evaluation").iterdir()), root / f"{name}.safetensors")
        shutil.rmtree(whole)
        for unneeded in (*(root / name).glob("report.html"), root / name / ".lock"):
            unneeded.unlink(missing_ok=True)


def write_lesson(root: Path) -> None:
    """A model of three classes, cut off while it learned three more from a folder."""
    for part, classes in (("photos", (0, 3)), ("spring", (3, 6))):
        for place, (image, name) in enumerate(zip(*pictures(*classes), strict=True)):
            path = root / part / name / f"{place:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    overrides = [
        *("data.image_size=8", "model.patch_size=4", "model.dim=12", "model.heads=3", "model.depth=1"),
        *("training.epochs=2", "training.batch=16", "training.schedule.name=constant", "memory.size=24"),
        *(
            "training.schedule.warmup_epochs=0",
            "finetuning.epochs=1",
            "finetuning.batch=8",
            "runtime.device=cpu",
        ),
    ]
    teaching.teach(
        plan.make(root / "model", root / "photos", method="dytox", encoder="none", overrides=overrides),
        Observer(),
    )
    try:
        teaching.teach(plan.make(root / "model", root / "spring"), Cut(4))
    except Interrupted:
        pass
    else:
        raise SystemExit("the lesson was not cut off")
    whole = root / "whole"
    shutil.copytree(root / "model", whole)
    teaching.teach(plan.make(whole, root / "spring"), Observer())
    expected(ContinualLearner.load(whole), root / "model")
    shutil.rmtree(whole)
    (root / "model" / ".lock").unlink(missing_ok=True)


def main(root: Path) -> None:
    if root.exists():
        raise SystemExit(f"{root} is there already: a golden directory is never written again.")
    for part, write in (("models", write_models), ("runs", write_runs), ("lesson", write_lesson)):
        (root / part).mkdir(parents=True)
        write(root / part)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
