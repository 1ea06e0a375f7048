"""Code of the user's own: methods and datasets in the current folder, and files that name code to run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dytox import ContinualLearner, importing
from dytox.errors import UserError
from dytox.experiments.train import Watcher, resume
from dytox.runs.run_directory import RunDirectory

METHOD = """\
import pathlib

from dytox.methods.replay import Replay

pathlib.Path("ran").touch()


class Mine(Replay):
    name = "mine"
    summary = "replay under another name"
"""
DATASET = """\
import numpy as np

from dytox.data.datasets import from_arrays


def load(data):
    shades = [20, 90, 160, 230]
    labels = np.arange(40) % 4
    noise = np.random.default_rng(0).integers(0, 20, (40, 8, 8))
    images = (np.array(shades)[labels][:, None, None] + noise).astype(np.uint8)
    names = ["black", "grey", "light", "white"]
    return from_arrays(images[:32], labels[:32], images[32:], labels[32:], names)


shades = 3
"""
Program = Callable[..., Any]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a method, a dataset, and a module that a library might import by mistake."""
    (tmp_path / "ownmethod.py").write_text(METHOD)
    (tmp_path / "ownshades.py").write_text(DATASET)
    (tmp_path / "opt_einsum_of_nobody.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("ownmethod", "ownshades", "ownpackage", "ownpackage.inside"):
        sys.modules.pop(name, None)


@pytest.fixture
def run(here: Path, dytox: Program, tiny: list[str]) -> Path:
    """A run of the user's own method and dataset, with its model."""
    done = dytox(
        "train", "digits", "-m", "ownmethod:Mine", "--dataset", "ownshades:load", *tiny, "--out", "r"
    )
    assert done.code == 0, done.err
    (here / "ran").unlink()
    for name in ("ownmethod", "ownshades"):
        del sys.modules[name]
    return here / "r"


def test_a_module_of_the_current_folder_is_found_and_nothing_else_there(here: Path) -> None:
    before = list(sys.path)
    assert importing.load("ownshades:shades", "It") == 3
    assert [each for each in sys.path if each] == [each for each in before if each]
    with pytest.raises(ModuleNotFoundError):
        importing.importlib.import_module("opt_einsum_of_nobody")


def test_a_package_of_the_current_folder(here: Path) -> None:
    (here / "ownpackage").mkdir()
    (here / "ownpackage" / "__init__.py").write_text("")
    (here / "ownpackage" / "inside.py").write_text("from . import __name__ as name\n")
    assert importing.load("ownpackage.inside:name", "It") == "ownpackage"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nowhere_at_all:Mine", "It cannot be loaded from nowhere_at_all:Mine: No module named"),
        ("ownshades:nothing", "It cannot be loaded from ownshades:nothing: module 'ownshades' has no"),
        ("../evil:Mine", "It is not of the form module:name."),
        (":Mine", "It is not of the form module:name."),
        ("ownshades:", "It is not of the form module:name."),
        (".ownshades:load", "It is not of the form module:name."),
    ],
)
def test_what_cannot_be_loaded_is_named(here: Path, place: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        importing.load(place, "It")
    assert words in str(error.value)


def test_a_module_that_fails_leaves_nothing_behind(here: Path) -> None:
    (here / "ownbroken.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(UserError, match="No module named 'nothing_of_this_name'"):
        importing.load("ownbroken:Mine", "It")
    assert "ownbroken" not in sys.modules


@pytest.mark.parametrize("name", ["digits", "hf:mnist", "hf:ylecun/mnist", "replay"])
def test_names_of_the_package_are_no_code(name: str) -> None:
    assert not importing.is_place(name)
    importing.confirm(name, (), where="A file", option="--method")


def test_a_dataset_of_ones_own(run: Path) -> None:
    config = RunDirectory(run).read_config()
    assert (config.data.dataset, config.method.name) == ("ownshades:load", "ownmethod:Mine")
    assert json.loads((run / "metrics.json").read_text())["dataset"] == "ownshades:load"
    learner = ContinualLearner.load(run / "model", method="ownmethod:Mine")
    assert learner.classes_ == ["black", "grey", "light", "white"]


def test_a_dataset_must_be_a_function_that_returns_a_dataset(here: Path, refused: Callable[..., str]) -> None:
    words = "The dataset ownshades:shades must be a function that returns a Dataset, as "
    assert words in refused("train", "digits", "--dataset", "ownshades:shades", "--out", "r")
    assert "cannot be loaded" in refused("show", "digits", "--dataset", "ownshades:lod")
    assert "Unknown dataset 'digit'" in refused("show", "digits", "--dataset", "digit")


def test_a_recipe_never_runs_code_by_itself(here: Path, refused: Callable[..., str], dytox: Program) -> None:
    (here / "evil.yaml").write_text("extends: digits\nconfig: {method: {name: 'ownmethod:Mine'}}\n")
    (here / "data.yaml").write_text("extends: digits\nconfig: {data: {dataset: 'ownmethod:Mine'}}\n")
    for command in ("show", "train"):
        said = refused(command, "evil.yaml")
        assert "recipe evil sets method.name to 'ownmethod:Mine': choose a method with --method" in said
        said = refused(command, "data.yaml")
        assert "asks to run code from ownmethod:Mine: if you trust it, add --dataset ownmethod:Mine." in said
    assert not (here / "ran").exists()
    assert dytox("show", "evil.yaml", "--method", "ownmethod:Mine").code == 0
    assert (here / "ran").exists()


def test_a_run_never_runs_code_by_itself(run: Path, refused: Callable[..., str], dytox: Program) -> None:
    told = ["--method", "ownmethod:Mine"]
    words = "The run r asks to run code from ownmethod:Mine: if you trust it, add --method ownmethod:Mine."
    assert refused("resume", "r") == words
    assert refused("resume", "r", "--method", "ownshades:load") == words
    assert refused("resume", "r", *told) == words.replace("ownmethod:Mine", "ownshades:load").replace(
        "--method", "--dataset"
    )
    with pytest.raises(UserError, match="asks to run code"):
        resume(run, Watcher())
    assert not (run.parent / "ran").exists()
    assert dytox("resume", "r", *told, "--dataset", "ownshades:load").code == 0


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "r/model", "photo.png"),
        ("evaluate", "r/model"),
        ("info", "r/model"),
        ("forget", "r/model", "grey"),
        ("export", "r/model", "--out", "model.pt2"),
        ("learn", "r/model", "photos"),
    ],
    ids=lambda command: command[0],
)
def test_a_model_never_runs_code_by_itself(
    run: Path, refused: Callable[..., str], command: list[str]
) -> None:
    folder = run.parent / "photos" / "dark"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"{number}.png").write_bytes(PNG)
    said = refused(*command)
    words = "it asks to run code from ownmethod:Mine: if you trust it, add --method ownmethod:Mine."
    assert said == f"The model in r/model cannot be used: {words}"
    assert not (run.parent / "ran").exists()


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc000"
    "000301010018dd8db00000000049454e44ae426082"
)
