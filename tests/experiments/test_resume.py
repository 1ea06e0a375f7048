"""Cut off anywhere and resumed, a run ends with the same weights, memory, metrics and log, bit by bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dytox.config import Config
from dytox.engine.observer import Interrupted
from dytox.errors import UserError
from dytox.experiments import train as module
from dytox.experiments.train import resume, train
from dytox.experiments.watchers import Watcher
from dytox.learner import ContinualLearner
from dytox.runs.checkpoints import Checkpoints
from dytox.runs.run_directory import RunDirectory

Tiny = Callable[..., Config]
Result = Callable[[Path], dict[str, Any]]


class Crash(Exception):
    """The run ended here, and nobody tidied up."""


class Counter(Watcher):
    """Counts steps, and hears notices."""

    def __init__(self) -> None:
        self.steps = 0
        self.places: list[tuple[int, str, int]] = []  # of each step: task, phase, epoch
        self.phase = ""
        self.notices: list[str] = []

    def phase_started(self, lesson: Any, phase: Any) -> None:
        self.phase = phase.name

    def step_ended(self, lesson: Any, total: Any) -> None:
        self.steps += 1
        self.places.append((lesson.task.index, self.phase, lesson.position.epoch))

    def noticed(self, sentence: str) -> None:
        self.notices.append(sentence)


class Stopper(Counter):
    """Wants to stop after so many steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.limit = steps

    def stop_wanted(self) -> bool:
        return self.steps >= self.limit


class Crasher(Counter):
    """Crashes at the start or at the end of a phase, at a step, or when a task has ended."""

    def __init__(self, moment: str, task: int = 0, phase: str = "", steps: int = 0) -> None:
        super().__init__()
        self.moment, self.task, self.where, self.limit = moment, task, phase, steps

    def phase_started(self, lesson: Any, phase: Any) -> None:
        super().phase_started(lesson, phase)
        if (self.moment, self.task, self.where) == ("start", lesson.task.index, phase.name):
            raise Crash

    def state_reached(self, lesson: Any, state: Any, *, stopping: bool) -> None:
        ended = state.position.epoch == state.position.step == 0
        if (self.moment, self.task, self.where) == ("end", lesson.task.index, self.phase) and ended:
            raise Crash

    def step_ended(self, lesson: Any, total: Any) -> None:
        super().step_ended(lesson, total)
        if self.moment == "step" and self.steps == self.limit:
            raise Crash

    def task_ended(self, step: Any) -> None:
        if self.moment == "task" and step.task == self.task:
            raise Crash


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, tiny_run: Tiny, result: Result) -> Callable[..., Any]:
    """The result of a run that nobody disturbed, once for each config."""
    known: dict[str, tuple[dict[str, Any], Counter]] = {}

    def straight(config: Config) -> tuple[dict[str, Any], Counter]:
        key = config.model_dump_json()
        if key not in known:
            path, counter = tmp_path_factory.mktemp("straight") / "run", Counter()
            train(config, path, counter)
            known[key] = result(path), counter
        return known[key]

    return straight


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for part in expected:
        assert found[part] == expected[part], f"{part} differs"


def cut_off(config: Config, path: Path, watcher: Watcher) -> None:
    with pytest.raises((Interrupted, Crash)):
        train(config, path, watcher)


@pytest.fixture(scope="session")
def tiny_run(tiny_run: Tiny) -> Tiny:
    """Two tasks are enough: the second has everything that can be lost."""

    def config(method: str = "dytox", **over: Any) -> Config:
        return tiny_run(method, **{"scenario": {"classes": 4}, **over})

    return config


@pytest.mark.parametrize("steps", [1, 3, 5, 7, 11, 14, 16])
def test_a_run_that_was_asked_to_stop_goes_on_to_the_same_end(
    tmp_path: Path, tiny_run: Tiny, straight: Any, result: Result, steps: int
) -> None:
    expected, counter = straight(tiny_run())
    stopper, rest = Stopper(steps), Counter()
    cut_off(tiny_run(), tmp_path / "run", stopper)
    assert stopper.steps < counter.steps
    resume(tmp_path / "run", rest)
    assert_same(result(tmp_path / "run"), expected)
    assert stopper.places + rest.places == counter.places  # no step was done twice


def test_the_stops_above_fall_into_both_phases_of_every_task(tiny_run: Tiny, straight: Any) -> None:
    _, counter = straight(tiny_run())
    phases = [(0, "train")] * 6 + [(1, "train")] * 8 + [(1, "finetune")] * 4
    assert [place[:2] for place in counter.places] == phases


def test_a_stop_is_heard_where_every_epoch_is_one_step(
    tmp_path: Path, tiny_run: Tiny, straight: Any, result: Result
) -> None:
    config = tiny_run(training={"batch": 512}, finetuning={"batch": 512})
    stopper = Stopper(1)
    cut_off(config, tmp_path / "run", stopper)
    assert stopper.steps == 1
    resume(tmp_path / "run", Watcher())
    assert_same(result(tmp_path / "run"), straight(config)[0])


@pytest.mark.parametrize("method", ["replay", "finetune", "joint"])
def test_other_methods_can_be_resumed_in_their_first_task(
    tmp_path: Path, tiny_run: Tiny, straight: Any, result: Result, method: str
) -> None:
    """In the second, every method is: tests/methods/test_every_method_in_runs.py."""
    cut_off(tiny_run(method), tmp_path / "run", Stopper(4))
    resume(tmp_path / "run", Watcher())
    assert_same(result(tmp_path / "run"), straight(tiny_run(method))[0])


@pytest.mark.parametrize("steps", [8, 15])
def test_all_options_that_draw_numbers_can_be_resumed(
    tmp_path: Path, tiny_run: Tiny, straight: Any, result: Result, steps: int
) -> None:
    """MixUp, LookSAM, RandAugment, repeated augmentation, shares of the memory, sgd, clipping, smoothing."""
    config = tiny_run(
        augment={"mixup": 0.8, "randaugment": {"operations": 2}},
        sam={"rho": 0.5, "every": 3},
        training={"repeats": 3, "clip_norm": 1.0, "optimizer": {"name": "sgd", "weight_decay": 0.01}},
        memory={"size": 24, "shares": 2, "selection": "random"},
        loss={"label_smoothing": 0.1},
    )
    cut_off(config, tmp_path / "run", Stopper(steps))
    resume(tmp_path / "run", Watcher())
    assert_same(result(tmp_path / "run"), straight(config)[0])


@pytest.mark.parametrize("steps", [2, 5, 10, 14])
def test_the_options_of_fast_recipes_can_be_resumed(
    tmp_path: Path, tiny_run: Tiny, straight: Any, result: Result, steps: int
) -> None:
    """Convolutions with BatchNorm, an optimiser of the encoder, a schedule by the step, averaged weights."""
    config = tiny_run(
        model={"encoder": "conv-tiny"},
        training={
            "first_epochs": 1,
            "encoder": {"lr": 0.05},
            "schedule": {"name": "linear", "per_step": True, "warmup_share": 0.3, "min_lr": 0.0},
            "ema": 0.9,
        },
        finetuning={"ema": 0.5, "cache_views": 2},
        evaluation={"flip": True},
    )
    cut_off(config, tmp_path / "run", Stopper(steps))
    resume(tmp_path / "run", Watcher())
    assert_same(result(tmp_path / "run"), straight(config)[0])


def test_a_run_may_be_stopped_again_and_again(
    tmp_path: Path, tiny_run: Tiny, straight: Any, result: Result
) -> None:
    config = tiny_run(scenario={"classes": 6})
    expected, counter = straight(config)
    cut_off(config, tmp_path / "run", Stopper(5))
    done = 5
    for _ in range(counter.steps):
        stopper = Stopper(5)
        try:
            resume(tmp_path / "run", stopper)
            break
        except Interrupted:
            done += stopper.steps
            assert stopper.steps >= 5
    assert done + stopper.steps == counter.steps
    assert_same(result(tmp_path / "run"), expected)
    environment = RunDirectory(tmp_path / "run").read_environment()
    assert len(environment["resumed"]) >= 3


@pytest.mark.parametrize(
    "crasher",
    [
        Crasher("start", 0, "expand"),
        Crasher("end", 0, "memory"),
        Crasher("start", 1, "teacher"),
        Crasher("end", 1, "teacher"),
        Crasher("end", 1, "train"),
        Crasher("end", 1, "tidy"),
        Crasher("end", 1, "finetune"),
        Crasher("step", steps=3),
        Crasher("step", steps=16),
        Crasher("task", 0),
    ],
    ids=lambda each: f"{each.moment} {each.task} {each.where or each.limit}",
)
def test_a_run_that_crashed_between_phases_goes_on_to_the_same_end(
    tmp_path: Path, tiny_run: Tiny, straight: Any, result: Result, crasher: Crasher
) -> None:
    cut_off(tiny_run(), tmp_path / "run", crasher)
    resume(tmp_path / "run", Watcher())
    assert_same(result(tmp_path / "run"), straight(tiny_run())[0])


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        (module, "evaluate_task", 1),
        (module, "evaluate_task", 2),
        (RunDirectory, "save_evaluation", 2),
        (RunDirectory, "write_metrics", 2),
        (ContinualLearner, "save", 1),
        (ContinualLearner, "save", 2),
        (RunDirectory, "log", 1),
        (RunDirectory, "log", 4),
        (Checkpoints, "save", 1),
        (Checkpoints, "save", 6),
        (Checkpoints, "clear", 1),
    ],
    ids=lambda each: str(getattr(each, "__name__", each)),
)
def test_a_crash_where_something_is_computed_or_written_changes_nothing(
    tmp_path: Path,
    tiny_run: Tiny,
    straight: Any,
    result: Result,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    call: int,
) -> None:
    real, calls = getattr(owner, name), 0

    def mortal(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Crash
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, mortal)
        cut_off(tiny_run(), tmp_path / "run", Watcher())
    resume(tmp_path / "run", Watcher())
    assert_same(result(tmp_path / "run"), straight(tiny_run())[0])


@pytest.mark.parametrize("steps", [5, 12])
def test_rare_checkpoints_cost_time_and_no_exactness(
    tmp_path: Path, tiny_run: Tiny, straight: Any, result: Result, steps: int
) -> None:
    """Lines of the log that are later than the last checkpoint are cut and written again."""
    config = tiny_run(runtime={"checkpoint_epochs": 5})
    counter = Counter()
    cut_off(config, tmp_path / "run", Crasher("step", steps=steps))
    resume(tmp_path / "run", counter)
    expected, whole = straight(config)
    assert_same(result(tmp_path / "run"), expected)
    assert steps + counter.steps > whole.steps


def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    tmp_path: Path, tiny_run: Tiny, straight: Any, result: Result
) -> None:
    cut_off(tiny_run(), tmp_path / "run", Stopper(9))
    newest = max((tmp_path / "run" / "checkpoints").glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:-40])
    counter = Counter()
    resume(tmp_path / "run", counter)
    assert any("is damaged" in sentence for sentence in counter.notices)
    assert_same(result(tmp_path / "run"), straight(tiny_run())[0])


def test_a_finished_run_stays_as_it_is(tmp_path: Path, tiny_run: Tiny, result: Result) -> None:
    config = tiny_run("replay")
    found = train(config, tmp_path / "run", Watcher())
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    counter = Counter()
    assert resume(tmp_path / "run", counter) == found
    assert counter.steps == 0
    assert "is finished" in counter.notices[0]
    after = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    changed = [path.name for path in after if before.get(path) != after[path]]
    assert changed in ([], [".lock"])


def test_the_time_before_the_interruption_counts(tmp_path: Path, tiny_run: Tiny) -> None:
    cut_off(tiny_run(), tmp_path / "run", Crasher("end", 1, "train"))
    folder = tmp_path / "run" / "checkpoints"
    state = json.loads(max(folder.glob("*.json")).read_text())["state"]
    assert state["seconds"] > 0
    found = resume(tmp_path / "run", Watcher())
    assert found["steps"][1]["seconds"] >= round(state["seconds"], 1)


# What is refused


def test_a_folder_that_is_no_run_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none", "There is no folder"), (tmp_path, "is not a run directory")):
        with pytest.raises(UserError, match=words):
            resume(path, Watcher())
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_config_was_changed_is_refused(tmp_path: Path, tiny_run: Tiny) -> None:
    cut_off(tiny_run(), tmp_path / "run", Stopper(2))
    path = tmp_path / "run" / "config.yaml"
    path.write_text(path.read_text().replace("lr: 0.005", "lr: 0.006"))
    with pytest.raises(UserError, match=r"another config \(training\.lr is 0\.006 and was 0\.005\)"):
        resume(tmp_path / "run", Watcher())
    path.write_text("training: [")
    with pytest.raises(UserError, match=r"config\.yaml is damaged"):
        resume(tmp_path / "run", Watcher())
