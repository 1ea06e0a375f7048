"""A full disk loses nothing that was finished."""

from __future__ import annotations

import subprocess
from contextlib import suppress

import pytest

from dytox.errors import UserError
from dytox.experiments.train import resume, train
from dytox.experiments.watchers import Watcher
from dytox.recipes import compose
from dytox.runs import model_directory

CONFIG = [
    "scenario.classes=4",
    "model.dim=16",
    "model.heads=2",
    "model.depth=1",
    "training.epochs=3",
    "training.schedule.warmup_epochs=1",
    "finetuning.epochs=1",
]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


class Stuffed(Watcher):
    """Fills the disk once the first task is done."""

    def __init__(self, disk) -> None:
        self.disk = disk

    def task_ended(self, step) -> None:
        if step.task == 0:
            with suppress(OSError), (self.disk / "stuff").open("wb") as file:
                while True:
                    file.write(bytes(4096))


def test_a_full_disk_loses_nothing_that_was_finished(small_disk, tmp_path):
    disk = small_disk
    config = compose("digits", overrides=CONFIG)
    straight = train(config, tmp_path / "straight", Watcher())
    with pytest.raises(UserError, match="disk is full"):
        train(config, disk / "run", Stuffed(disk))
    assert model_directory.load(disk / "run" / "model").description["increments"] == [2]

    (disk / "stuff").unlink()
    resumed = resume(disk / "run", Watcher())
    assert resumed["accuracy_matrix"] == straight["accuracy_matrix"]
