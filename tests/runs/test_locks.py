"""One process works on a run, and a dead one holds nothing."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from dytox.config import Config
from dytox.errors import UserError
from dytox.learner import ContinualLearner
from dytox.runs import locks, model_directory
from dytox.runs.run_directory import RunDirectory

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden" / "format-1"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


def test_a_second_owner_is_refused_and_told_of_the_first(run: RunDirectory) -> None:
    owner = f"process {os.getpid()} on {platform.node()}"
    with run.locked(), pytest.raises(UserError, match=f"run is in use by {owner}: wait"), run.locked():
        pass
    with run.locked():
        pass


HOLDER = """
import os, sys, time
from filelock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
open(sys.argv[1], "w").write(f"{os.getpid()}\\nelsewhere\\n")
print("held", flush=True)
time.sleep(60)
"""


def test_a_dead_owner_holds_nothing(run: RunDirectory) -> None:
    run.create(Config())
    lock = run.path / ".lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match=f"process {holder.pid} on elsewhere"), run.locked():
            pass
    finally:
        holder.kill()
        holder.communicate()
    with run.locked():
        assert lock.read_text().split("\n")[0] == str(os.getpid())


def test_an_owner_that_has_not_said_its_name(run: RunDirectory) -> None:
    with run.locked():
        (run.path / ".lock").write_text("")
        with pytest.raises(UserError, match="in use by another process"), run.locked():
            pass


def test_saving_waits_for_another_save_and_names_who_keeps_it_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "WAIT", 0.1)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / ".lock")], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match=f"in use by process {holder.pid} on elsewhere"):
            model_directory.save(tmp_path, {}, {}, None, [])
    finally:
        holder.kill()
        holder.communicate()
    with locks.exclusive(tmp_path, "It"):
        model_directory.save(tmp_path, {}, {}, None, [])  # who has the lock may save


FORGETTING = """
import sys
from pathlib import Path
from dytox.errors import UserError
from dytox.growing.teaching import forget
for name in sys.argv[2:]:
    while True:
        try:
            forget(Path(sys.argv[1]), [name])
            break
        except UserError as error:
            assert "is in use by" in str(error), error
"""


def test_two_processes_that_forget_at_once_bring_no_class_back(tmp_path: Path) -> None:
    learner = ContinualLearner.load(GOLDEN / "models" / "replay-forgot")
    model, names = tmp_path / "model", learner.classes_
    learner.save(model)
    lock = (model / ".lock").stat().st_ino
    both = [
        subprocess.Popen([sys.executable, "-c", FORGETTING, str(model), *part])
        for part in (names[:2], names[2:4])
    ]
    assert [each.wait(timeout=120) for each in both] == [0, 0]
    assert ContinualLearner.load(model).classes_ == names[4:]
    assert (model / ".lock").stat().st_ino == lock, "a lock that was replaced locks nobody out"
    assert not (model / ".learning").exists()
