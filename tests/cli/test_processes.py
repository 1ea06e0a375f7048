"""`--processes`: one command, several processes; what becomes of them when one dies or all shall stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TINY = [
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
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def train(out: Path, *more: object) -> subprocess.Popen[str]:
    settings = [part for each in TINY for part in ("--set", each)]
    return dytox("train", "digits", "--out", out, *settings, "--processes", 2, *more)


def accuracies(out: Path) -> list[list[float]]:
    return json.loads((out / "metrics.json").read_text())["accuracy_matrix"]


def wait_for_checkpoint(run: subprocess.Popen[str], out: Path) -> None:
    while not list((out / "checkpoints").glob("checkpoint-000-001-00001-*.json")):
        assert run.poll() is None, run.communicate()
        time.sleep(0.01)


def worker_of(run: subprocess.Popen[str]) -> int:
    """The last of the processes that it started."""
    return int(
        subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True).stdout.split()[-1]
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[list[float]]:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    run = train(out)
    stdout, stderr = run.communicate(timeout=120)
    assert run.returncode == 0, stderr
    assert stdout.count("4 classes in 2 tasks") == 1  # one process speaks
    return accuracies(out)


def test_a_process_dies(tmp_path, undisturbed):
    out = tmp_path / "run"
    run = train(out)
    wait_for_checkpoint(run, out)
    os.kill(worker_of(run), signal.SIGKILL)
    _, stderr = run.communicate(timeout=120)
    assert run.returncode == 2
    assert f"died (SIGKILL): `dytox resume {out} --processes 2` goes on" in stderr
    assert "Traceback" not in stderr

    resumed = dytox("resume", out, "--processes", 2)
    assert resumed.wait(timeout=120) == 0
    assert accuracies(out) == undisturbed


def test_a_process_dies_and_all_are_started_again(tmp_path, undisturbed):
    out = tmp_path / "run"
    run = train(out, "--max-restarts", 1)
    wait_for_checkpoint(run, out)
    os.kill(worker_of(run), signal.SIGKILL)
    _, stderr = run.communicate(timeout=120)
    assert run.returncode == 0, stderr
    assert accuracies(out) == undisturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_all_stop_with_a_checkpoint(tmp_path, undisturbed, number):
    out = tmp_path / "run"
    run = train(out)
    wait_for_checkpoint(run, out)
    run.send_signal(number)
    stdout, stderr = run.communicate(timeout=120)
    assert run.returncode == 130, stderr
    assert f"dytox resume {out}" in stdout
    resumed = dytox("resume", out, "--processes", 2)
    assert resumed.wait(timeout=120) == 0
    assert accuracies(out) == undisturbed


def test_an_error_is_said_once(tmp_path):
    run = dytox(
        "train", "cifar100-10", "--data", tmp_path / "nothing", "--processes", 2, "--out", tmp_path / "run"
    )
    _, stderr = run.communicate(timeout=120)
    assert run.returncode == 2
    assert stderr.count("There is no folder") == 1
    assert "Traceback" not in stderr
