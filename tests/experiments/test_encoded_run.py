"""A whole run on images that stay files: resumed, and with the files' bytes in the model directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from dytox import ContinualLearner, recipes
from dytox.checking import merge
from dytox.config import Config
from dytox.data import images
from dytox.engine.observer import Interrupted
from dytox.experiments.train import resume, train
from dytox.experiments.watchers import Watcher

TINY: dict[str, Any] = {
    "data": {"image_size": 8, "resize": 9},
    "scenario": {"classes": 4, "increment": 2},
    "memory": {"size": 8},
    "model": {"patch_size": 4, "dim": 8, "heads": 2, "depth": 1},
    "training": {"epochs": 2, "batch": 4, "lr": 5e-3, "schedule": {"warmup_epochs": 0, "min_lr": 0.0}},
    "finetuning": {"epochs": 1, "batch": 4},
    "runtime": {"device": "cpu", "report": False, "workers": 0},
}


def config(root: Path, **over: Any) -> Config:
    values = merge(merge(TINY, {"data": {"root": str(root)}}), over)
    return recipes.compose("imagenet100-10", values=values)


class Stopper(Watcher):
    """Wants to stop after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step_ended(self, lesson: Any, total: Any) -> None:
        self.left -= 1

    def stop_wanted(self) -> bool:
        return self.left <= 0


@pytest.fixture(scope="module")
def run(imagenet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoded") / "run"
    train(config(imagenet), path, Watcher())
    return path


def test_cut_off_and_resumed_with_workers_it_ends_the_same(
    imagenet: Path, run: Path, tmp_path: Path, result: Callable[[Path], dict[str, Any]]
) -> None:
    """In the second task, in the middle of an epoch: the memory comes from the checkpoint, as bytes."""
    cut = tmp_path / "cut"
    with pytest.raises(Interrupted):
        train(config(imagenet, runtime={"workers": 1}), cut, Stopper(8))  # 6 steps in the first task
    resume(cut, Watcher())
    found, expected = result(cut), result(run)
    for part in expected:
        if part != "description":  # it has the number of workers
            assert found[part] == expected[part], part


def test_the_model_directory_holds_the_bytes_and_predicts(imagenet: Path, run: Path) -> None:
    learner = ContinualLearner.load(run / "model")
    contents = {path.read_bytes(): path.parent.name for path in (imagenet / "train").glob("*/*")}
    kept = learner.memory.samples.contents()
    assert len(kept) == 8
    names = [learner.class_names[label] for label in learner.memory.samples.labels.tolist()]
    assert [contents[each] for each in kept] == names
    [memory] = (run / "model").glob("memory-*.safetensors")
    assert load_file(memory)["files"].numpy().tobytes() == b"".join(kept)
    paths = sorted((imagenet / "val").glob(f"{learner.class_names[0]}/*"))
    expected = [images.decode(path, 8, images.centre(8, 9)) for path in paths]
    found = learner.predict_proba([str(path) for path in paths])
    assert found.shape == (2, 4)
    for path, pixels, row in zip(paths, expected, found, strict=True):
        assert learner.predict_proba(pixels[None].numpy())[0] == pytest.approx(row), path


def test_with_shares_each_selects_by_its_own_crops(imagenet: Path, tmp_path: Path) -> None:
    train(config(imagenet, memory={"shares": 2}, training={"epochs": 1}), tmp_path / "run", Watcher())
    memory = ContinualLearner.load(tmp_path / "run" / "model").memory
    assert len(memory) == 8
    assert memory.shares.bincount().tolist() == [4, 4]


def test_a_hugging_face_dataset_becomes_a_scenario(imagenet: Path, run: Path, tmp_path: Path) -> None:
    """Four classes in a table on the disk, a fifth of each to test by; cut off and resumed."""
    hf = pytest.importorskip("datasets", reason="the extra `hub` is not installed")
    names = ContinualLearner.load(run / "model").class_names
    paths = [path for name in names for path in sorted((imagenet / "train" / name).iterdir())]
    values = {"image": list(map(str, paths)), "label": [names.index(path.parent.name) for path in paths]}
    features = hf.Features({"image": hf.Image(), "label": hf.ClassLabel(names=names)})
    hf.Dataset.from_dict(values, features=features).save_to_disk(tmp_path / "saved")
    chosen = config(
        tmp_path / "saved", data={"dataset": "huggingface"}, scenario={"order": 5}, runtime={"workers": 1}
    )
    with pytest.raises(Interrupted):
        train(chosen, tmp_path / "run", Stopper(8))
    metrics = resume(tmp_path / "run", Watcher())
    assert [step["classes_seen"] for step in metrics["steps"]] == [2, 4]
    learner = ContinualLearner.load(tmp_path / "run" / "model")
    assert sorted(learner.class_names) == sorted(names)
    assert set(learner.memory.samples.contents()) <= {path.read_bytes() for path in paths}
