"""Hostile surroundings: modules beside the photos, names that steer a terminal, streams that fail."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import dytox
from dytox import ContinualLearner
from dytox.cli import main, output
from dytox.config import Config
from dytox.data.samples import Samples
from dytox.errors import UserError

TRAPS = ("opt_einsum", "pydot", "pynvml", "numpy", "yaml", "typer", "torch", "signal", "multiprocessing")
EVIL = "\x1b]0;gone\x07\x9b31m[red]a[/red]\u202efdp.exe"
TINY = [
    *("scenario.classes=4", "model.dim=16", "model.heads=2", "model.depth=1", "runtime.report=false"),
    *("training.epochs=1", "training.batch=32", "training.schedule.warmup_epochs=0", "finetuning.epochs=1"),
]
SOURCE = str(Path(dytox.__file__).parents[1])
Program = Callable[..., Any]


def start(*arguments: object, module: bool = True, **options: Any) -> subprocess.Popen[str]:
    """The program in a process of its own, as `python -m dytox` or as the installed command starts it."""
    installed = ["-c", "import sys; del sys.path[0]; from dytox.__main__ import main; main()"]
    command = [sys.executable, *(["-m", "dytox"] if module else installed), *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    environment = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, **options)


def perform(*arguments: object, **options: Any) -> tuple[int, str, str]:
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def photos(folder: Path, count: int = 4, suffix: str = ".png") -> Path:
    """Two classes of small photos."""
    for label, name in enumerate(("cat", "dog")):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            noise = np.random.default_rng([label, number]).integers(0, 100, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(noise + 100 * label).save(folder / name / f"{number}{suffix}")
    return folder


@pytest.fixture
def model(tiny: Callable[..., Config], made: Callable[..., Samples], tmp_path: Path) -> Path:
    learner = ContinualLearner(Config.model_validate({**small()}))
    samples = made(0, 2)
    learner.learn(samples.images, samples.labels, held_out=0.2)
    learner.save(tmp_path / "model")
    return tmp_path / "model"


def small() -> dict[str, Any]:
    from dytox.recipes import compose

    values = [*TINY, "model.patch_size=4", "memory.size=8", "runtime.device=cpu", "data.image_size=8"]
    return compose("digits", overrides=values).model_dump()


# --- code beside the photos ---------------------------------------------------------------------------------


@pytest.fixture
def downloaded(tmp_path: Path) -> Path:
    """A folder with photos and files that are named as modules are, and that leave a trace when imported."""
    folder = tmp_path / "downloaded"
    photos(folder / "photos")
    for name in TRAPS:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    return folder


def test_no_command_imports_what_lies_in_the_current_folder(downloaded: Path) -> None:
    tiny = [part for change in TINY for part in ("--set", change)]
    learn = [*("--set", "training.epochs=1", "--set", "model.dim=16", "--set", "model.heads=2"), "--set"]
    commands = [
        ["show", "digits"],
        ["learn", "model", "photos", "--encoder", "none", *learn, "training.schedule.warmup_epochs=0"],
        ["predict", "model", "photos"],
        ["train", "digits", "--out", "run", *tiny],
        ["report", "run"],
    ]
    for command in commands:
        code, out, err = perform(*command, module=False, cwd=downloaded)
        assert code == 0, (command, out, err)
        assert not (downloaded.parent / "ran").exists(), command


def test_nor_does_python_with_the_option_m_and_its_processes(downloaded: Path) -> None:
    for name in ("signal", "multiprocessing"):  # Python itself imports these before dytox is asked
        (downloaded / f"{name}.py").unlink()
    tiny = [part for change in TINY for part in ("--set", change)]
    code, out, err = perform("train", "digits", "--out", "run", "--processes", 2, *tiny, cwd=downloaded)
    assert code == 0, (out, err)
    assert not (downloaded.parent / "ran").exists()


def test_a_custom_method_of_the_current_folder_still_works(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from dytox.methods.replay import Replay\nclass Mine(Replay): pass\n")
    (tmp_path / "pydot.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    tiny = [part for change in [*TINY, "memory.size=8"] for part in ("--set", change)]
    code, _, err = perform("show", "digits", "--method", "mine:Mine", *tiny, cwd=tmp_path, module=False)
    assert code == 0, err
    assert not (tmp_path / "ran").exists()


# --- what reaches the terminal ------------------------------------------------------------------------------


def test_names_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for stderr in (False, True):
        to = output.console(stderr=stderr)
        output.say(to, f"Error: {EVIL}")
        output.table(to, ["Class", EVIL], [[EVIL, "a\nforged row"]])
        to.print(EVIL, markup=False)
    shown = "".join(capsys.readouterr())
    assert shown.count("\\x1b]0;gone\\x07\\x9b31m[red]a[/red]\\u202efdp.exe") == 6
    assert not set(shown) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "a\\nforged row" in shown


def test_colours_of_our_own_still_reach_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.say(output.SafeConsole(force_terminal=True, color_system="standard"), "red", style="red")
    assert capsys.readouterr().out == "\x1b[31mred\x1b[0m\n"


def test_json_stays_the_same_and_is_safe_to_look_at() -> None:
    content = {"image": f"é {EVIL}\udc80"}
    text = output.printable_json(content)
    assert json.loads(text) == content
    assert text.startswith('{"image": "é ')
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e", "\udc80"}


def test_usage_errors_and_file_names_are_safe_too(dytox: Program, model: Path, tmp_path: Path) -> None:
    for command in ([EVIL], ["show", f"--{EVIL}"], ["show", EVIL], ["predict", model, EVIL]):
        outcome = dytox(*command)
        assert outcome.code == 2
        assert not set(outcome.out + outcome.err) & {"\x1b", "\x07", "\x9b", "\u202e"}, command
    evil = tmp_path / f"{EVIL.replace('/', '')}.png"
    Image.new("RGB", (8, 8)).save(evil)
    for form in ([], ["--json"]):
        outcome = dytox("predict", model, evil, *form)
        assert outcome.code == 0
        assert "fdp.exe" in outcome.out
        assert not set(outcome.out) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_names_that_are_not_utf8_are_shown_as_escapes(
    dytox: Program, refused: Callable[..., str], model: Path, tmp_path: Path
) -> None:
    photos(tmp_path / "photos", 1)
    folder = os.fsencode(tmp_path / "photos")
    os.rename(folder + b"/cat/0.png", folder + b"/cat/caf\xe9.png")
    for form in ([], ["--csv"], ["--json"]):
        outcome = dytox("predict", model, tmp_path / "photos", *form)
        assert (outcome.code, outcome.err) == (0, "")
        assert "caf\\udce9.png" in outcome.out
    os.mkdir(folder + b"/\xff")
    Image.new("RGB", (8, 8)).save(os.fsdecode(folder + b"/\xff/a.png"))
    assert "\\udcff" in refused("learn", tmp_path / "new", tmp_path / "photos")
    assert "\\udcff" in refused("evaluate", model, tmp_path / "photos")


# --- errors of the system -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "Permission denied", "a/b"), "a/b: Permission denied"),
        (OSError(36, "File name too long", "a" * 300), "File name too long"),
        (OSError(28, "No space left on device"), "the disk is full"),
        (OSError(24, "Too many open files"), "ulimit -n"),
        (MemoryError(), "memory of this machine"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "memory of this machine"),
        (RuntimeError("Could not determine home directory."), "HOME"),
        (RecursionError("maximum recursion depth exceeded"), "nested too deeply"),
        (UserError("Mend it."), "Mend it."),
    ],
)
def test_an_error_of_the_system_is_one_sentence(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("dytox.recipes.compose", fail)
    assert words in refused("show", "digits")


def test_a_bug_shows_its_traceback_and_asks_for_a_report(
    dytox: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError(f"a bug {EVIL}")

    monkeypatch.setattr("dytox.recipes.compose", fail)
    outcome = dytox("show", "digits")
    assert outcome.code == 1
    assert outcome.err.startswith("Traceback")
    assert "in fail" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("Error: This is a bug in dytox: please report it")
    assert "\x1b" not in outcome.err


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("form", [[], ["--csv"], ["--json"]])
def test_a_result_that_is_lost_does_not_look_like_success(
    dytox: Program, monkeypatch: pytest.MonkeyPatch, model: Path, form: list[str], buffered: bool
) -> None:
    Image.new("RGB", (8, 8)).save(model / "a.png")
    raw = open("/dev/full", "wb", buffering=-1 if buffered else 0)  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, write_through=not buffered))
    outcome = dytox("predict", model, model / "a.png", *form)
    assert outcome.code == 2
    assert "tandard output" in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_closed_standard_output_is_no_success_either(tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m dytox recipes >&-'
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment)
    assert done.returncode == 2, done
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_has_enough_is_no_error_to_speak_of() -> None:
    process = start("recipes")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(60) == 1


# --- signals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [0.2, 0.5, 1.0])
def test_ctrl_c_while_it_starts_is_no_traceback(moment: float) -> None:
    process = start("train", "digits", "--out", os.devnull, module=False)
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    # 2: it was faster, and found no folder; -2: Python itself had not started yet
    assert process.returncode in (130, 2, -2)
    assert "Traceback" not in err


def test_ctrl_c_within_an_import_leaves_at_once(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "print('now', flush=True)\nimport time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n"
        "    raise ImportError('cut off')\n"
    )
    process = start("show", "digits", "--method", "slow:Method", cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "")


def test_processes_end_soon_after_a_launcher_that_was_killed(tmp_path: Path) -> None:
    tiny = [part for change in [*TINY, "training.epochs=10000"] for part in ("--set", change)]
    run = start("train", "digits", "--out", tmp_path / "run", "--processes", "2", *tiny)
    while not list((tmp_path / "run" / "checkpoints").glob("*.json")):
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    workers = children(run.pid)
    assert len(workers) == 2
    run.kill()
    run.communicate(timeout=60)  # the pipes close when the last worker has ended
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return [int(each) for each in found.stdout.split()]


def test_a_console_that_is_no_terminal_is_wide() -> None:
    assert isinstance(output.console(), Console)
    assert main.explain(KeyError("a bug")) is None
