"""UCIR: what is easily got wrong, each with its check."""

from __future__ import annotations

import pytest
import torch

from dytox.data.loader import Batch
from dytox.losses import cosine_distance, margin_ranking

DECAYING = {"training": {"optimizer": {"weight_decay": 0.1}}}


@pytest.fixture(scope="module")
def run(taught):
    return taught("ucir", increments=(2, 3, 1), **DECAYING)  # then K = 2 is more than the new classes


def test_no_logit_is_above_the_scale(run, made):
    learner, _ = run
    model = learner.method.model
    with torch.no_grad():
        model.head.scale.fill_(3.0)
        logits = model(made(0, 6).images / 255).logits
    assert logits.abs().max() <= 3.0 + 1e-5
    assert logits.abs().max() > 1.0


def test_the_ranking_does_not_depend_on_the_scale(midway, made):
    method = midway("ucir", [2, 3])
    samples = made(0, 5, each=2)
    batch = Batch.plain(samples.images / 255, samples.labels)
    sums = []
    for scale in (1.0, 7.0):
        with torch.no_grad():
            method.model.head.scale.fill_(scale)
        sums.append(method.losses(batch, method.model(batch.images))["ranking"])
    assert sums[0].sum > 0
    assert torch.equal(sums[0].sum, sums[1].sum)
    (gradient,) = torch.autograd.grad(sums[1].sum, method.model.head.scale, allow_unused=True)
    assert gradient is None
    assert sums[0].count == 4 * 2  # images of old classes, two hard classes each


def test_some_features_are_negative(run, made):
    learner, _ = run
    with torch.no_grad():
        features = learner.method.model(made(0, 6).images / 255).embeddings
    assert (features < 0).any()


@pytest.mark.parametrize("task", [1, 2])
def test_old_rows_stay_bit_by_bit_whatever_the_decay(run, task):
    chapter = run[1].chapter(task, "train")
    assert not any(any(chapter.moved(f"model.head.tasks.{old}.").values()) for old in range(task))
    for part in (f"model.head.tasks.{task}.weight", "model.head.scale"):
        assert chapter.moved(part)[part]


def test_new_rows_start_as_the_direction_of_their_class(run, made):
    learner, diary = run
    chapter = diary.chapter(1, "imprint")
    model = type(learner.method)(learner.config).eval().model
    model.rebuild({"increments": [2, 3]})
    weights = {name: chapter.before[f"model.{name}"] for name in model.state_dict()}
    model.load_state_dict(weights)
    data = learner.config.data
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (data.mean, data.std))
    with torch.no_grad():
        vectors = model((made(2, 5).images / 255 - mean) / std).embeddings[:, 0].view(3, 12, -1)
    directions = (vectors / vectors.norm(dim=2, keepdim=True)).mean(dim=1)
    length = chapter.before["model.head.tasks.0.weight"].norm(dim=1).mean()
    expected = directions / directions.norm(dim=1, keepdim=True) * length
    torch.testing.assert_close(chapter.after["model.head.tasks.1.weight"], expected, atol=1e-5, rtol=1e-4)
    assert {name for name, moved in chapter.moved("").items() if moved} == {"model.head.tasks.1.weight"}
    assert "imprint" not in diary.phases(0)


def test_the_weight_of_the_distillation_grows_with_old_over_new(midway, made):
    method = midway("ucir", [2, 3, 2])
    batch = Batch.plain(made(5, 7, each=2).images / 255, torch.tensor([5, 5, 6, 6]))
    terms = method.losses(batch, method.model(batch.images))
    assert terms["direction"].weight == pytest.approx(5 * (5 / 2) ** 0.5)
    assert terms["direction"].sum.item() == pytest.approx(0, abs=1e-5)  # it is its own teacher yet
    assert (terms["ranking"].count, terms["ranking"].sum.item()) == (0, 0.0)  # no image of an old class
    assert set(midway("ucir", [2]).losses(Batch.plain(batch.images, batch.labels - 5), _first(method))) == {
        "clf"
    }


def _first(method):
    return method.model(torch.zeros(4, 3, 8, 8))


def test_losses_by_hand():
    cosines = torch.tensor([[0.9, 0.1, 0.3, 0.8, 0.5], [0.2, 0.4, 0.0, 0.1, -0.2], [0.0, 0.0, 1.0, 0.0, 0.0]])
    labels = torch.tensor([0, 1, 2])  # two classes are old
    term = margin_ranking(cosines, labels, old=2, margin=0.5, hardest=2)
    # .5 - .9 + .8 = .4, .5 - .9 + .5 = .1; .5 - .4 + .1 = .2, .5 - .4 + 0 = .1
    assert (term.sum.item(), term.count) == (pytest.approx(0.8), 4)
    one = margin_ranking(cosines[:, :3], labels, old=2, margin=0.5, hardest=2)  # a single new class
    assert (one.sum.item(), one.count) == (pytest.approx(0.1), 2)
    features, teacher = torch.tensor([[3.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0, 2.0], [5.0, 5.0]])
    assert cosine_distance(features, teacher).sum.item() == pytest.approx(1.0)
