"""Forgetting a class: it is gone, and nothing else has moved by a bit."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dytox import ContinualLearner, DyTox
from dytox.config import Config
from dytox.data.samples import Samples
from dytox.errors import UserError

NAMES = ["ant", "butterfly", "cat", "dog", "elk", "fox"]
VARIANTS = {
    "tokens and heads": {},
    "tokens, one head": {"method": {"independent_heads": False}},
    "one token": {"method": {"independent_heads": False, "token_expansion": False}},
}

Make = Callable[..., Samples]
Tiny = Callable[..., Config]


def logits(learner: ContinualLearner, images: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return learner.method.model(images.float() / 255).logits


@pytest.fixture(scope="module", params=VARIANTS)
def taught(request: pytest.FixtureRequest, tiny: Tiny, made: Make) -> ContinualLearner:
    """Tasks of 3, 1 and 2 classes."""
    learner = ContinualLearner(tiny(**VARIANTS[request.param], memory={"size": 24}))
    for first, last in [(0, 3), (3, 4), (4, 6)]:
        samples = made(first, last)
        learner.learn(samples.images, [NAMES[label] for label in samples.labels], held_out=0.2)
    return learner


@pytest.fixture
def learner(taught: ContinualLearner) -> ContinualLearner:
    """One to forget with."""
    return copy.deepcopy(taught)


@pytest.mark.parametrize("gone", ["a", "b", "c", "d", "e", "f", "ac", "ef", "adf", "bcdef", "abcd", "abd"])
@pytest.mark.parametrize("batch", [1, 2, 33])
def test_the_remaining_logits_do_not_move_by_a_bit(
    learner: ContinualLearner, made: Make, tmp_path: Path, gone: str, batch: int
) -> None:
    images = made(0, 6).images[:batch]
    before, proba = logits(learner, images), learner.confidences(images)
    assert before.shape[1] == 6
    names = [name for name in NAMES if name[0] in gone]
    left = [place for place, name in enumerate(NAMES) if name not in names]
    learner.forget(*names)
    assert learner.classes_ == [NAMES[place] for place in left]
    assert torch.equal(logits(learner, images), before[:, left])
    expected = proba[:, left] / proba[:, left].sum(dim=1, keepdim=True)
    torch.testing.assert_close(learner.confidences(images), expected)
    learner.save(tmp_path)
    assert torch.equal(logits(ContinualLearner.load(tmp_path), images), before[:, left])


def test_one_after_the_other_is_the_same_too(learner: ContinualLearner, made: Make) -> None:
    images = made(0, 6).images
    before = logits(learner, images)
    for name in ("dog", "ant", "fox"):
        learner.forget(name)
    assert torch.equal(logits(learner, images), before[:, [1, 2, 4]])


@pytest.mark.parametrize("increments", [(5, 3, 1), (1, 1, 4, 7), (10, 10)])
def test_at_the_size_of_a_real_model(increments: tuple[int, ...]) -> None:
    """Larger products take other ways through the processor."""
    torch.manual_seed(0)
    model = DyTox(image_size=32, patch_size=8, dim=192, heads=12, depth=1).eval()
    for new in increments:
        model.expand(new)
    model.drop_divergence_head()
    images = torch.randn(33, 3, 32, 32)
    with torch.no_grad():
        before = model(images).logits
        for gone in ([0], list(range(increments[0])), [0, model.classes - 1]):
            twin = DyTox(image_size=32, patch_size=8, dim=192, heads=12, depth=1).eval()
            twin.rebuild(json.loads(json.dumps(model.structure())))
            twin.load_state_dict(model.state_dict())
            twin.forget(gone)
            left = [place for place in range(model.classes) if place not in gone]
            assert torch.equal(twin(images).logits, before[:, left])


def test_nothing_of_the_class_is_left(learner: ContinualLearner, tmp_path: Path) -> None:
    samples = learner.memory.samples
    own = {each.numpy().tobytes() for each in samples.images[samples.labels == 1]}
    own |= {each.numpy().tobytes() for each in learner.held_out.images[learner.held_out.labels == 1]}
    row = learner.method.model.heads.linears()[0].weight[1].clone()
    learner.forget("butterfly")
    learner.save(tmp_path)
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"butterfly" not in everything
    for image in own:
        assert image not in everything
    assert row.numpy().tobytes() not in everything
    assert sorted(learner.memory.samples.labels.unique().tolist()) == [0, 1, 2, 3, 4]
    assert sorted(learner.held_out.labels.unique().tolist()) == [0, 1, 2, 3, 4]
    assert learner.increments == [2, 1, 2]
    assert learner.history[-1]["forgotten"] == 1


def test_images_stay_with_their_classes(learner: ContinualLearner) -> None:
    def by_name() -> dict[str, set[bytes]]:
        found: dict[str, set[bytes]] = {}
        for image, label in zip(learner.memory.samples.images, learner.memory.samples.labels, strict=True):
            found.setdefault(learner.class_names[label], set()).add(image.numpy().tobytes())
        return found

    before = by_name()
    learner.forget("ant", "dog")
    assert by_name() == {name: images for name, images in before.items() if name not in ("ant", "dog")}


@pytest.mark.parametrize("decoder", ["tab", "tab-per-task", "film", "adapters"])
def test_an_empty_task_loses_its_token_where_heads_are_independent(
    tiny: Tiny, made: Make, decoder: str
) -> None:
    for over, zeroed in (({}, True), ({"independent_heads": False}, False)):
        learner = ContinualLearner(tiny(method=over, model={"decoder": decoder}))
        for first, last in [(0, 2), (2, 3), (3, 5)]:
            learner.learn(made(first, last).images, made(first, last).labels)
        before = logits(learner, made(0, 5).images)
        learner.forget("2")
        assert torch.equal(logits(learner, made(0, 5).images), before[:, [0, 1, 3, 4]])
        assert learner.increments == [2, 2]
        model = learner.method.model
        assert [bool(token.any()) for token in model.task_tokens] == [True, not zeroed, True]
        assert not model.heads.linears()[1].weight.any()
        if decoder in ("tab-per-task", "adapters"):
            assert any(weight.any() for weight in model.tab.tasks[1].parameters()) != zeroed
        assert learner.task.index == 1


def test_it_learns_on_afterwards_and_the_class_may_come_back(
    learner: ContinualLearner, made: Make, tmp_path: Path
) -> None:
    learner.forget("dog", "ant")
    learner.save(tmp_path)
    again = ContinualLearner.load(tmp_path)
    samples = made(6, 7)
    for each in (learner, again):
        each.learn(samples.images, ["gnu"] * len(samples))
        each.learn(made(3, 4).images, ["dog"] * 12)
        assert each.classes_ == ["butterfly", "cat", "elk", "fox", "gnu", "dog"]
        assert each.increments == [2, 2, 1, 1]
    images = made(0, 6).images
    assert torch.equal(logits(learner, images), logits(again, images))
    learner.save(tmp_path)
    assert torch.equal(logits(ContinualLearner.load(tmp_path), images), logits(learner, images))


def test_a_model_with_gaps_can_be_refreshed(learner: ContinualLearner, made: Make) -> None:
    learner.forget("dog", "ant")
    learner.learn(made(1, 2).images, ["butterfly"] * 12)
    assert learner.classes_ == ["butterfly", "cat", "elk", "fox"]
    assert learner.predict_proba(made(0, 6).images).shape == (72, 4)


@pytest.mark.parametrize("method", ["replay", "finetune", "joint"])
def test_every_method_forgets(tiny: Tiny, made: Make, method: str) -> None:
    learner = ContinualLearner(tiny(method))
    for first, last in [(0, 2), (2, 4)]:
        learner.learn(made(first, last).images, made(first, last).labels)
    images = made(0, 4).images
    before = logits(learner, images)
    learner.forget("2")
    assert torch.equal(logits(learner, images), before[:, [0, 1, 3]])
    learner.learn(made(4, 6).images, made(4, 6).labels)
    assert learner.classes_ == ["0", "1", "3", "4", "5"]


def test_what_cannot_be_forgotten(learner: ContinualLearner) -> None:
    with pytest.raises(UserError, match="Unknown class 'butterflys': did you mean 'butterfly'"):
        learner.forget("ant", "butterflys")
    with pytest.raises(UserError, match="Nothing would be left"):
        learner.forget(*NAMES)
    assert learner.classes_ == NAMES


def test_a_method_that_knows_classes_in_other_ways_refuses(learner: ContinualLearner) -> None:
    learner.method.register_buffer("means", torch.zeros(6, 2))
    with pytest.raises(UserError, match="dytox cannot forget a class"):
        learner.forget("ant")
    assert learner.classes_ == NAMES


def test_forgotten_classes_that_do_not_fit_are_refused() -> None:
    def build(sizes: list[int], forgotten: list[object]) -> None:
        model = DyTox(image_size=8, dim=8, heads=2, depth=1)
        model.rebuild({"increments": [2, 1], "divergence": False, "sizes": sizes, "forgotten": forgotten})

    build([3, 2, 1], [1, 3, 4])
    for forgotten in ([6, 1, 2], [1, 3, 6], [-1, 1, 3], [1, 1, 3], [1, 3], ["a", 1, 3]):
        with pytest.raises(ValueError, match="forgotten classes do not fit"):
            build([3, 2, 1], forgotten)
    for size in (10**9, 0, True):
        with pytest.raises(ValueError, match="tasks are not numbers"):
            build([3, size, 1], [1, 3, 4])
