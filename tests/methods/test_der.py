"""DER, with and without masks, and Simple-DER-like: what is easily got wrong, each with its check."""

from __future__ import annotations

import copy
import inspect
from functools import partial

import pytest
import torch

from dytox import ContinualLearner, recipes
from dytox.data.loader import Batch
from dytox.engine.moment import Moment
from dytox.engine.schedule import learning_rate
from dytox.losses import sparsity
from dytox.methods.der import Der
from dytox.models import pruning
from dytox.models.base import Output
from dytox.models.extractors import ExtractorNet
from dytox.models.pruning import steepness
from dytox.models.resnet import SHAPES, ResNet, Shape
from dytox.randomness import Position

INCREMENTS = (2, 3, 2)
HARSH = {"method": {"sparsity": 1000.0, "steepness": 5.0}, "training": {"lr": 0.1}}  # masks close at once


@pytest.fixture(scope="module")
def plain(taught):
    return taught("der", increments=INCREMENTS)


@pytest.fixture(scope="module")
def masked(taught):
    return taught("der-pruned", increments=INCREMENTS, **HARSH)


@pytest.fixture(scope="module")
def simple(taught):
    return taught("simple_der", increments=INCREMENTS, method={"recovery_epochs": 1})


# The counts


@pytest.fixture(scope="module")
def backbones():
    """A ResNet18 of each stem, without its weights."""
    return {stem: ResNet("resnet18", stem=stem).to("meta") for stem in ("small", "large")}


@pytest.mark.parametrize(
    ("steps", "ours", "published"), [(10, 112.20, 112.27), (20, 224.40, 224.55), (50, 561.00, 561.39)]
)
def test_parameters_are_those_of_an_extractor_a_task(backbones, steps, ours, published):
    """The paper's table differs by the stem: 3 × 64 × (7² - 3²) weights an extractor."""
    small, large = (sum(each.numel() for each in backbones[stem].parameters()) for stem in backbones)
    structure = {"increments": [100 // steps] * steps, "masked": False, "divergence": False}
    with torch.device("meta"):
        model = ExtractorNet(partial(copy.deepcopy, backbones["small"]))
        full = [pruning.widths(model.last)] * steps
        model.rebuild({**structure, "extractors": full, "temperature": 5.0})
    assert sum(each.numel() for each in model.extractors.parameters()) == steps * 11_168_832
    assert model.count_parameters() / 1e6 == pytest.approx(ours, abs=0.005)
    assert large - small == 7680
    assert (model.count_parameters() + steps * 7680) / 1e6 == pytest.approx(published, abs=0.01)


# The presets


@pytest.mark.parametrize("name", ["der", "der-pruned", "simple_der"])
def test_the_presets_have_ders_schedule(name):
    config = recipes.compose("cifar100-10", method=name)
    assert (config.model.encoder, config.model.last_relu) == ("resnet18", True)
    rates = [learning_rate(config.training, epoch) for epoch in (0, 10, 109, 110, 130, 169)]
    assert rates == pytest.approx([0.01, 0.1, 0.1, 0.01, 0.001, 0.001])
    assert (config.training.epochs, config.training.batch, config.finetuning.batch) == (170, 128, 128)
    rates = [learning_rate(config.finetuning, epoch) for epoch in (0, 14, 15, 29)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01])
    assert config.finetuning.epochs == 30
    assert config.finetuning.optimizer == config.training.optimizer


# The phases


@pytest.mark.parametrize("kind", ["plain", "masked", "simple"])
def test_one_extractor_learns_and_the_old_ones_stay_with_their_statistics(request, kind):
    _, diary = request.getfixturevalue(kind)
    training = diary.chapter(2, "train")
    assert not any(training.moved("model.extractors.0.").values())
    assert not any(training.moved("model.extractors.1.").values())
    assert all(training.moved("model.extractors.2.").values())  # its BatchNorm's statistics too
    learning = {name.split(".")[2] for name in training.steps[0].gradients if "extractors" in name}
    assert learning == {"2"}


@pytest.mark.parametrize("kind", ["plain", "masked", "simple"])
def test_the_classifiers_own_training_leaves_the_features(request, kind):
    _, diary = request.getfixturevalue(kind)
    chapter = diary.chapter(2, "classifier")
    assert not any(chapter.moved("model.extractors.").values())
    assert all(chapter.moved("model.head.").values())
    assert not any(mode for name, mode in chapter.steps[0].modes.items() if "extractors" in name)
    assert all(diary.chapter(2, "reset").moved("model.head.").values())
    assert "classifier" not in diary.phases(0)


def test_the_classifiers_own_training_is_balanced_at_the_smallest_class(plain):
    _, diary = plain
    labels = torch.cat(
        [step.batch.labels for step in diary.chapter(2, "classifier").steps if step.epoch == 0]
    )
    assert torch.bincount(labels).tolist() == [2] * 7  # 14 // 5 exemplars of a class, before the new ones


def test_the_classifiers_temperature_divides_its_logits(plain, made):
    learner, _ = plain
    model, images = learner.method.model, made(0, 7, each=2).images / 255
    features = torch.cat([extractor(images).features for extractor in model.extractors], dim=1)
    weight = torch.cat([layer.weight for layer in model.head.linears()])
    torch.testing.assert_close(model(images).logits, features @ weight.T / 5)


def test_a_new_extractor_starts_from_the_last_one(plain):
    _, diary = plain
    after = diary.chapter(1, "expand").after
    for name in [each for each in after if each.startswith("model.extractors.1.")]:
        assert torch.equal(after[name], after[name.replace("extractors.1.", "extractors.0.")])


def test_the_second_classifiers_first_new_class_is_1_and_any_old_one_0(tiny):
    method = Der(tiny("der"))
    right = torch.full((4, 4), -40.0)
    right[[0, 1, 2, 3], [0, 0, 1, 3]] = 40.0  # of the labels 0, 1, 2, 4 of 2 old and 3 new classes
    batch = Batch.plain(torch.zeros(4, 3, 8, 8), torch.tensor([0, 1, 2, 4]))
    term = method.divergence(batch, Output(torch.zeros(4, 5), torch.zeros(4, 1, 1), right))
    assert term.sum.item() == 0.0
    assert term.count == 4


def test_classifiers_start_once_more_after_the_warm_up(tiny):
    method = Der(tiny("der", training={"epochs": 6, "schedule": {"warmup_epochs": 3}}))
    method.model.expand(2)
    method.model.expand(2)
    weights = [*method.model.head.parameters(), *method.model.divergence_head.parameters()]
    for phase, epoch, reset in [("train", 0, 0), ("train", 2, 0), ("classifier", 3, 0), ("train", 3, 1)]:
        before = [each.clone() for each in weights]
        method.before_epoch(Moment(phase, Position(1, 1, epoch)))
        same = [torch.equal(*pair) for pair in zip(weights, before, strict=True)]
        assert same == [not reset] * 4


# The masks


def random_net(masked: bool) -> ExtractorNet:
    """With statistics and masks that are not those of the start."""
    torch.manual_seed(0)
    model = ExtractorNet(partial(ResNet, "resnet8"), masked=masked)
    model.expand(3)
    for name, tensor in model.state_dict().items():
        if tensor.ndim == 1:
            tensor.copy_(torch.rand_like(tensor) - (0.4 if name.endswith(".e") else -0.1))
    return model.eval()


def test_a_pruned_network_equals_the_masked_one_and_is_smaller():
    model, images = random_net(masked=True), torch.randn(5, 3, 16, 16)
    wanted, parameters = model(images), model.count_parameters()
    kept = [int(mask.kept().sum()) for mask in pruning.masks(model.last)]
    pruning.prune_masked(model.last)
    found = model(images)
    assert pruning.widths(model.last) == kept
    assert all(0 < few < many for few, many in zip(kept, (16, 32, 64), strict=True))
    torch.testing.assert_close(found.embeddings, wanted.embeddings, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.logits, wanted.logits, atol=1e-5, rtol=0)
    gone = [(16 - kept[0]) * (9 * 32 + 2), (32 - kept[1]) * (9 * 48 + 2), (64 - kept[2]) * (9 * 96 + 2)]
    assert model.count_parameters() == parameters - sum(gone)


def test_a_trained_network_says_the_same_before_and_after_its_pruning(taught, made):
    """Through the method's own action; with shortcuts that are convolutions, as a ResNet18 has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SHAPES, "resnet8", Shape((8, 16), (1, 2), projected=True))
        learner, diary = taught("der-pruned", increments=(2, 2), **HARSH)
        trained = diary.chapter(1, "train")
        method = Der(learner.config)
        method.rebuild(trained.structure)
    method.load_state_dict({name: trained.after[name] for name in method.state_dict()})
    method.eval()
    images = made(0, 4, each=3).images / 255
    with torch.no_grad():
        wanted, before = method.model(images), pruning.widths(method.model.last)
        method.tidy(None)
        found = method.model(images)
    assert sum(pruning.widths(method.model.last)) < sum(before) == 8 + 16 + 16
    torch.testing.assert_close(found.embeddings, wanted.embeddings, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.logits, wanted.logits, atol=1e-5, rtol=0)


def test_the_layers_of_a_network_that_are_masked():
    """Both convolutions of each block; all of it counts with open masks, nothing with closed ones."""
    network = random_net(masked=True).last.train()
    shapes = [(kernel, len(before), len(after)) for kernel, before, after in pruning.masked_layers(network)]
    assert shapes == [(3, 16, 16), (3, 16, 16), (3, 16, 32), (3, 32, 32), (3, 32, 64), (3, 64, 64)]
    for value, expected in ((100.0, 1.0), (-100.0, 0.0)):
        for mask in pruning.masks(network):
            mask.e.data.fill_(value)
        assert sparsity(pruning.masked_layers(network)).sum.item() == pytest.approx(expected, abs=1e-6)


def test_a_new_extractor_takes_over_what_the_pruned_one_kept():
    model = random_net(masked=True)
    pruning.prune_masked(model.last)
    old = pruning.blocks(model.last)[0]
    model.expand(2)
    new, kept = pruning.blocks(model.last)[0], old.conv1.out_channels
    assert pruning.widths(model.last) == [16, 32, 64]
    assert torch.equal(new.conv1.weight[:kept], old.conv1.weight)
    assert torch.equal(new.conv2.weight[:, :kept], old.conv2.weight)
    assert torch.equal(new.bn1.norm.running_var[:kept], old.bn1.running_var)


def test_masks_get_steeper_within_an_epoch_and_are_gone_after_it(masked):
    learner, diary = masked
    training = diary.chapter(1, "train")
    assert any(name.endswith("mask.e") for name in training.before)
    assert all({"clf", "aux", "sparsity"} == set(step.terms) for step in training.steps)
    assert all({"clf"} == set(step.terms) for step in diary.chapter(1, "classifier").steps)
    assert not any(name.endswith("mask.e") for name in diary.chapter(1, "tidy").after)
    assert learner.method.model.structure()["masked"] is False
    method = Der(learner.config)
    method.model.expand(2)
    method.before_forward(Moment("train", Position(step=1), steps=3))
    assert [mask.s for mask in pruning.masks(method.model.last)] == [steepness(1, 3, 5.0)] * 3


def test_it_prunes_and_is_saved_loaded_and_taught_on(masked, made, tmp_path):
    learner, _ = masked
    widths = learner.method.model.structure()["extractors"]
    assert all(sum(each) < 16 + 32 + 64 for each in widths)
    learner.save(tmp_path)
    again, images = ContinualLearner.load(tmp_path), made(0, 7, each=3).images
    assert (again.predict_proba(images) == learner.predict_proba(images)).all()
    more = made(7, 9)
    again.learn(more.images, more.labels)
    assert again.method.model.structure()["extractors"][:3] == widths
    assert again.predict_proba(images).shape == (21, 9)


# Simple-DER-like


def test_the_rule_takes_no_number_and_keeps_filters_of_at_least_the_mean_norm():
    assert list(inspect.signature(pruning.prune_weak).parameters) == ["network"]
    model = random_net(masked=False)
    first = pruning.blocks(model.last)[0].conv1
    with torch.no_grad():
        first.weight.fill_(1e-3)
        first.weight[[2, 5]] = 0.5
        first.weight[7] = -1.0
    pruning.prune_weak(model.last)
    left = pruning.blocks(model.last)[0]
    assert left.conv1.weight[:, 0, 0, 0].tolist() == [0.5, 0.5, -1.0]
    assert left.conv2.weight.shape == (16, 3, 3, 3)
    assert left.bn1.num_features == 3


def test_what_is_kept_can_be_told_from_the_weights_alone(simple):
    _, diary = simple
    for task in range(3):
        chapter = diary.chapter(task, "prune")
        norms = [
            chapter.before[f"model.extractors.{task}.stages.{stage}.0.conv1.weight"]
            .abs()
            .flatten(1)
            .sum(dim=1)
            for stage in range(3)
        ]
        told = [sum(norm >= sum(each.tolist()) / len(each) for norm in each.tolist()) for each in norms]
        assert chapter.structure["model"]["extractors"][task] == told


def test_it_recovers_with_its_teacher_and_is_smaller_than_der(simple, plain):
    (learner, diary), (der, _) = simple, plain
    assert diary.phases(0) == ["expand", "train", "prune", "recover", "tidy", "memory"]
    for name in ("train", "recover"):
        assert {"clf", "kd", "aux"} == set(diary.chapter(1, name).steps[0].terms)
        weights = {key: term.weight for key, term in diary.chapter(2, name).steps[0].terms.items()}
        assert weights == pytest.approx({"clf": 2 / 7, "kd": 5 / 7, "aux": 1.0})
    assert all(diary.chapter(2, "recover").moved("model.extractors.2.stages.2.0.conv1").values())
    assert learner.method.model.count_parameters() < der.method.model.count_parameters()


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 0.0},
        {"temperature": "5"},
        {"extractors": [[16, 32]]},
        {"extractors": [[16, 0, 64]]},
        {"extractors": [[17, 32, 64]]},
    ],
)
def test_a_structure_that_cannot_be_is_refused(wrong):
    model = ExtractorNet(partial(ResNet, "resnet8"))
    model.expand(2)
    structure = model.structure()
    ExtractorNet(partial(ResNet, "resnet8")).rebuild(structure)
    with pytest.raises(ValueError, match=r"its pruned channels|the temperature"):
        ExtractorNet(partial(ResNet, "resnet8")).rebuild({**structure, **wrong})
