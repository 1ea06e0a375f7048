"""PODNet: what is easily got wrong, each with its check."""

from __future__ import annotations

from math import exp, sqrt

import pytest
import torch
from torch.nn.functional import normalize

from dytox import ContinualLearner, recipes
from dytox.data.loader import Batch, mixed
from dytox.engine.moment import Moment
from dytox.engine.schedule import learning_rate
from dytox.errors import UserError
from dytox.methods.podnet import PodNet, PodNetOptions
from dytox.models.linear_heads import ProxyHead, centres
from dytox.models.pooled import PooledNet
from dytox.models.resnet import ResNet


@pytest.fixture(scope="module")
def diary(taught):
    return taught("podnet", increments=(2, 3, 2))[1]


@pytest.fixture
def grown(tiny):
    """In the middle of a second task, with its teacher."""
    torch.manual_seed(0)
    method = PodNet(tiny("podnet"))
    method.model.expand(2)
    method.keep_teacher(None)
    method.model.expand(3)
    return method.eval()


def test_the_preset_has_the_published_schedule():
    config = recipes.compose("cifar100-10", method="podnet")
    assert (config.model.encoder, config.model.last_relu) == ("resnet18", False)
    assert (config.training.epochs, config.training.batch) == (160, 128)
    rates = [learning_rate(config.training, epoch) for epoch in (0, 80, 160)]
    assert rates == pytest.approx([0.1, 0.05, 0.0])
    assert config.training.optimizer.weight_decay == 5e-4
    assert (config.finetuning.epochs, config.finetuning.effective_lr) == (20, 0.05)
    assert config.finetuning.schedule.name == "constant"
    assert PodNet.Options() == PodNetOptions(proxies=10, spatial=3.0, flat=1.0, clamp=5.0)


def test_the_similarity_to_a_class_by_hand():
    head = ProxyHead(2, proxies=2)
    head.expand(1)
    with torch.no_grad():
        head.tasks[0].weight.copy_(torch.tensor([[3.0, 0.0, 0.0, 0.5]]))  # along each axis
        head.scale.fill_(4.0)
    found = head(torch.tensor([[7.0, 0.0]]))  # cosines 1 and 0, similarities 0 and -2
    assert found.item() == pytest.approx(4 * (1 * 0 + exp(-2) * -2) / (1 + exp(-2)))


def test_the_order_of_a_classs_proxies_is_no_matter():
    head, features = ProxyHead(6, proxies=4), torch.randn(5, 6)
    head.expand(3)
    head.expand(2)
    before = head(features)
    with torch.no_grad():
        weight = head.tasks[0].weight
        weight[1] = weight[1].view(4, 6)[[2, 0, 3, 1]].flatten()
    torch.testing.assert_close(head(features), before)
    with torch.no_grad():
        weight[:, :6] = weight[[1, 2, 0], :6]  # proxies of other classes: another classifier
    assert not torch.allclose(head(features), before)


def test_parameters_are_those_of_a_resnet18_and_ten_proxies_a_class():
    with torch.device("meta"):
        model = PooledNet(ResNet("resnet18", last_relu=False), ProxyHead(512, proxies=10))
        model.rebuild({"increments": [10] * 10})
    assert model.count_parameters() == 11_168_832 + 100 * 10 * 512 + 1  # η


def test_there_is_no_pod_where_the_student_is_its_teacher_nor_without_one(grown, made):
    samples = made(0, 5, each=2)
    batch = Batch.plain(samples.images / 255, samples.labels)
    terms = grown.losses(batch, grown.model(batch.images))
    assert terms["pod_spatial"].sum.item() == 0
    assert terms["pod_flat"].sum.item() == pytest.approx(0, abs=1e-5)
    assert terms["pod_spatial"].weight == pytest.approx(3 * sqrt(5 / 3))
    assert terms["pod_flat"].weight == pytest.approx(sqrt(5 / 3))
    with torch.no_grad():
        grown.model.encoder.stem[0].weight.mul_(-1)
    terms = grown.losses(batch, grown.model(batch.images))
    assert terms["pod_spatial"].sum.item() > 0.1
    grown.drop_teacher(None)
    assert set(grown.losses(batch, grown.model(batch.images))) == {"clf"}


def test_the_last_map_and_the_features_may_be_negative(grown, made):
    with torch.no_grad():
        for bias in (block[-1].bn2.bias for block in grown.model.encoder.stages):
            bias.fill_(-1.0)
    output = grown.model(made(0, 2).images / 255)
    assert [bool((each < 0).any()) for each in output.maps] == [False, False, True]
    assert (output.embeddings < 0).any()


def test_mixed_labels_mix_losses(grown, made):
    samples = made(0, 2, each=2)
    plain = Batch.plain(samples.images / 255, torch.tensor([0, 1, 2, 3]))
    batch = mixed(plain, 0.75)
    output = grown.model(batch.images)

    def loss(labels: list[int]) -> float:
        alone = Batch.plain(batch.images, torch.tensor(labels))
        return grown.losses(alone, output)["clf"].sum.item()

    found = grown.losses(batch, output)["clf"].sum.item()
    assert found == pytest.approx(0.75 * loss([0, 1, 2, 3]) + 0.25 * loss([1, 0, 3, 2]))


def test_phases(diary):
    assert diary.phases(0) == ["expand", "train", "memory"]
    later = ["teacher", "expand", "imprint", "train", "tidy", "memory", "finetune"]
    assert diary.phases(1) == diary.phases(2) == later


def test_old_proxies_stay_in_training_and_proxies_alone_learn_in_finetuning(diary):
    training, finetuning = diary.chapter(2, "train"), diary.chapter(2, "finetune")
    for old in range(2):
        assert not any(training.moved(f"model.head.tasks.{old}.").values())
    assert all(training.moved("model.head.tasks.2.").values())
    assert all(training.moved("model.encoder.").values())
    assert all(finetuning.moved("model.head.").values())
    assert not any(finetuning.moved("model.encoder.").values())


def test_new_proxies_are_imprinted_as_long_as_the_old_ones(diary):
    chapter = diary.chapter(1, "imprint")
    moved = {name for name, other in chapter.moved("model.").items() if other}
    assert moved == {"model.head.tasks.1.weight"}
    old, new = (chapter.after[f"model.head.tasks.{task}.weight"].view(-1, 64) for task in range(2))
    torch.testing.assert_close(new.norm(dim=1), old.norm(dim=1).mean().expand(30))


def test_centres_are_the_means_of_groups():
    groups = torch.tensor([[1.0, 0.02], [1.0, -0.02], [0.02, -1.0], [-0.02, -1.0]])
    for seed in range(5):
        source = torch.Generator().manual_seed(seed)
        found = normalize(centres(groups * 7, 2, source))
        if (found[0] - found[1]).norm() > 1.3:  # not two centres in one group
            torch.testing.assert_close(
                found.sort(dim=0).values, torch.tensor([[0.0, -1.0], [1.0, 0.0]]).double()
            )
    assert centres(groups[:2], 5, torch.Generator()).shape == (5, 2)  # more than there are images


def test_gradients_are_clamped(grown):
    weight = grown.model.head.scale
    weight.grad = torch.tensor([17.0])
    grown.after_backward(Moment())
    assert weight.grad.item() == 5.0


@pytest.mark.parametrize("loss", [{"activation": "sigmoid"}, {"label_smoothing": 0.1}])
def test_what_its_loss_does_not_read_is_refused(tiny, loss):
    with pytest.raises(UserError, match=r"podnet has its own loss, so loss\.activation must be softmax"):
        ContinualLearner(tiny("podnet", loss=loss))
