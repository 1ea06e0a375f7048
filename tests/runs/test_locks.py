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
from dytox.runs.run_directory import RunDirectory


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
