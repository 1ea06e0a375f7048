"""Kill a run with SIGKILL many times, resume it each time, and compare it with an uninterrupted run.

    python tools/torture.py --kills 200 [--seed 0]

Half of the kills come at a random time, half right before or after a rename of the run's files. Each round
kills one run several times; weights, memory, metrics (times aside) and losses must be the same, bit by bit.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # torch imports it at the first update; imported here once for all children

from dytox.config import Config
from dytox.experiments.train import resume, train
from dytox.experiments.watchers import Watcher
from dytox.recipes import compose
from dytox.runs import model_directory
from dytox.runs.run_directory import RunDirectory

CONFIG = [
    "scenario.classes=4",
    "memory.size=18",
    "model.dim=16",
    "model.heads=2",
    "model.depth=1",
    "model.drop_path=0.2",
    "augment.mixup=0.8",
    "training.epochs=4",
    "training.schedule.warmup_epochs=1",
    "finetuning.epochs=3",
    "finetuning.batch=4",
]
KILLS_PER_RUN = 6


def result(out: Path) -> tuple[Any, ...]:
    """Return everything that must be the same."""
    run = RunDirectory(out)
    saved = model_directory.load(run.model)
    found = run.read_metrics()
    for part in (found, *found["steps"]):
        part.pop("seconds")
    return saved.model, saved.memory, found, [(line["epoch"], line["losses"]) for line in run.log_lines()]


def equal(one: Any, other: Any) -> bool:
    """Compare two runs bit by bit."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return bool(one == other)


def work(config: Config, out: Path) -> None:
    """Start the run, or resume it."""
    if (out / "config.yaml").exists():
        resume(out, Watcher())
    else:
        train(config, out, Watcher())


def die_at_rename(number: int, *, before: bool) -> None:
    """Let this process kill itself before or after its n-th rename."""
    replace, calls = os.replace, iter(range(10**9))

    def deadly(source: Any, target: Any, **folders: Any) -> None:
        mine = next(calls) == number
        if mine and before:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target, **folders)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = deadly


def child(action: Callable[[], None]) -> int:
    """Run a function in a new process and return the process id."""
    number = os.fork()
    if number:
        return number
    torch.set_num_threads(1)
    try:
        action()
    except BaseException as error:
        print(f"unexpected: {error!r}", file=sys.stderr)
        os._exit(1)
    os._exit(0)


def ended(number: int, seconds: float) -> bool | None:
    """Return whether the process finished or was killed; None if it still runs after the timeout."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(number, os.WNOHANG)
        if found:
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                raise SystemExit("a run failed")
            return os.WIFEXITED(status)
        time.sleep(0.002)
    return None


def killed(config: Config, out: Path, chance: random.Random, seconds: float) -> str | None:
    """Run until the kill and return the place where it happened; None if the run finished before."""
    if chance.random() < 0.5:
        number, before = chance.randrange(14), chance.random() < 0.5

        def deadly() -> None:
            die_at_rename(number, before=before)
            work(config, out)

        return None if ended(child(deadly), 3600) else f"{'before' if before else 'after'} a rename"
    process = child(lambda: work(config, out))
    if ended(process, chance.uniform(0, seconds)):
        return None
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    checkpoints = sorted((out / "checkpoints").glob("*.json"))
    return f"later than {checkpoints[-1].stem}" if checkpoints else "before a checkpoint"


def torture(kills: int, seed: int) -> Counter[str]:
    """Make this many kills, over as many runs as needed; count how often each place was hit."""
    chance = random.Random(seed)
    config = compose("digits", overrides=CONFIG)
    with tempfile.TemporaryDirectory() as folder:
        straight, out = Path(folder) / "straight", Path(folder) / "killed"
        began = time.monotonic()
        ended(child(lambda: work(config, straight)), 3600)
        seconds = time.monotonic() - began
        expected, places, runs = result(straight), Counter[str](), 0
        while places.total() < kills:
            shutil.rmtree(out, ignore_errors=True)
            for _ in range(min(KILLS_PER_RUN, kills - places.total())):
                place = killed(config, out, chance, seconds)
                if place is None:
                    break
                places[place] += 1
            ended(child(lambda: work(config, out)), 3600)
            runs += 1
            if not all(equal(mine, theirs) for mine, theirs in zip(result(out), expected, strict=True)):
                raise SystemExit(f"run {runs} differs after {places.total()} kills (seed {seed})")
    print(
        f"{places.total()} kills at {len(places)} places in {runs} runs: all ended like the uninterrupted one"
    )
    return places


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for place, count in sorted(torture(arguments.kills, arguments.seed).items()):
        print(f"{count:6}  {place}")
