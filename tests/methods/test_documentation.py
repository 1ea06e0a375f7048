"""The pages on methods: the example runs as it stands, and every method is in the table."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from dytox import ContinualLearner, recipes
from dytox.cli.main import app
from dytox.methods import registry

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "add-a-method.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^dytox (train .*)$", PAGE, re.MULTILINE)


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The file of the page, where Python finds it."""
    (tmp_path / "distilling.py").write_text(CODE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "distilling:DistillingReplay"
    sys.modules.pop("distilling", None)


def test_the_example_is_short():
    assert len(CODE.splitlines()) < 60


def test_the_example_learns_with_its_teacher_on_either_network(example, tiny, made, tmp_path):
    for encoder, decoder in (("dytox", "tab"), ("resnet8", "pool")):
        options = {"temperature": 4.0}
        learner = ContinualLearner(
            tiny(example, model={"encoder": encoder, "decoder": decoder}, method=options)
        )
        for first in (0, 2):
            samples = made(first, first + 2)
            learner.learn(samples.images, samples.labels)
        assert learner.method.options.temperature == 4.0
        assert len(learner.memory) == 12
        learner.save(tmp_path / encoder)
        again = ContinualLearner.load(tmp_path / encoder, method=example)
        images = made(0, 4).images
        assert torch.equal(again.scores(images), learner.scores(images))


def test_the_command_of_the_page(example, tmp_path):
    words = shlex.split(COMMANDS[0])
    short = [
        "training.epochs=1",
        "training.schedule.warmup_epochs=0",
        "scenario.classes=4",
        "runtime.report=false",
    ]
    done = CliRunner().invoke(
        app, [*words, *(f"--set={each}" for each in short), "--out", str(tmp_path / "run")]
    )
    assert done.exit_code == 0, done.output
    assert '"kd"' in (tmp_path / "run" / "log.jsonl").read_text()


def test_the_dataset_of_the_page(tmp_path, monkeypatch):
    page = (DOCS / "datasets.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n# shades.py\n(.*?)```", page, re.DOTALL)
    train, resume = re.findall(r"^dytox (\w+ .*--dataset shades:load.*)$", page, re.MULTILINE)
    (tmp_path / "shades.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    short = ["training.epochs=1", "training.schedule.warmup_epochs=0", "runtime.report=false"]
    try:
        for words in ([*shlex.split(train), *(f"--set={each}" for each in short)], shlex.split(resume)):
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, done.output
    finally:
        sys.modules.pop("shades", None)


def test_every_method_and_preset_is_on_its_page():
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    variants = {name for name in recipes.methods() if name.startswith("dytox-")}
    for name in {*registry.BUILT_IN, *recipes.methods()} - variants:
        assert f"`{name}`" in page, name
