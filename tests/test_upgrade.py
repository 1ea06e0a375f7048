"""What an older format saved is read by a newer one, step by step, and what a newer one saved is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dytox
from dytox import ContinualLearner, recipes, upgrade
from dytox.checking import flat
from dytox.errors import UserError
from dytox.experiments.train import resume
from dytox.experiments.watchers import Watcher
from dytox.growing import plan, teaching
from dytox.learner import keeping
from dytox.runs import model_directory, run_directory, sealed
from dytox.runs.run_directory import RunDirectory, to_yaml
from dytox.upgrade import FormatStep, put, take

GOLDEN = Path(__file__).parent / "fixtures" / "golden" / "format-1"


class Told(Watcher):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def noticed(self, sentence: str) -> None:
        self.sentences.append(sentence)


def copied(name: str, folder: Path) -> Path:
    """A golden run, whose report takes too long for a test."""
    path = Path(shutil.copytree(GOLDEN / "runs" / name, folder / "run"))
    (path / "config.yaml").write_text(
        (path / "config.yaml").read_text().replace("report: true", "report: false")
    )
    return path


def rename_epochs(values: dict[str, Any]) -> None:
    """A made step: `training.passes` is now called `training.epochs`, and `model.colour` is gone."""
    passes = take(values, "training.passes")
    if passes is not upgrade.MISSING:
        put(values, "training.epochs", passes)
    take(values, "model.colour")


def rename_tensors(
    config: dict[str, Any], structure: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    assert config["training"]["passes"], "the config is still of the old format"
    structure = {**structure, "model": structure["network"]}
    del structure["network"]
    return structure, {name.removeprefix("old_"): each for name, each in tensors.items()}


def add_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more step than there are. `augment.flip` is new, and the old code did as if it were 0.125."""
    step = FormatStep(keys=rename_epochs, added={"augment.flip": 0.125}, network=rename_tensors)
    monkeypatch.setattr(upgrade, "STEPS", [*upgrade.STEPS, step])


def as_before(config: dict[str, Any]) -> None:
    """The config as the format before the made step had it."""
    config["training"]["passes"] = config["training"].pop("epochs")
    config["model"]["colour"] = "blue"
    config["augment"].pop("flip")


def reseal(path: Path, found: int, content: dict[str, Any]) -> None:
    """A sealed file as a package of format `found` wrote it."""
    kind = json.loads(path.read_text())["kind"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upgrade, "STEPS", upgrade.STEPS[: found - 1])
        sealed.write_sealed(path, kind, content)


def old_names(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """As the format before the made step named them."""
    return {f"old_{name}": each for name, each in tensors.items()}


def test_a_model_of_the_format_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = ContinualLearner.load(GOLDEN / "models" / "dytox")
    learner.save(tmp_path)
    saved = model_directory.load(tmp_path)
    as_before(saved.description["config"])
    saved.description["structure"]["network"] = saved.description["structure"].pop("model")
    model_directory.save(tmp_path, saved.description, old_names(saved.model), saved.memory, saved.history)
    add_step(monkeypatch)
    again = ContinualLearner.load(tmp_path)
    assert again.config.training.epochs == learner.config.training.epochs
    assert again.config.augment.flip == 0.125
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    assert (again.predict_proba(images) == learner.predict_proba(images)).all()


def test_a_cut_off_run_of_the_format_before_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copied("finetune-finished-task", tmp_path)
    run, found = RunDirectory(path), upgrade.current()
    values = run.read_config().model_dump()
    as_before(values)
    (path / "config.yaml").write_bytes(to_yaml({"format": found, "package": "0.1.0", **values}))
    checkpoint = run.checkpoints.newest()
    assert checkpoint is not None
    as_before(checkpoint.state["origin"]["config"])
    checkpoint.state["structure"]["network"] = checkpoint.state["structure"].pop("model")
    own = {name[7:]: each for name, each in checkpoint.tensors.items() if name.startswith("method.")}
    others = {name: each for name, each in checkpoint.tensors.items() if not name.startswith("method.")}
    old = {f"method.{name}": each for name, each in old_names(own).items()}
    run.checkpoints.save(checkpoint.position, {**others, **old}, checkpoint.state)
    add_step(monkeypatch)
    config = run.read_config()
    assert (config.training.epochs, config.augment.flip) == (2, 0.125)
    assert len(resume(path, Told())["steps"]) == 3


def test_a_key_that_is_new_makes_no_run_unresumable(tmp_path: Path) -> None:
    """Also without a step, where its default is what the old code did."""
    path = copied("dytox", tmp_path)
    lines = (path / "config.yaml").read_text().splitlines()
    (path / "config.yaml").write_text("\n".join(line for line in lines if "shares:" not in line))
    for source in (path / "checkpoints").glob("*.json"):
        content, found = sealed.read_sealed(source, "dytox checkpoint")
        del content["state"]["origin"]["config"]["memory"]["shares"]
        del content["state"]["origin"]["config"]["method"]["divergence"]
        reseal(source, found, content)
    assert len(resume(path, Told())["steps"]) == 3


def test_recipes_and_set_may_name_keys_of_any_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flip = recipes.compose("digits").augment.flip
    add_step(monkeypatch)
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("scale: demo\nconfig: {model: {colour: blue}, training: {passes: 7}}\n")
    assert recipes.compose(str(recipe)).training.epochs == 7
    assert recipes.compose("digits", overrides=["training.passes=9"]).training.epochs == 9
    assert recipes.compose("digits", values={"training": {"passes": 11}}).training.epochs == 11
    assert recipes.compose("digits").augment.flip == flip != 0.125
    with pytest.raises(UserError, match=r"model\.color"):
        recipes.compose("digits", overrides=["model.color=blue"])


def newer_model(path: Path) -> None:
    ContinualLearner.load(GOLDEN / "models" / "dytox").save(path)


def newer_run(path: Path) -> None:
    RunDirectory(path).create(RunDirectory(GOLDEN / "runs" / "dytox").read_config())


def newer_lesson(path: Path) -> None:
    shutil.copytree(GOLDEN / "lesson" / "model", path)
    for source in (path / ".learning").glob("*.json"):
        reseal(source, upgrade.current(), sealed.read_sealed(source, "dytox checkpoint")[0])


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (newer_model, ContinualLearner.load),
        (newer_run, resume),
        (newer_lesson, lambda path: teaching.teach(plan.make(path, GOLDEN / "lesson" / "spring"), Told())),
    ],
    ids=["model", "run", "lesson"],
)
def test_a_newer_format_is_refused_with_both_versions(
    write: Callable[[Path], None],
    read: Callable[[Path], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "it"
    with monkeypatch.context() as newer:
        newer.setattr(upgrade, "STEPS", [*upgrade.STEPS, FormatStep()])
        newer.setattr(sealed, "__version__", "9.9")
        newer.setattr(run_directory, "__version__", "9.9")
        write(path)
    with pytest.raises(upgrade.NewerFormat) as refused:
        read(path)
    now = upgrade.current()
    said = (
        f"by dytox 9.9 in format {now + 1}, and this is dytox {dytox.__version__}, which reads formats up to"
    )
    assert f"{said} {now}: update dytox." in str(refused.value)


def test_a_damaged_model_of_an_old_format_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ContinualLearner.load(GOLDEN / "models" / "dytox").save(tmp_path)
    content, found = sealed.read_sealed(tmp_path / "config.json", "dytox model")
    reseal(tmp_path / "config.json", found, {**content, "config": 5})
    add_step(monkeypatch)
    with pytest.raises(UserError, match=r"config\.json is damaged \(its parts do not fit"):
        ContinualLearner.load(tmp_path)


def test_an_update_of_the_package_goes_on_with_a_lesson_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Path(shutil.copytree(GOLDEN / "lesson" / "model", tmp_path / "model"))
    monkeypatch.setattr(keeping, "__version__", "9.9")
    epochs: list[int] = []

    class Watching(Told):
        def epoch_started(self, lesson: Any, *, steps: int, done: int) -> None:
            epochs.append(lesson.position.epoch)

    told = Watching()
    teaching.teach(plan.make(model, GOLDEN / "lesson" / "spring"), told)
    assert told.sentences == ["The lesson began with dytox 0.1.0 and goes on with 9.9."]
    assert epochs == [1, 0], "what was learned before the cut was learned again"


def test_a_lesson_that_does_not_fit_starts_anew_and_says_why(tmp_path: Path) -> None:
    model = Path(shutil.copytree(GOLDEN / "lesson" / "model", tmp_path / "model"))
    told = Told()
    teaching.teach(plan.make(model, GOLDEN / "lesson" / "spring", overrides=["training.lr=0.0123"]), told)
    (sentence,) = told.sentences
    assert sentence.startswith("The lesson that was cut off starts from its beginning: The lesson began with")
    assert "training.lr is 0.0123 and was" in sentence


@pytest.mark.parametrize("recorded", ["checkpoint", "environment"])
def test_other_threads_are_noticed(recorded: str, tmp_path: Path) -> None:
    path = copied("finetune-finished-task", tmp_path)
    if recorded == "environment":  # as format 1 left it
        environment = json.loads((path / "environment.json").read_text())
        (path / "environment.json").write_text(json.dumps({**environment, "threads": 3}))
    else:
        for source in (path / "checkpoints").glob("*.json"):
            content, found = sealed.read_sealed(source, "dytox checkpoint")
            content["state"]["origin"]["threads"] = 3
            reseal(source, found, content)
    told = Told()
    resume(path, told)
    (sentence,) = [each for each in told.sentences if "thread" in each]
    assert f"was computed with 3 threads and goes on with {torch.get_num_threads()}:" in sentence


def test_every_added_key_is_one_of_the_schema() -> None:
    known = flat(recipes.compose("digits").model_dump())
    for step in upgrade.STEPS:
        assert {key for key in step.added if not key.startswith("method.")} <= set(known)
