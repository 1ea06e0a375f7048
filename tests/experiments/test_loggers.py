"""TensorBoard and Weights & Biases get what the log gets."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dytox.config import Config
from dytox.engine.observer import Interrupted
from dytox.errors import UserError
from dytox.experiments.loggers import check_loggers
from dytox.experiments.train import resume, train
from dytox.experiments.watchers import Watcher
from dytox.runs.run_directory import RunDirectory

TinyRun = Callable[..., Config]
SMALL: dict[str, Any] = {"scenario": {"classes": 4}}


class Stopping(Watcher):
    """Is asked to stop within the second task."""

    epochs = 0

    def epoch_ended(self, lesson: Any, record: Any) -> None:
        self.epochs += 1

    def stop_wanted(self) -> bool:
        return self.epochs >= 3


def test_tensorboard_has_the_lines_of_the_log(tiny_run: TinyRun, tmp_path: Path) -> None:
    pytest.importorskip(
        "tensorboard", reason="tensorboard is not installed (pip install 'dytox[tensorboard]')"
    )
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(tiny_run(**SMALL, runtime={"loggers": ["tensorboard"]}), tmp_path / "run")
    found = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    found.Reload()
    lines = RunDirectory(tmp_path / "run").log_lines()
    for name in ("clf", "total"):
        events = found.Scalars(f"loss/{name}")
        assert [event.step for event in events] == list(range(len(lines)))
        assert [event.value for event in events] == pytest.approx([line["losses"][name] for line in lines])
    steps = RunDirectory(tmp_path / "run").read_metrics()["steps"]
    after = found.Scalars("after_task/top1")
    assert [event.value for event in after] == pytest.approx([step["top1"] for step in steps])
    last_of_first = [line["task"] for line in lines].count(0) - 1
    assert [event.step for event in after] == [last_of_first, len(lines) - 1]


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """In place of the package: what it was told."""
    told: list[tuple[str, Any]] = []

    def init(**named: Any) -> SimpleNamespace:
        told.append(("init", named))
        return SimpleNamespace(
            define_metric=lambda *_, **__: None,
            log=lambda values: told.append(("log", values)),
            finish=lambda: told.append(("finish", None)),
        )

    module = ModuleType("wandb")
    module.__spec__ = ModuleSpec("wandb", None)
    module.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    return told


def test_wandb_goes_on_where_the_run_was_cut_off(
    tiny_run: TinyRun, tmp_path: Path, wandb: list[tuple[str, Any]]
) -> None:
    config = tiny_run(**SMALL, runtime={"loggers": ["wandb"]})
    check_loggers(config)
    out = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(config, out, Stopping())
    cut = [values["epoch"] for kind, values in wandb if kind == "log" and "lr" in values]
    assert cut == [0, 1, 2]
    resume(out)
    epochs = [values["epoch"] for kind, values in wandb if kind == "log" and "lr" in values]
    assert epochs == list(range(len(RunDirectory(out).log_lines())))
    first, second = [named for kind, named in wandb if kind == "init"]
    assert first["id"] == second["id"]
    assert first["project"] == "dytox"
    assert first["config"]["method"]["name"] == "dytox"
    assert [kind for kind, _ in wandb].count("finish") == 2


def test_a_logger_that_is_not_installed_is_refused(
    tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dytox.experiments import loggers

    monkeypatch.setattr(loggers, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="names tensorboard, which is not installed"):
        check_loggers(tiny_run(runtime={"loggers": ["tensorboard"]}))
    check_loggers(tiny_run())


def test_an_unknown_logger_is_refused(tiny_run: TinyRun) -> None:
    with pytest.raises(UserError, match=r"runtime\.loggers"):
        tiny_run(runtime={"loggers": ["paper"]})


def test_without_loggers_nothing_is_opened(tiny_run: TinyRun, tmp_path: Path) -> None:
    train(tiny_run(**SMALL), tmp_path / "run")
    assert not (tmp_path / "run" / "tensorboard").exists()
