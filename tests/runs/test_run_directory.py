"""What a run leaves behind comes back as it was."""

from __future__ import annotations

import math
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dytox import __version__, upgrade
from dytox.checking import validate
from dytox.config import Config
from dytox.errors import UserError
from dytox.randomness import Position
from dytox.runs import environment
from dytox.runs.run_directory import RunDirectory, _from_yaml, to_yaml

TRICKY = [
    "5e-4",
    "yes",
    "no",
    "null",
    "~",
    "1_000",
    "0o7",
    "2020-01-01",
    "12:30:40",
    "",
    " a ",
    "a\nb",
    "# x",
    "&x",
]

plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(TRICKY)
)
nested = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


def test_config_comes_back(run: RunDirectory) -> None:
    values = {
        "data": {"root": "/data/Größe"},
        "method": {"name": "dytox", "divergence": 0.1, "tuple": [1, 2.0, {"deep": "5e-4"}]},
        "scenario": {"order": [2, 0, 1]},
        "training": {"lr": 5e-4},
    }
    config = validate(Config, values)
    run.create(config)
    assert run.read_config() == config
    assert run.read_config().method.options == config.method.options
    text = (run.path / "config.yaml").read_text()
    head = f"format: {upgrade.current()}\npackage: {__version__}\n"
    assert text.startswith(f"{head}recipe: custom\nseed: 0\ndata:\n")  # in the order of the schema, all of it
    assert "finetuning:" in text
    assert "&" not in text


@settings(deadline=None, max_examples=30)
@given(values=st.dictionaries(st.text(), nested))
def test_any_values_come_back(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    path.write_bytes(to_yaml(values))
    assert repr(_from_yaml(path)) == repr(values)  # 1 is not 1.0


def test_a_folder_with_a_run_is_refused(run: RunDirectory) -> None:
    with run.locked():
        run.create(Config())
    before = (run.path / "config.yaml").read_bytes()
    with pytest.raises(UserError, match=r"already holds a run: `dytox resume .*run` or another --out"):
        run.create(Config(seed=1))
    assert (run.path / "config.yaml").read_bytes() == before


@pytest.mark.parametrize("name", ["log.jsonl", "metrics.json", "checkpoints"])
def test_what_is_left_of_a_run_is_refused_too(run: RunDirectory, name: str) -> None:
    run.path.mkdir()
    (run.path / name).mkdir()
    with pytest.raises(UserError, match="already holds a run"):
        run.create(Config())


def test_resume_keeps_config_and_notes_the_environment(run: RunDirectory) -> None:
    with pytest.raises(UserError, match=r"There is no folder .*: name a run directory\."):
        run.create(Config(), resume=True)
    run.create(Config(seed=3))
    started = run.read_environment()
    run.create(Config(seed=3), resume=True)
    run.create(Config(seed=3), resume=True)
    noted = run.read_environment()
    assert len(noted.pop("resumed")) == 2
    assert noted == started
    with pytest.raises(UserError, match="not the config asked for"):
        run.create(Config(seed=4), resume=True)


def test_resume_of_a_run_cut_off_before_its_environment_was_written(run: RunDirectory) -> None:
    run.create(Config())
    (run.path / "environment.json").unlink()
    run.create(Config(), resume=True)
    assert run.read_environment()["python"] == platform.python_version()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seed: [1", r"config\.yaml is damaged \(line 1 is not YAML\)"),
        ("- 1", r"config\.yaml is damaged \(it should hold keys"),
        ("\x00", r"config\.yaml is damaged"),
        ("seed: 1\nseed: 2", r"config\.yaml is damaged \(line 2"),
        ("sed: 1", r"config\.yaml: Unknown config key 'sed'"),
        ("seed: -1", r"config\.yaml: Config key seed"),
    ],
)
def test_damaged_config(run: RunDirectory, text: str, sentence: str) -> None:
    run.path.mkdir()
    (run.path / "config.yaml").write_text(text)
    with pytest.raises(UserError, match=sentence):
        run.read_config()


def test_environment(run: RunDirectory) -> None:
    run.create(Config())
    noted = run.read_environment()
    assert noted["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert noted["threads"] == torch.get_num_threads()
    assert noted["command"] == sys.argv
    assert noted["devices"][0] == "cpu"


def test_commit_of_a_checkout_only(tmp_path: Path) -> None:
    assert environment._commit(tmp_path) is None
    (tmp_path / ".git").mkdir()  # there, but of no use
    assert environment._commit(tmp_path) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "file").write_text("one")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    commit = environment._commit(tmp_path)
    assert commit is not None
    assert len(commit) == 40
    (tmp_path / "file").write_text("two")
    assert environment._commit(tmp_path) == f"{commit}-dirty"


def line(task: int, phase: int, epoch: int) -> dict[str, Any]:
    return {"task": task, "phase_index": phase, "epoch": epoch, "loss": 0.5}


@pytest.fixture
def logged(run: RunDirectory) -> RunDirectory:
    run.create(Config())
    for task in range(2):
        for phase in range(2):
            for epoch in range(2):
                run.log(line(task, phase, epoch))
    return run


def test_log_comes_back(run: RunDirectory) -> None:
    assert run.log_lines() == []
    run.path.mkdir()
    run.log({**line(0, 0, 0), "loss": math.nan, "losses": {"kd": math.inf, "clf": 1.0}})
    run.log(line(0, 0, 1))
    assert run.log_lines() == [
        {**line(0, 0, 0), "loss": None, "losses": {"kd": None, "clf": 1.0}},
        line(0, 0, 1),
    ]
    with pytest.raises(AssertionError, match="numbers"):
        run.log({"task": 0, "phase": "train", "epoch": 0})


@pytest.mark.parametrize(
    ("position", "kept"),
    [
        (Position(0, 0, 0, 0), 0),
        (Position(0, 0, 0, 5), 0),  # within an epoch: its line will be written again
        (Position(0, 0, 1, 0), 1),
        (Position(0, 1, 0, 0), 2),
        (Position(1, 0, 0, 0), 4),
        (Position(1, 1, 1, 3), 7),
        (Position(1, 1, 2, 0), 8),
        (Position(2, 0, 0, 0), 8),
    ],
)
def test_cut_log_drops_what_will_be_written_again(
    logged: RunDirectory, position: Position, kept: int
) -> None:
    before = logged.log_lines()
    logged.cut_log(position)
    assert logged.log_lines() == before[:kept]


@pytest.mark.parametrize("rest", [b'{"task": 1, "pha', b"\x00\x00\x00", b"{}", b'{"task": 1\n\n', b"\xff"])
def test_a_line_cut_off_at_the_end_is_not_there(logged: RunDirectory, rest: bytes) -> None:
    before = logged.log_lines()
    with open(logged.path / "log.jsonl", "ab") as file:
        file.write(rest)
    assert logged.log_lines() == before
    logged.cut_log(Position(9))
    logged.log(line(9, 0, 0))
    assert logged.log_lines() == [*before, line(9, 0, 0)]


def test_a_damaged_line_in_the_middle_is_named(logged: RunDirectory) -> None:
    text = (logged.path / "log.jsonl").read_text().splitlines()
    text[2] = text[2][:-3]
    (logged.path / "log.jsonl").write_text("\n".join(text))
    with pytest.raises(UserError, match=r"log\.jsonl is damaged \(line 3"):
        logged.log_lines()


def test_cut_log_of_a_run_that_has_none(run: RunDirectory) -> None:
    run.create(Config())
    run.cut_log(Position())
    assert run.log_lines() == []


def test_full_disk_leaves_the_log_whole(logged: RunDirectory, full_disk: Callable[[int], Any]) -> None:
    before = logged.log_lines()
    with full_disk(10), pytest.raises(UserError, match="disk is full"):
        logged.log(line(2, 0, 0))
    with full_disk(10), pytest.raises(UserError, match="disk is full"):
        logged.cut_log(Position(1))
    logged.log(line(3, 0, 0))
    assert logged.log_lines() == [*before, line(3, 0, 0)]


def test_metrics_and_evaluations_come_back(run: RunDirectory) -> None:
    run.create(Config())
    run.write_metrics({"avg_top1": 1.5, "avg_top5": None})
    assert run.read_metrics() == {"avg_top1": 1.5, "avg_top5": None}
    run.save_evaluation(3, {"targets": torch.arange(4)})
    tensors, _ = run.load_evaluation(3)
    assert tensors["targets"].tolist() == [0, 1, 2, 3]
    assert (run.path / "evaluation" / "task-03.safetensors").is_file()
    with pytest.raises(UserError, match=r"task-04\.safetensors is missing"):
        run.load_evaluation(4)
    (run.path / "metrics.json").write_text("[]")
    with pytest.raises(UserError, match=r"metrics\.json is damaged"):
        run.read_metrics()


def test_places_of_the_parts(run: RunDirectory) -> None:
    assert run.model == run.path / "model"
    assert run.checkpoints.folder == run.path / "checkpoints"
