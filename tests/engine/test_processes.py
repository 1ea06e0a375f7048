"""One result on any number of processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from dytox import ContinualLearner

sys.path.insert(0, str(Path(__file__).parent))
import processes

TINY = [
    "scenario.classes=4",
    "data.test_share=0.7",
    "model.dim=16",
    "model.heads=2",
    "model.depth=1",
    "training.epochs=2",
    "training.schedule.warmup_epochs=1",
    "training.batch=44",
    "finetuning.epochs=1",
    "finetuning.batch=8",
    "memory.size=18",  # 9 a class, then 4: odd batches
]
EXACT = [*TINY, "runtime.precision=fp64", "augment.mixup=0.8", "model.drop_path=0.3"]
VARIANTS = {
    "mixup": EXACT,
    "repeats-looksam": [
        *EXACT,
        "training.repeats=3",
        "training.batch=50",
        "sam.rho=0.5",
        "sam.every=2",
        "sam.skip_first=false",
    ],
    "shares": [*EXACT, "memory.shares=2", "augment.flip=0.5"],
    "each": [*EXACT, "memory.shares=2", "memory.budget=each", "augment.flip=0.5"],
    "batchnorm-asam": [*EXACT, "--method=convnet:ConvReplay", "sam.rho=0.5", "sam.skip_first=false"],
    "fast": [
        *EXACT,
        "model.encoder=conv-tiny",
        "training.encoder={lr: 0.01}",
        "training.schedule={name: linear, per_step: true, warmup_epochs: 0, warmup_share: 0.2, min_lr: 0.0}",
        "training.first_epochs=1",
        "training.ema=0.9",
        "finetuning.cache_views=1",
        "augment.mixup=0.0",
        "evaluation.flip=true",
    ],
    "float": [*TINY, "augment.mixup=0.8", "model.drop_path=0.3"],
    "crowded": [*EXACT, "finetuning.batch=2"],
}
SIZES = (1, 2, 4)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[int, Path]:
    """A folder of runs for each number of processes."""
    folders = {}
    for size in SIZES:
        folders[size] = tmp_path_factory.mktemp(f"world-{size}")
        world = processes.start(size, VARIANTS, folders[size])
        while not world.join():
            pass
    return folders


def load(runs: dict[int, Path], size: int, name: str) -> ContinualLearner:
    return ContinualLearner.load(runs[size] / name / "model", method="convnet:ConvReplay")


def metrics(runs: dict[int, Path], size: int, name: str) -> dict:
    found = json.loads((runs[size] / name / "metrics.json").read_text())
    for step in [*found["steps"], found]:
        step.pop("seconds")
        step.pop("calibration_error", None)
    return found


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in ("float", "crowded")])
def test_weights_exemplars_and_metrics_agree(runs, name, size):
    one, many = load(runs, 1, name), load(runs, size, name)
    for key, weight in one.method.state_dict().items():
        torch.testing.assert_close(many.method.state_dict()[key], weight, atol=1e-9, rtol=0, msg=key)
    assert torch.equal(one.memory.samples.images, many.memory.samples.images)
    assert torch.equal(one.memory.samples.labels, many.memory.samples.labels)
    assert metrics(runs, 1, name) == metrics(runs, size, name)


@pytest.mark.parametrize("size", SIZES[1:])
def test_in_single_precision_logits_agree(runs, size):
    images = torch.randint(0, 256, (16, 3, 8, 8), dtype=torch.uint8)
    expected = load(runs, 1, "float").scores(images).logit()
    torch.testing.assert_close(load(runs, size, "float").scores(images).logit(), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("size", SIZES)
def test_shares_of_the_memory(runs, size):
    """Two different sets: together within the budget, or each of it."""
    split, each = load(runs, size, "shares").memory, load(runs, size, "each").memory
    assert len(split) == 4 * 2 * 2  # 18 over 4 classes: 4 a class, 2 in each share
    assert len(each) == 4 * 4 * 2
    first, second = (split.samples.images[split.shares == share] for share in (0, 1))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("size", SIZES)
def test_the_log_agrees(runs, size):
    lines = [
        [json.loads(line) for line in (runs[each] / "mixup" / "log.jsonl").read_text().splitlines()]
        for each in (1, size)
    ]
    assert len(lines[0]) == len(lines[1]) == 2 + 2 + 1
    for one, many in zip(*lines, strict=True):
        assert one["lr"] == many["lr"]
        assert many["losses"] == pytest.approx(one["losses"], abs=1e-9)


def test_more_processes_than_pairs_are_refused(runs):
    """A batch of 2 images is one pair: enough for one process alone."""
    assert (runs[1] / "crowded" / "metrics.json").exists()
    for size in SIZES[1:]:
        sentence = json.loads((runs[size] / "crowded.error").read_text())
        assert f"{size} processes are more than the pairs in a batch" in sentence
