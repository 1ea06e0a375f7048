"""What the user can mend: one sentence on standard error, exit code 2, never a traceback."""

from __future__ import annotations

import os
import pickle
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dytox.data.loader import Batch
from dytox.engine.moment import Moment
from dytox.engine.update import Update
from dytox.learner import ContinualLearner
from dytox.runs.run_directory import RunDirectory

Refused = Callable[..., str]
Program = Callable[..., Any]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with no network."""

    def no_network(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no network here")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(urllib.request, "urlopen", no_network)


def images(folder: Path, count: int = 3, size: int = 8) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        Image.new("RGB", (size, size), (number, 0, 0)).save(folder / f"{number}.png")


def cifar(root: Path, **changes: bytes) -> Path:
    """Four images of two classes in the published layout, with some files replaced."""
    folder = root / "cifar-100-python"
    folder.mkdir()
    labels = [0, 1, 0, 1]
    content = {b"data": np.zeros((4, 3072), np.uint8), b"fine_labels": labels, b"coarse_labels": labels}
    whole = {
        "train": pickle.dumps(content, 2),
        "test": pickle.dumps(content, 2),
        "meta": pickle.dumps({b"fine_label_names": [b"apple", b"bear"]}, 2),
    }
    for name, data in {**whole, **changes}.items():
        (folder / name).write_bytes(data)
    return folder


# Recipes and configs


def test_unknown_recipe(refused: Refused) -> None:
    assert refused("train", "digitz") == "Unknown recipe 'digitz': did you mean 'digits'?"
    assert refused("show", "digitz") == "Unknown recipe 'digitz': did you mean 'digits'?"


def test_unknown_method(refused: Refused) -> None:
    assert refused("train", "digits", "--method", "replya") == (
        "Unknown method 'replya': did you mean 'replay'?"
    )
    assert not list(Path().iterdir())


def test_unknown_key(refused: Refused) -> None:
    assert refused("train", "digits", "--set", "training.epoch=3") == (
        "Unknown config key 'training.epoch': did you mean 'training.epochs'?"
    )
    assert "'method.lamda'" in refused("train", "digits", "--set", "method.lamda=3")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("training.epochs=many", "Config key training.epochs should be a valid integer, not 'many'."),
        ("training.lr=-1", "Config key training.lr should be greater than 0, not -1."),
        ("training.lr=.nan", "Config key training.lr should be a finite number, not nan."),
        ("model.heads=5", "Impossible config: model.dim 64 is not a multiple of model.heads 5."),
        ("training.epochs", "--set 'training.epochs' is not of the form key=value"),
        ("training.epochs=[", "--set 'training.epochs=[': the value is not readable as YAML."),
        ("data.dataset=mnist", "Unknown dataset 'mnist': there is cifar100, digits, folder, "),
        ("runtime.device=abacus", "Config key runtime.device: there is no 'abacus' here"),
        ("data.image_size=9", "data.image_size 9 is not a multiple of model.patch_size 2"),
        ("scenario.increments=[5, 6]", "add up to 11 classes, but there are 10"),
    ],
)
def test_bad_values(refused: Refused, change: str, words: str) -> None:
    assert words in refused("train", "digits", "--set", change)
    assert not Path("runs").exists()


def test_bad_lists_of_numbers(refused: Refused) -> None:
    for option in ("--seeds", "--orders"):
        assert refused("train", "digits", option, "0,one") == (
            f"{option} '0,one' is not a list of numbers, as in {option} 0,1,2."
        )
        assert "names a number twice" in refused("train", "digits", option, "1,2,1")
        assert "is not a list of numbers" in refused("train", "digits", option, "")


def test_a_recipe_file_that_is_none(refused: Refused) -> None:
    assert refused("train", "mine.yaml") == "The recipe mine.yaml cannot be read: No such file or directory."
    Path("mine.yaml").write_text("scale: demo\n")
    assert "has no key 'config'" in refused("train", "mine.yaml")


def test_a_method_that_cannot_have_a_memory(refused: Refused) -> None:
    sentence = refused("train", "digits", "--method", "finetune", "--set", "memory.size=40")
    assert "finetune never has a memory, so memory.size must be 0, not 40" in sentence


# Data


def test_missing_data(refused: Refused, tmp_path: Path) -> None:
    assert "There is no folder" in refused("train", "cifar20-5-short", "--data", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    sentence = refused("train", "cifar20-5-short", "--data", tmp_path / "empty")
    assert "could not be fetched (no network here)" in sentence
    assert "--data" in sentence
    assert "needs a folder of images" in refused("train", "digits", "--set", "data.dataset=folder")


def test_truncated_cifar_file(refused: Refused, tmp_path: Path) -> None:
    folder = cifar(tmp_path)
    whole = (folder / "train").read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        (folder / "train").write_bytes(whole[:size])
        sentence = refused("train", "cifar20-5-short", "--data", tmp_path)
        assert f"{folder / 'train'} is not CIFAR-100 as published" in sentence


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("touch hacked",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_tries_to_run_code(refused: Refused, tmp_path: Path, protocol: int) -> None:
    folder = cifar(tmp_path, train=pickle.dumps({b"data": Evil(), b"fine_labels": [0]}, protocol))
    sentence = refused("train", "cifar20-5-short", "--data", tmp_path)
    assert f"{folder / 'train'} is not CIFAR-100 as published" in sentence
    assert not (tmp_path / "hacked").exists()


def test_an_empty_class_folder(refused: Refused, tmp_path: Path) -> None:
    images(tmp_path / "animals" / "ant")
    images(tmp_path / "animals" / "bee")
    (tmp_path / "animals" / "cat").mkdir()
    sentence = refused("train", "digits", "--set", "data.dataset=folder", "--data", tmp_path / "animals")
    assert sentence == f"{tmp_path / 'animals' / 'cat'}: a class folder without images."


def test_a_broken_image_is_named(refused: Refused, tmp_path: Path) -> None:
    images(tmp_path / "animals" / "ant")
    images(tmp_path / "animals" / "bee")
    broken = tmp_path / "animals" / "bee" / "1.png"
    broken.write_bytes(broken.read_bytes()[:40])
    sentence = refused("train", "digits", "--set", "data.dataset=folder", "--data", tmp_path / "animals")
    assert str(broken) in sentence


def test_one_class_only(refused: Refused, tmp_path: Path) -> None:
    images(tmp_path / "animals" / "ant")
    sentence = refused("train", "digits", "--set", "data.dataset=folder", "--data", tmp_path / "animals")
    assert "has one class only (ant): at least two are needed" in sentence
    assert "scenario.classes should be greater than 1" in refused(
        "train", "digits", "--set", "scenario.classes=1"
    )
    assert "one class" in refused("train", "digits", "--set", "scenario.increment=1")
    assert "needs two classes or more" in refused("train", "digits", "--set", "scenario.order=[3]")


def test_more_classes_than_the_dataset_has(refused: Refused) -> None:
    assert refused("train", "digits", "--set", "scenario.classes=11") == (
        "scenario.classes is 11, but there are only 10 classes."
    )
    assert "scenario.first is 20, but there are only 10" in refused(
        "train", "digits", "--set", "scenario.first=20"
    )
    assert "label 10" in refused("train", "digits", "--set", "scenario.order=[0, 10]")


def test_memory_smaller_than_the_number_of_classes(refused: Refused) -> None:
    assert refused("train", "digits", "--set", "memory.size=9") == (
        "memory.size 9 leaves no image for each of 10 classes: it must be at least 10, or 0 for no memory."
    )
    assert not Path("runs").exists()


# A loss that is no number


def test_a_loss_that_is_no_number_keeps_the_last_good_state(
    refused: Refused, tiny: list[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    options = [*tiny, "--set", "training.lr=1e30", "--set", "training.epochs=3", "--out", run]
    words = "The loss is NaN or infinite at step 2 of epoch 2 of phase 'train' of task 1: start a new run"
    assert words in refused("train", "digits", *options)
    for _ in range(2):  # the good state is there, and stays there
        checkpoint = RunDirectory(run).checkpoints.newest()
        assert checkpoint is not None
        assert (checkpoint.position.task, checkpoint.position.epoch) == (0, 1)
        weights = [each for name, each in checkpoint.tensors.items() if name.startswith("method.")]
        assert all(each.isfinite().all() for each in weights)
        assert weights[0].abs().max() < 10
        assert len(RunDirectory(run).log_lines()) == 1
        assert words in refused("resume", run)


def test_the_model_of_the_last_finished_task_survives(
    refused: Refused, tiny: list[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    sentence = refused("train", "digits", *tiny, "--set", "finetuning.lr=1e30", "--out", run)
    assert "at step 2 of epoch 1 of phase 'finetune' of task 2" in sentence
    assert "start a new run with a learning rate below 1e+30" in sentence
    learner = ContinualLearner.load(run / "model")
    assert learner.classes_ == ["0", "1"]
    scores = learner.predict_proba(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("method", ["dytox", "finetune"])
def test_weights_that_the_last_update_spoiled_are_noticed_too(
    refused: Refused, tiny: list[str], tmp_path: Path, method: str
) -> None:
    """One step in all: its loss is a number, and the model after it is not one."""
    options = ["training.lr=1e30", "training.epochs=1", "training.schedule.warmup_epochs=0"]
    options += ["training.batch=512", f"memory.size={24 if method == 'dytox' else 0}"]
    settings = [part for each in options for part in ("--set", each)]
    sentence = refused("train", "digits", "--method", method, *tiny, *settings, "--out", tmp_path / "run")
    assert "task 1" in sentence
    assert not (tmp_path / "run" / "metrics.json").exists()


# Too little memory on a GPU


def test_a_gpu_that_is_too_small_is_one_sentence_and_the_run_can_go_on(
    refused: Refused, dytox: Program, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(update: Update, batch: Batch, moment: Moment) -> dict[str, torch.Tensor]:
        if moment.position.task == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return step(update, batch, moment)

    step, run = Update.__call__, tmp_path / "run"
    with monkeypatch.context() as small:
        small.setattr(Update, "__call__", full)
        sentence = refused("train", "digits", *tiny, "--out", run)
    assert "The GPU's memory is not enough for phase 'train' of task 2;" in sentence
    assert "more processes" in sentence
    assert "a smaller training.batch" in sentence
    assert len(RunDirectory(run).read_metrics()["steps"]) == 1
    assert dytox("resume", run).code == 0
    assert len(RunDirectory(run).read_metrics()["steps"]) == 2


# Folders


def test_a_folder_that_holds_a_run_already(refused: Refused, tiny: list[str], dytox: Program) -> None:
    assert dytox("train", "digits", *tiny, "--out", "mine").code == 0
    before = Path("mine/metrics.json").read_bytes()
    sentence = refused("train", "digits", *tiny, "--out", "mine")
    assert sentence.startswith("mine already holds a run: continue it with `dytox resume")
    assert Path("mine/metrics.json").read_bytes() == before
    Path("mine").rename("seed-1")
    Path("many").mkdir()
    Path("seed-1").rename("many/seed-1")
    sentence = refused("train", "digits", *tiny, "--seeds", "0,1", "--out", "many")
    assert sentence.startswith("many/seed-1 holds a run of another config (seed 0, wanted 1)")
    assert not Path("many/seed-0").exists()  # refused before the first run, not after it


def test_a_folder_that_cannot_be_one(refused: Refused, tiny: list[str]) -> None:
    Path("file").write_text("")
    assert refused("train", "digits", *tiny, "--out", "file/run").startswith("Cannot write file/run")
    assert refused("train", "digits", *tiny, "--out", "file").startswith("Cannot write file")


def test_a_folder_that_is_no_run(refused: Refused, tmp_path: Path) -> None:
    for command in ("resume", "report"):
        assert refused(command, tmp_path) == (
            f"{tmp_path} is not a run directory: there is no config.yaml in it."
        )
        assert refused(command, "none") == "There is no folder none: name a run directory."
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_finished_task_cannot_be_compared(refused: Refused, tiny: list[str]) -> None:
    refused("train", "digits", *tiny, "--set", "training.lr=1e30", "--out", "run")
    assert refused("report", "run", "run", "--out", "table.csv") == (
        "The run run has not finished a task yet: `dytox resume run` continues it."
    )


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"format": 99, "steps": [1]}', '{"format": 1}'])
def test_metrics_that_are_none(refused: Refused, content: str) -> None:
    Path("run").mkdir()
    Path("run/metrics.json").write_text(content)
    assert refused("report", "run").startswith("run/metrics.json is ")


def test_names_with_brackets_and_colons_come_out_as_they_are(refused: Refused) -> None:
    assert refused("resume", "[bold]:smile:[/x") == (
        "There is no folder [bold]:smile:[/x: name a run directory."
    )


def test_wrong_usage_is_no_traceback_either(dytox: Program) -> None:
    for arguments in (["train"], ["trian", "digits"], ["train", "digits", "--sed", "a=1"], ["report"]):
        outcome = dytox(*arguments)
        assert outcome.code == 2
        assert "Usage: dytox" in outcome.err
        assert "Traceback" not in outcome.err
