"""`learn`, `predict`, `evaluate`, `info` and `forget`, as people and programs use them."""

from __future__ import annotations

import csv
import io
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dytox.data.samples import Samples
from dytox.learner import ContinualLearner, keeping

NAMES = ["ant", "bee", "cat", "dog", "[red]elk"]
SMALL = [
    *("data.image_size=8", "model.patch_size=4", "model.dim=12", "model.heads=3", "model.depth=1"),
    *("training.epochs=3", "training.batch=16", "training.lr=5e-3", "training.schedule.warmup_epochs=0"),
    *("finetuning.epochs=1", "memory.size=40", "augment.randaugment=null", "runtime.device=cpu"),
]
OPTIONS = ["--encoder", "none", *(part for change in SMALL for part in ("--set", change))]

Program = Callable[..., Any]
Photos = Callable[..., Path]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def photos(made: Callable[..., Samples]) -> Photos:
    """A folder of made images."""

    def photos(name: str, first: int, last: int, each: int = 10) -> Path:
        samples = made(first, last, each=each)
        for place, (image, label) in enumerate(zip(samples.images, samples.labels.tolist(), strict=True)):
            path = Path(name) / NAMES[label] / f"{place:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
        return Path(name)

    return photos


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test leaves a copy of its model and photos for the others."""
    return tmp_path_factory.mktemp("learned") / "all"


@pytest.fixture
def taught(dytox: Program, photos: Photos, learned: Path) -> Path:
    """A model of two tasks."""
    if learned.exists():
        shutil.copytree(learned, ".", dirs_exist_ok=True)
    else:
        assert dytox("learn", "model", photos("one", 0, 3), *OPTIONS).code == 0
        assert dytox("learn", "model", photos("two", 3, 5)).code == 0
        shutil.copytree(".", learned)
    return Path("model")


@pytest.mark.parametrize(
    "command", ["learn", "predict", "evaluate", "info", "forget", "export", "push", "pull"]
)
def test_every_command_explains_itself(dytox: Program, command: str) -> None:
    outcome = dytox(command, "--help")
    assert outcome.code == 0
    assert f"Usage: dytox {command}" in outcome.out
    assert f"Example: dytox {command}" in outcome.out
    assert f" {command} " in dytox("--help").out


def test_learn_says_what_it_does(dytox: Program, photos: Photos) -> None:
    first = dytox("learn", "model", photos("one", 0, 3), *OPTIONS)
    assert (first.code, first.err) == (0, "")
    assert "New model model: recipe own-images, method dytox, images of 8×8 pixels, 3 epochs" in first.out
    assert "3 new classes (ant, bee, cat), 24 images to learn from, 6 held out." in first.out
    assert "model knows 3 classes, with 24 images to rehearse and 6 to measure by." in first.out
    second = dytox("learn", "model", photos("two", 2, 5, each=15))
    assert "2 new classes ([red]elk, dog)" in second.out
    assert "Known already: cat; their images join the rehearsal." in second.out
    assert "10 images that the model has seen already, left out." in second.out
    assert "New model" not in second.out
    rows = [line.split() for line in second.out.splitlines() if "classes  " in line]
    assert [row[0] for row in rows] == ["known", "new", "all"]
    again = dytox("learn", "model", "two")
    assert again.code == 0
    assert "has learned these images: there is nothing left to do" in again.out
    more = dytox("learn", "model", photos("three", 0, 1, each=15))
    assert "Known already: ant; their images join the rehearsal, and the model is refreshed" in more.out


def test_a_dry_run_only_speaks(dytox: Program, photos: Photos) -> None:
    outcome = dytox("learn", "model", photos("one", 0, 3), *OPTIONS, "--dry-run")
    assert outcome.code == 0
    assert "; nothing was changed." in outcome.out
    assert not Path("model").exists()


def test_broken_images_make_it_three(dytox: Program, photos: Photos) -> None:
    folder = photos("one", 0, 3)
    (folder / "ant" / "broken.png").write_text("?")
    outcome = dytox("learn", "model", folder, *OPTIONS)
    assert outcome.code == 3
    assert outcome.err.startswith("Skipped: one/ant/broken.png is not an image")
    assert ContinualLearner.load("model").classes_ == NAMES[:3]
    outcome = dytox("predict", "model", "one")
    assert outcome.code == 3
    assert outcome.err.count("Skipped: ") == 1
    assert dytox("evaluate", "model", "one").code == 3


def test_ctrl_c_leaves_the_model_and_the_same_command_goes_on(
    dytox: Program, photos: Photos, taught: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree("two")
    folder = photos("two", 3, 4, each=30)
    before = {path.name: path.read_bytes() for path in taught.iterdir()}
    keep = keeping.Keeper.state_reached

    def interrupt(self: Any, *arguments: Any, stopping: bool) -> None:
        keep(self, *arguments, stopping=stopping)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(keeping.Keeper, "state_reached", interrupt)
        outcome = dytox("learn", "model", folder)
    assert outcome.code == 130
    assert "Stopped: model is as it was, and the same command continues." in outcome.out
    assert {path.name: path.read_bytes() for path in taught.iterdir() if path.is_file()} == before
    assert dytox("learn", "model", folder).code == 0
    assert not (taught / ".learning").exists()


def test_predict_as_a_table_json_and_csv(dytox: Program, taught: Path) -> None:
    images = ["one/ant/00.png", "two/[red]elk/10.png"]
    table = dytox("predict", "model", *images, "--top", "2").out.splitlines()
    assert table[0].split() == ["Image", "Class", "confidence", "Class", "2", "confidence"]
    assert [line.split()[0] for line in table[2:]] == images
    found = json.loads(dytox("predict", "model", *images, "--json", "--top", "9").out)
    assert [each["image"] for each in found] == images
    for each in found:
        assert each["class"] == each["top"][0]["class"]
        assert each["confidence"] == each["top"][0]["confidence"]
        assert {guess["class"] for guess in each["top"]} == set(NAMES)
    lines = list(csv.DictReader(io.StringIO(dytox("predict", "model", *images, "--csv", "--top", "2").out)))
    assert [line["image"] for line in lines] == images
    assert [line["class"] for line in lines] == [each["class"] for each in found]
    assert [line["class_2"] for line in lines] == [each["top"][1]["class"] for each in found]
    told = json.loads(dytox("predict", "model", "one", "--json", "--task", "2").out)
    assert {each["class"] for each in told} <= {"dog", "[red]elk"}
    assert len(told) == 30


def test_no_file_name_is_a_formula_in_csv(dytox: Program, taught: Path) -> None:
    shutil.copy("one/ant/00.png", "=HYPERLINK(A1).png")
    (line,) = csv.DictReader(io.StringIO(dytox("predict", "model", "=HYPERLINK(A1).png", "--csv").out))
    assert line["image"] == "'=HYPERLINK(A1).png"


def test_predict_may_reject(dytox: Program, taught: Path) -> None:
    found = json.loads(dytox("predict", "model", "one", "--json", "--reject", "--error-rate", "0").out)
    limit = ContinualLearner.load("model").threshold(0)
    for each in found:
        assert (each["class"] is None) == (each["confidence"] < limit)
    assert any(each["class"] is None for each in found)
    assert "unknown (perhaps " in dytox("predict", "model", "one", "--reject", "--error-rate", "0").out


def test_predict_and_evaluate_agree(dytox: Program, taught: Path) -> None:
    shutil.copytree("one", "both")
    shutil.copytree("two", "both", dirs_exist_ok=True)
    found = json.loads(dytox("predict", "model", "both", "--json").out)
    right = sum(each["class"] == Path(each["image"]).parent.name for each in found)
    measured = json.loads(dytox("evaluate", "model", "both", "--json").out)
    assert (measured["images"], measured["right"]) == (50, right)
    assert f"{2 * right:.1f} % of 50 images right" in dytox("evaluate", "model", "both").out
    held = json.loads(dytox("evaluate", "model", "--json").out)
    log = ContinualLearner.load("model").history[-1]["held_out"][-1]
    assert (held["images"], held["top1"]) == (log["images"], log["after"])


def test_evaluate_shows_classes_tasks_and_confusions(dytox: Program, taught: Path) -> None:
    text = dytox("evaluate", "model", "one").out
    for words in ("Class", "ant", "Task 1", "if told", "if the task is told"):
        assert words in text


def test_info_shows_what_there_is(dytox: Program, taught: Path) -> None:
    text = dytox("info", "model").out
    assert "model: 5 classes in 2 tasks, recipe own-images, method dytox, images of 8×8 pixels." in text
    assert "[red]elk, dog" in text
    assert "torch" in text
    found = json.loads(dytox("info", "model", "--json").out)
    assert [task["classes"] for task in found["tasks"]] == [NAMES[:3], ["[red]elk", "dog"]]


def test_forget_says_what_it_does_not_do(dytox: Program, taught: Path, refused: Callable[..., str]) -> None:
    outcome = dytox("forget", "model", "bee", "dog")
    assert outcome.code == 0
    assert "Removed bee, dog with 20 images; 3 classes left." in outcome.out
    assert "are not unlearned" in outcome.out
    assert ContinualLearner.load("model").classes_ == ["ant", "cat", "[red]elk"]
    assert "forgot 2 classes" in dytox("info", "model").out
    assert refused("forget", "model", "ants") == "Unknown class 'ants': did you mean 'ant'?"
    assert "Nothing would be left" in refused("forget", "model", "ant", "cat", "[red]elk")


def test_what_is_refused(dytox: Program, taught: Path, refused: Callable[..., str]) -> None:
    missing = refused("predict", "nowhere", "one")
    assert missing == "There is no folder nowhere: name a model directory."
    assert "--json and --csv are two forms" in refused("predict", "model", "one", "--json", "--csv")
    assert "There is no task 3" in refused("predict", "model", "one", "--task", "3")
    assert "There is no image file gone.png" in refused("predict", "model", "gone.png")
    assert "The error rate to accept" in refused("predict", "model", "one", "--reject", "--error-rate", "2")
    assert "There is no folder nowhere" in refused("learn", "model", "nowhere")
    assert "model is a model already" in refused("learn", "model", "one", "--recipe", "digits")
    assert "Unknown recipe 'digit'" in refused("learn", "other", "one", "--recipe", "digit")
    assert "Unknown config key" in refused("learn", "other", "one", "--set", "training.epoch=3")
    Path("foreign").mkdir()
    Path("foreign/config.json").write_text('{"hidden_size": 12}')
    assert "foreign/config.json does not belong to a dytox model" in refused("learn", "foreign", "one")


def test_a_model_that_cannot_be_used_is_one_sentence(
    dytox: Program, taught: Path, refused: Callable[..., str]
) -> None:
    content = (taught / "config.json").read_text()
    (taught / "config.json").write_text(content.replace('"format": ', '"format": 99'))
    for command in (["info"], ["predict", "one"], ["evaluate"], ["learn", "one"], ["forget", "ant"]):
        assert "in format 99" in refused(command[0], "model", *command[1:])
    (taught / "config.json").write_text(content[: len(content) // 2])
    assert "is damaged" in refused("info", "model")
    (taught / "config.json").write_text(content)
    next(taught.glob("model-*")).unlink()
    assert "is missing" in refused("info", "model")


def test_without_memory_it_predicts(dytox: Program, taught: Path, refused: Callable[..., str]) -> None:
    next(taught.glob("memory-*")).unlink()
    assert dytox("predict", "model", "one").code == 0
    assert dytox("info", "model").code == 0
    assert "has no memory" in refused("learn", "model", "one")


def test_export_writes_one_file(dytox: Program, taught: Path, refused: Callable[..., str]) -> None:
    outcome = dytox("export", "model", "--out", "model.pt2")
    assert outcome.code == 0
    assert "model.pt2: uint8 images (batch, 8, 8, 3) in, confidences (batch, 5) out" in outcome.out
    assert Path("model.pt2").stat().st_size > 1000
    assert "should end in .onnx" in refused("export", "model", "--out", "model.bin")


@pytest.mark.parametrize("replaced", [False, True])
def test_two_signals_while_the_model_is_saved_tell_the_truth(
    dytox: Program, photos: Photos, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    save = ContinualLearner.save

    def interrupted(self: ContinualLearner, path: Path) -> None:
        if replaced:
            save(self, path)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ContinualLearner, "save", interrupted)
    outcome = dytox("learn", "model", photos("first", 0, 2), *OPTIONS)
    assert outcome.code == 130
    assert Path("model/config.json").exists() == replaced
    words = "has learned these images, nothing is left to do" if replaced else "is as it was"
    assert f"Stopped: model {words}" in outcome.out
