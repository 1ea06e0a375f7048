"""Nothing is written or deleted through a link in a run or model directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dytox import ContinualLearner
from dytox.errors import UserError
from dytox.experiments.train import resume
from dytox.growing import plan, teaching
from dytox.report import record, run_page
from dytox.runs import files
from dytox.runs.checkpoints import Checkpoints
from dytox.runs.run_directory import MEMBERS, RunDirectory

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden" / "format-1"
IS_FILE = {".lock", "log.jsonl"}


@pytest.fixture(params=[True, False], ids=["descriptors", "paths"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With descriptors of folders, and as on systems that have none."""
    monkeypatch.setattr(files, "_DESCRIPTORS", request.param)


def linked(place: Path, victim: Path, *, file: bool) -> Callable[[], dict[str, bytes]]:
    """Put a link to somebody's file or folder in a place; the function says what is there now."""
    victim.mkdir()
    for name in ("mine.txt", "checkpoint-000-000-00000-0000000-00000000.safetensors", ".0.dytox-tmp"):
        (victim / name).write_text("mine")
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.is_dir():
        shutil.rmtree(place)
    place.symlink_to(victim / "mine.txt" if file else victim)
    return lambda: {path.name: path.read_bytes() for path in victim.iterdir()}


@pytest.mark.parametrize("member", MEMBERS)
def test_a_run_with_a_link_is_refused(member: str, tmp_path: Path) -> None:
    run = Path(shutil.copytree(GOLDEN / "runs" / "dytox", tmp_path / "run"))
    there = linked(run / member, tmp_path / "victim", file=member in IS_FILE)
    before = there()
    with pytest.raises(UserError, match=f"run/{member} is a symbolic link, and dytox does not write"):
        resume(run)
    assert there() == before


@pytest.mark.parametrize("member", [".lock", ".learning"])
@pytest.mark.parametrize("command", ["forget", "learn"])
def test_a_model_with_a_link_is_refused(member: str, command: str, tmp_path: Path) -> None:
    model = Path(shutil.copytree(GOLDEN / "lesson" / "model", tmp_path / "model"))
    there = linked(model / member, tmp_path / "victim", file=member in IS_FILE)
    before = there()
    saved = (model / "config.json").read_bytes()
    change = {
        "forget": lambda: teaching.forget(model, ["ant"]),
        "learn": lambda: teaching.teach(plan.make(model, GOLDEN / "lesson" / "spring")),
    }
    with pytest.raises(UserError, match=f"model/{member} is a symbolic link"):
        change[command]()
    assert there() == before
    assert (model / "config.json").read_bytes() == saved


@pytest.mark.usefixtures("either")
def test_saving_does_not_lock_through_a_link(tmp_path: Path) -> None:
    learner = ContinualLearner.load(GOLDEN / "models" / "dytox")
    (tmp_path / "model").mkdir()
    there = linked(tmp_path / "model" / ".lock", tmp_path / "victim", file=True)
    before = there()
    with pytest.raises(UserError, match="is a symbolic link"):
        learner.save(tmp_path / "model")
    assert there() == before


@pytest.mark.usefixtures("either")
def test_files_of_checkpoints_evaluations_plots_and_the_log(tmp_path: Path) -> None:
    """Also where a link appears after the run was locked."""
    run = RunDirectory(shutil.copytree(GOLDEN / "runs" / "dytox", tmp_path / "run"))
    checkpoint = run.checkpoints.newest()
    assert checkpoint is not None
    writes = {
        "checkpoints": lambda: run.checkpoints.save(checkpoint.position, checkpoint.tensors, {}),
        "evaluation": lambda: run.save_evaluation(0, checkpoint.tensors),
        "plots": lambda: run_page.save_plots(record.read_record(run.path), run.path / "plots"),
        "log.jsonl": lambda: run.log({"task": 0, "phase_index": 0, "epoch": 0}),
    }
    for member, write in writes.items():
        there = linked(run.path / member, tmp_path / f"victim-{member}", file=member in IS_FILE)
        before = there()
        with pytest.raises(UserError, match="is a symbolic link"):
            write()
        assert there() == before
        (run.path / member).unlink()


def test_removing_checkpoints_and_folders(tmp_path: Path) -> None:
    there = linked(tmp_path / "checkpoints", tmp_path / "victim", file=False)
    before = there()
    with pytest.raises(UserError, match="is a symbolic link"):
        Checkpoints(tmp_path / "checkpoints").clear()
    with pytest.raises(UserError, match="is a symbolic link"):
        files.remove_folder(tmp_path / "checkpoints")
    assert there() == before


@pytest.mark.usefixtures("either")
def test_a_file_that_is_replaced_replaces_the_link_alone(tmp_path: Path) -> None:
    there = linked(tmp_path / "report.html", tmp_path / "victim", file=True)
    before = there()
    files.write(tmp_path / "report.html", [b"page"])
    assert there() == before
    assert not (tmp_path / "report.html").is_symlink()


def test_a_directory_may_itself_be_a_link_that_the_user_made(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    run = RunDirectory(tmp_path / "run")
    with run.locked():
        run.log({"task": 0, "phase_index": 0, "epoch": 0})
    assert (tmp_path / "disk" / "log.jsonl").is_file()
