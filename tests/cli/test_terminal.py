"""A run on a terminal, and Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console

from dytox.cli.progress import Progress
from dytox.engine.observer import Interrupted
from dytox.engine.phase import Action, Training
from dytox.experiments.train import train
from dytox.experiments.watchers import Watcher
from dytox.metrics import Step
from dytox.recipes import compose
from dytox.runs.run_directory import RunDirectory

Program = Callable[..., Any]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "TERM": "xterm-256color"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)


@contextmanager
def started(*arguments: Any, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The program in a process of its own, gone at the end whatever happens."""
    process = subprocess.Popen([sys.executable, "-m", "dytox", *map(str, arguments)], **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


def lines_of(path: Path) -> int:
    return len(path.read_bytes().splitlines()) if path.exists() else 0


# Ctrl-C


def test_ctrl_c_leaves_a_checkpoint_from_which_resume_ends_as_a_straight_run(
    dytox: Program, tiny: list[str], tmp_path: Path
) -> None:
    options = [*tiny, "--set", "training.epochs=15", "--out"]
    with started(
        "train", "digits", *options, "cut", stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        wait_for(lambda: lines_of(Path("cut/log.jsonl")) >= 3, "three epochs")
        process.send_signal(signal.SIGINT)
        out, err = (each.decode() for each in process.communicate(timeout=60))
    assert process.returncode == 130
    assert err == ""
    assert "Stopping after this step" in out
    assert out.endswith("Stopped: `dytox resume cut` continues it.\n")
    checkpoint = RunDirectory("cut").checkpoints.newest()
    assert checkpoint is not None
    assert lines_of(Path("cut/log.jsonl")) < 2 * 15 + 2  # it really was cut off
    outcome = dytox("resume", "cut")
    assert outcome.code == 0
    config = compose("digits", overrides=[each for each in options if "=" in str(each)])
    found = train(config, tmp_path / "straight", Watcher())
    resumed = json.loads(Path("cut/metrics.json").read_text())
    for key in ("accuracy_matrix", "avg_top1", "forgetting", "backward_transfer"):
        assert resumed[key] == found[key]
    logs = [RunDirectory(each).log_lines() for each in ("cut", "straight")]
    for resumed_line, line in zip(*logs, strict=True):
        assert resumed_line["losses"] == line["losses"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_first_and_insists_the_second_time(number: signal.Signals) -> None:
    def twice() -> None:
        with Progress(Console(file=io.StringIO())) as progress:
            assert not progress.stop_wanted()
            signal.raise_signal(number)
            assert progress.stop_wanted()
            signal.raise_signal(number)

    before = signal.getsignal(number)
    with pytest.raises(typer.Exit) as left:
        twice()
    assert left.value.exit_code == 130
    assert signal.getsignal(number) is before


def test_what_was_interrupted_says_how_to_go_on() -> None:
    file = io.StringIO()

    def interrupted() -> None:
        with Progress(Console(file=file)) as progress:
            progress.run_started(Tasks(), RunDirectory("runs/[x]"))  # type: ignore[arg-type]
            raise Interrupted

    with pytest.raises(typer.Exit) as left:
        interrupted()
    assert left.value.exit_code == 130
    assert file.getvalue().endswith("Stopped: `dytox resume runs/[x]` continues it.\n")


def test_an_error_passes_through() -> None:
    with pytest.raises(ZeroDivisionError), Progress(Console(file=io.StringIO())):
        raise ZeroDivisionError


# Bars and lines


class Tasks:
    """Stands for a scenario."""

    class_names = ("0", "1", "2", "3")

    def __len__(self) -> int:
        return 2


def lesson(phases: list[Any], task: int = 0, place: int = 0) -> Any:
    return SimpleNamespace(
        task=SimpleNamespace(index=task, new=2),
        method=SimpleNamespace(phases=lambda _: phases),
        position=SimpleNamespace(phase=place),
    )


def phases_of(*epochs: int) -> list[Any]:
    config = compose("digits").training
    return [
        Training(f"train {n}", "new", list, config.model_copy(update={"epochs": n}))
        if n
        else Action("act", print)
        for n in epochs
    ]


def record(task: int, epoch: int) -> dict[str, Any]:
    return {"task": task, "phase": "train", "epoch": epoch, "losses": {"clf": 0.5, "total": 0.25}}


def test_the_bars_show_task_phase_epoch_and_loss() -> None:
    file = io.StringIO()
    progress = Progress(Console(file=file, force_terminal=True, width=80))
    phases = phases_of(0, 4, 0, 4)
    with progress:
        progress.run_started(Tasks(), RunDirectory("runs/x"))  # type: ignore[arg-type]
        run, phase = progress.bars.tasks
        progress.phase_started(lesson(phases, place=1), phases[1])
        progress.epoch_ended(lesson(phases), record(0, 0))
        assert (run.total, run.completed) == (2, 1 / 8)
        assert (phase.description, phase.total, phase.completed) == ("train 4", 4, 1)
        progress.bars.refresh()
        progress.phase_started(lesson(phases, task=1, place=3), phases[3])
        progress.epoch_ended(lesson(phases, task=1), record(1, 1))
        assert run.completed == 1 + 6 / 8  # the second task, at the second epoch of its second training
        progress.bars.refresh()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue())
    assert "task 1/2" in text
    assert "task 2/2" in text
    assert "epoch 1/4" in text
    assert "epoch 2/4" in text
    assert "loss 0.2500" in text
    assert max(len(line) for line in re.split(r"[\r\n]", text)) <= 80


def test_elsewhere_there_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    file, phases = io.StringIO(), phases_of(4)
    progress = Progress(Console(file=file))
    with progress:
        progress.run_started(Tasks(), RunDirectory("runs/x"))  # type: ignore[arg-type]
        progress.phase_started(lesson(phases), phases[0])
        progress.epoch_ended(lesson(phases), record(0, 0))
        assert "epoch" not in file.getvalue()  # not each epoch
        progress.spoke -= 31
        progress.epoch_ended(lesson(phases), record(0, 1))
        progress.epoch_ended(lesson(phases), record(0, 2))
        progress.task_ended(Step(0, 2, 93.75, None, 95.0, 1.0, 100, 24, 12.4))
        progress.noticed("Something to know.")
    assert file.getvalue().splitlines() == [
        "4 classes in 2 tasks, run in runs/x",
        "task 1/2, train, epoch 2: loss 0.2500",
        "task 1/2:  93.8 % right over 2 classes, 12 s",
        "Something to know.",
    ]


def test_a_whole_run_on_a_terminal_of_80_columns(tiny: list[str]) -> None:
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {
        key: value for key, value in ENVIRONMENT.items() if key not in ("COLUMNS", "NO_COLOR", "CI")
    }
    with started(
        "train", "digits", *tiny, "--out", "mine", stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as process:
        os.close(slave)
        seen = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        assert process.wait(timeout=60) == 0
    os.close(master)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())
    lines = [line for line in re.split(r"[\r\n]+", text) if line]
    assert max(map(len, lines)) <= 80
    assert any("task 2/2" in line and "left" in line for line in lines)
    assert any(re.search(r"task 2/2: +\d+\.\d % right over 4 classes", line) for line in lines)
    assert any("Avg Last Forgetting Parameters" in re.sub(" +", " ", line) for line in lines)
    assert lines[-1] == "mine"
    assert "\x1b[?25h" in seen.decode()  # the cursor is back
