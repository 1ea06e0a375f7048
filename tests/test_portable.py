"""The package imports and runs where there is no POSIX: no fcntl, no descriptors of folders, no fork."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dytox

SOURCE = Path(dytox.__file__).parent
PROGRAM = """
import importlib, os, signal, sys, warnings
warnings.simplefilter("ignore")
import torch, numpy, PIL.Image, pydantic, typer, rich.console, rich.progress, matplotlib.figure
import safetensors.torch, asyncio, multiprocessing, sqlite3, tempfile, torch.utils.data, torch.distributed.run
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline", "posix"):
    sys.modules[name] = None
for name in [each for each in sys.modules if each.partition(".")[0] == "filelock"]:
    del sys.modules[name]
for name in ("register_at_fork", "fork", "sched_getaffinity", "sysconf", "getuid", "geteuid", "killpg",
             "setsid", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "pthread_sigmask", "setitimer"):
    if hasattr(signal, name):
        delattr(signal, name)
for name in sys.argv[2:]:
    importlib.import_module(name)
from pathlib import Path
from dytox import ContinualLearner
from dytox.runs.run_directory import RunDirectory
path = Path(sys.argv[1])
learner = ContinualLearner.load(path / "golden")
learner.save(path / "model")
learner.save(path / "model")
with RunDirectory(path / "run").locked():
    RunDirectory(path / "run").log({"task": 0, "phase_index": 0, "epoch": 0})
assert ContinualLearner.load(path / "model").classes_ == learner.classes_
print("imported", len(sys.argv) - 2)
"""


def test_every_module_imports_and_files_are_written_without_posix(tmp_path: Path) -> None:
    golden = Path(__file__).parent / "fixtures" / "golden" / "format-1" / "models" / "finetune"
    (tmp_path / "golden").symlink_to(golden)
    modules = [
        ".".join(("dytox", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "__main__.py"
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), *modules], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"imported {len(modules)}\n"
