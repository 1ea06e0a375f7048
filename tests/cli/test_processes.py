"""`--processes`: one command, several processes; what becomes of them when one dies or all shall stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dytox.experiments import train as experiments
from dytox.recipes import compose
from dytox.runs.run_directory import RunDirectory

TINY = [
    "runtime.report=false",  # pictures take seconds
    "runtime.precision=fp64",  # so that figures are the same for any number of processes
    "scenario.classes=4",
    "model.dim=16",
    "model.heads=2",
    "model.depth=1",
    "training.epochs=8",
    "training.batch=32",
    "finetuning.epochs=2",
    "finetuning.batch=8",
]


def dytox(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dytox", *map(str, arguments)]
    pipe = subprocess.PIPE
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def begun(out: Path, *arguments: object) -> subprocess.Popen[str]:
    """A command in two processes that has written checkpoints of its own."""

    def newest() -> str:
        return max(
            (each.name for each in (out / "checkpoints").glob("*.json")), default="checkpoint-000-001-00001"
        )

    before = newest()
    run = dytox(*arguments, "--processes", 2)
    while newest() <= before:
        assert run.poll() is None, run.communicate()
        time.sleep(0.01)
    return run


def start(out: Path) -> subprocess.Popen[str]:
    """A new run in two processes."""
    return begun(out, "train", "digits", "--out", out, *(part for each in TINY for part in ("--set", each)))


def worker_of(run: subprocess.Popen[str]) -> int:
    """The last of the processes that it started."""
    found = subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True)
    return int(found.stdout.split()[-1])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[list[float]]:
    """The accuracies of the same run in one process."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    return experiments.train(compose("digits", overrides=TINY), out, experiments.Watcher())["accuracy_matrix"]


def test_a_process_dies_and_all_are_started_again(tmp_path, undisturbed):
    """Without restarts the run ends and says how to go on; with one it goes on by itself, to the same end."""
    out = tmp_path / "run"
    run = start(out)
    os.kill(worker_of(run), signal.SIGKILL)
    _, stderr = run.communicate(timeout=120)
    assert run.returncode == 2, stderr
    assert stderr.endswith(f" of 2 died (SIGKILL): `dytox resume {out} --processes 2` continues it.\n")
    assert stderr.count("Error:") == 1
    assert "Traceback" not in stderr
    run = begun(out, "resume", out, "--max-restarts", 1)
    os.kill(worker_of(run), signal.SIGKILL)
    _, stderr = run.communicate(timeout=120)
    assert run.returncode == 0, stderr
    assert RunDirectory(out).read_metrics()["accuracy_matrix"] == undisturbed


def test_all_stop_with_a_checkpoint(tmp_path, undisturbed):
    run = start(tmp_path / "run")
    run.send_signal(signal.SIGTERM)
    stdout, stderr = run.communicate(timeout=120)
    assert run.returncode == 130, stderr
    assert stdout.count("4 classes in 2 tasks") == 1  # one process speaks
    assert f"dytox resume {tmp_path / 'run'}" in stdout
    found = experiments.resume(tmp_path / "run", experiments.Watcher())
    assert found["accuracy_matrix"] == undisturbed


def test_an_error_is_said_once(tmp_path):
    missing = tmp_path / "nothing"
    run = dytox("train", "cifar100-10", "--data", missing, "--processes", 2, "--out", tmp_path / "run")
    _, stderr = run.communicate(timeout=120)
    assert run.returncode == 2, stderr
    assert stderr.count("There is no folder") == 1
    assert "Traceback" not in stderr


def test_a_worker_leaves_at_once_when_its_command_has_ended():
    code = "import atexit, os, sys; atexit.register(os._exit, 9); sys.argv[1:] = ['--version']\n"
    code += "from dytox.__main__ import main; main()"
    for environment, expected in (({"TORCHELASTIC_RUN_ID": "a"}, 0), ({}, 9)):
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}
        )
        assert found.returncode == expected
        assert found.stdout.startswith("dytox ")
