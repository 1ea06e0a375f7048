"""Every registered method and a custom one, through three tasks of made data."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch

from dytox import ContinualLearner
from dytox.engine.method import Method
from dytox.export import program
from dytox.methods import registry
from dytox.models.base import Constant

COMPUTED = ("ncm", "slda", "ranpac", "fecam")
INCREMENTS = (2, 3, 2)
VARIANTS = ["finetune-resnet", "replay-resnet", "joint-resnet", "der-pruned"]
CUSTOM = "simplecil:SimpleCIL"  # of examples/; after its first task it has no training
SHORTER = {"simple_der": {"method": {"recovery_epochs": 1}}}


@pytest.fixture(scope="module", params=sorted({*registry.places(), *VARIANTS, CUSTOM}))
def run(request, taught):
    """The learner after the third task, and the diary of all three."""
    if request.param == CUSTOM:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
            return taught(CUSTOM, increments=INCREMENTS)
    return taught(request.param, increments=INCREMENTS, **SHORTER.get(request.param, {}))


def test_it_learns_in_every_task(run):
    """By training, or by an action that sets weights without any."""
    learner, diary = run
    for task in range(3):
        chapters = [chapter for chapter in diary.chapters if chapter.task == task]
        trained = any(chapter.training and chapter.steps for chapter in chapters)
        moved = any(any(chapter.moved("").values()) for chapter in chapters if chapter.name != "expand")
        assert trained or (moved and learner.config.method.name in (CUSTOM, *COMPUTED))


def test_every_parameter_that_learns_gets_a_gradient(run):
    _, diary = run
    for chapter in diary.chapters:
        for step in chapter.steps:
            assert step.gradients, (chapter.task, chapter.name)
            for name, gradient in step.gradients.items():
                assert gradient is not None, (chapter.task, chapter.name, name)
                assert gradient.isfinite().all(), (chapter.task, chapter.name, name)
        for name in chapter.steps[0].gradients if chapter.steps else ():
            assert any(step.gradients[name].any() for step in chapter.steps), (
                chapter.task,
                chapter.name,
                name,
            )
            assert chapter.moved(name)[name], (chapter.task, chapter.name, name)


def test_what_is_frozen_does_not_move(run):
    """Weights bit by bit, and the buffers of every module that is in eval mode."""
    _, diary = run
    for chapter in diary.chapters:
        if not chapter.training:
            continue
        learning, modes = set(chapter.steps[0].gradients), chapter.steps[0].modes
        assert all(set(step.gradients) == learning and step.modes == modes for step in chapter.steps)
        moved = chapter.moved("")
        assert moved.keys() == chapter.before.keys()
        for name, other in moved.items():
            may = modes[name.rpartition(".")[0]] if name in chapter.buffers else name in learning
            assert may or not other, (chapter.task, chapter.name, name)


def test_constants_never_learn(run):
    learner, diary = run
    constants = {name for name, weight in learner.method.named_parameters() if isinstance(weight, Constant)}
    for chapter in diary.chapters:
        for step in chapter.steps:
            assert not constants & set(step.gradients)


def test_a_teacher_only_watches(run):
    _, diary = run
    for chapter in diary.chapters:
        for step in chapter.steps:
            assert not any(mode for name, mode in step.modes.items() if name.startswith("teacher"))
            assert not any(name.startswith("teacher") for name in step.gradients)


def test_the_memory_stays_within_its_budget(run):
    learner, diary = run
    size = learner.config.memory.size
    for task in range(3):
        last = [chapter for chapter in diary.chapters if chapter.task == task][-1]
        labels, seen = last.memory["labels"], sum(INCREMENTS[: task + 1])
        if size == 0:
            assert len(labels) == 0
            continue
        counts = torch.bincount(labels).tolist()
        assert len(counts) == seen
        assert len(set(counts)) == 1
        assert 0 < len(labels) <= size
    assert (size > 0) == learner.method.uses_memory


def test_memory_holds_training_images_alone(run, made):
    learner, _ = run
    for image, label in zip(
        learner.memory.samples.images, learner.memory.samples.labels.tolist(), strict=True
    ):
        assert (made(label, label + 1).images == image).flatten(1).all(dim=1).any()


def test_losses_are_named_and_finite(run):
    _, diary = run
    for chapter in diary.chapters:
        for step in chapter.steps:
            assert step.terms
            for name, term in step.terms.items():
                assert torch.isfinite(term.sum), name
                assert term.count >= 0
            assert any(term.count for term in step.terms.values())


def test_it_predicts_among_all_classes_and_learns_nothing_now(run, made):
    learner, _ = run
    scores = learner.predict_proba(made(0, 7, each=2).images)
    assert scores.shape == (14, 7)
    assert ((scores >= 0) & (scores <= 1)).all()
    assert learner.classes_ == [str(label) for label in range(7)]
    assert not any(weight.requires_grad for weight in learner.method.parameters())
    assert not any(module.training for module in learner.method.modules())


def test_phases_are_a_function_of_the_task(run):
    """Asked twice, it says the same: a phase that is done is not run again."""
    learner, diary = run
    for task in range(3):
        names = diary.phases(task)
        assert len(names) == len(set(names))
    again = [[phase.name for phase in learner.method.phases(learner.task)] for _ in range(2)]
    assert again[0] == again[1] == diary.phases(2)


def test_it_can_be_rebuilt_after_every_phase(run):
    """From its structure, through JSON, and its tensors."""
    learner, diary = run
    for chapter in diary.chapters:
        method = type(learner.method)(learner.config)
        method.rebuild(json.loads(json.dumps(chapter.structure)))
        saved = set(method.state_dict())
        assert saved <= set(chapter.after)
        method.load_state_dict({name: tensor for name, tensor in chapter.after.items() if name in saved})
        buffers = {name for name, _ in method.named_buffers()}
        assert set(chapter.after) == saved | buffers
        assert method.structure() == chapter.structure


def test_saved_and_loaded_it_predicts_the_same(run, made, tmp_path):
    learner, _ = run
    learner.save(tmp_path / "model")
    again = ContinualLearner.load(tmp_path / "model", method=learner.config.method.name)
    images = made(0, 7, each=3).images
    assert (again.predict_proba(images) == learner.predict_proba(images)).all()
    assert torch.equal(again.memory.samples.images, learner.memory.samples.images)
    assert torch.equal(again.memory.samples.labels, learner.memory.samples.labels)


def test_exported_it_says_the_same(run, made):
    """As the graph that goes into a .pt2 file, and from which an .onnx file is made."""
    learner, _ = run
    graph = program(learner).module()
    for each in (1, 2):
        images = made(0, 7, each=each).images
        found = graph(images.permute(0, 2, 3, 1))
        torch.testing.assert_close(found, learner.confidences(images), atol=1e-5, rtol=0)


def test_a_forgotten_class_is_gone_and_no_other_logit_moves_by_a_bit(run, made, tmp_path):
    """And it can go on learning."""
    learner, images = copy.deepcopy(run[0]), made(0, 7, each=2).images
    with torch.no_grad():
        before = learner.method.model(images / 255).logits
        learner.forget("1", "5", "6")
        after = learner.method.model(images / 255).logits
    if not learner.method.forgets_exactly:  # else they are those of a model that never saw the class
        assert torch.equal(after, before[:, [0, 2, 3, 4]])
    assert learner.predict_proba(images).shape == (14, 4)
    learner.save(tmp_path / "model")
    again = ContinualLearner.load(tmp_path / "model", method=learner.config.method.name)
    assert (again.predict_proba(images) == learner.predict_proba(images)).all()
    new = made(7, 9)
    learner.learn(new.images, new.labels)
    assert learner.classes_ == ["0", "2", "3", "4", "7", "8"]
    assert learner.predict_proba(images).shape == (14, 6)


def test_it_introduces_itself(run):
    method = type(run[0].method)
    assert registry.find_method(run[0].config.method.name) is method
    assert method.summary
    assert "\n" not in method.summary + method.cannot


def test_a_method_that_says_nothing_is_told_what_is_missing(tiny):
    with pytest.raises(TypeError, match="Method builds no model"):
        Method(tiny())
