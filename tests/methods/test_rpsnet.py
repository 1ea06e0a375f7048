"""RPSNet: what is easily got wrong, each with its check."""

from __future__ import annotations

from math import log

import pytest
import torch

from dytox import recipes
from dytox.data.loader import Batch
from dytox.engine.schedule import learning_rate
from dytox.methods.rpsnet import RpsNet, distillation_of_all
from dytox.models.build import path_net
from dytox.models.paths import PathNet


@pytest.fixture(scope="module")
def diary(taught):
    """Three tasks on two paths."""
    return taught("rpsnet", increments=(2, 3, 2))[1]


def test_the_preset_has_the_published_schedule():
    config = recipes.compose("cifar100-10", method="rpsnet")
    assert (config.training.epochs, config.training.batch, config.memory.selection) == (100, 128, "random")
    assert (config.training.optimizer.name, config.training.optimizer.weight_decay) == ("adamw", 0.0)
    rates = [learning_rate(config.training, epoch) for epoch in (0, 19, 20, 40, 60, 99)]
    assert rates == pytest.approx([1e-3, 1e-3, 5e-4, 2.5e-4, 1.25e-4, 6.25e-5])
    assert path_net(config, places=8, tasks_per_path=2).dim == 512


def test_parameters_with_five_modules_a_level():
    with torch.device("meta"):
        model = PathNet(64, places=8, tasks_per_path=2)
        for _ in range(10):
            model.expand(10)
    assert [len(level.used) for level in model.levels] == [5] * 9
    assert model.count_parameters() == 56_596_836
    assert model.count_parameters() / 1e6 == pytest.approx(56.5, abs=0.1)  # the paper's table


def test_paths_are_drawn_among_free_places_and_added_to_beyond_them():
    torch.manual_seed(0)
    model = PathNet(1, places=3, tasks_per_path=1)
    seen: list[set[str]] = [set()] * 9
    for task in range(5):
        model.expand(1)
        used = [set(level.used) for level in model.levels]
        assert all(before < after for before, after in zip(seen, used, strict=True))  # the union only grows
        assert [len(each) for each in used] == [task + 1] * 9
        seen = used
    assert model.paths[0] == [0] * 9
    assert len({tuple(path) for path in model.paths[1:3]}) == 2
    assert all(sorted(places[:3]) == [0, 1, 2] for places in zip(*model.paths, strict=True))  # all of M first
    assert model.paths[3:] == [[3] * 9, [4] * 9]  # then more
    assert {1, 2} == set(model.paths[1])  # at random


def test_a_path_serves_two_tasks(diary):
    paths = [diary.chapter(task, "expand").structure["model"]["paths"] for task in range(3)]
    assert [len(each) for each in paths] == [1, 1, 2]


def test_modules_of_earlier_paths_stay_with_their_statistics(diary):
    chapter = diary.chapter(2, "train")
    last = chapter.structure["model"]["paths"][-1]
    for level, place in enumerate(last):
        assert not any(chapter.moved(f"model.levels.{level}.used.0.").values())
        moved = chapter.moved(f"model.levels.{level}.used.{place}.")
        assert all(other for name, other in moved.items() if not name.endswith(".bias"))
    for level in (3, 5, 7):
        assert chapter.moved(f"model.levels.{level}.shortcut.0.weight").popitem()[1]
        assert not chapter.before[f"teacher.levels.{level}.shortcut.0.weight"].equal(
            chapter.after[f"model.levels.{level}.shortcut.0.weight"]
        )
    assert all(chapter.moved("model.head.").values())  # old rows too


def test_the_teacher_is_the_last_tasks_model_on_its_own_paths(tiny, made):
    torch.manual_seed(0)
    method, images = RpsNet(tiny("rpsnet")).eval(), made(0, 2).images / 255
    method.model.expand(2)
    method.model.expand(2)
    before = method.model(images).logits
    method.keep_teacher(None)
    method.model.expand(3)
    assert len(method.model.paths) == 2
    assert len(method.teacher.paths) == 1
    assert torch.equal(method.teacher(images).logits, before)
    assert not torch.allclose(method.model(images).logits[:, :4], before, atol=1e-3)


def test_the_distillation_by_hand():
    """p = (¾, ¼) wanted and q = (½, ½): only the first part of the divergence is above 0."""
    term = distillation_of_all(torch.zeros(1, 2), torch.tensor([[2 * log(3), 0.0]]), 2.0)
    assert term.sum.item() == pytest.approx(0.75 * log(1.5))
    assert term.count == 1
    assert distillation_of_all(torch.ones(1, 2), torch.zeros(1, 2), 2.0).sum.item() == pytest.approx(
        0, abs=1e-6
    )


def test_the_distillation_sees_old_logits_and_new_labels_and_weighs_more_with_every_task(tiny, made):
    torch.manual_seed(0)
    method = RpsNet(tiny("rpsnet")).eval()
    samples = made(0, 2, each=1)
    batch = Batch.plain(samples.images / 255, torch.tensor([0, 2]))
    method.model.expand(2)
    weights = []
    for _ in range(6):
        method.keep_teacher(None)
        method.model.expand(2)
        output = method.model(batch.images)
        terms = method.losses(batch, output)
        weights.append(terms["kd"].weight)
        if len(weights) == 1:
            wanted = torch.cat([method.teach(batch).logits, torch.tensor([[0.0, 0.0], [1.0, 0.0]])], dim=1)
            expected = distillation_of_all(output.logits, wanted, 2.0).sum
            torch.testing.assert_close(terms["kd"].sum, expected)
    assert weights == [1.0, 1.0, 2.5, 5.0, 7.5, 10.0]  # of the second task on


@pytest.mark.parametrize(
    "wrong",
    [
        {"paths": [[0] * 9, [0] * 9]},
        {"paths": [[1] * 9]},
        {"paths": [[0] * 9, [-1] * 9]},
        {"paths": [[0] * 9, [1] * 8]},
        {"tasks_on_path": 3},
        {"tasks_on_path": "1"},
    ],
)
def test_paths_that_cannot_be_are_refused(wrong):
    model = PathNet(1, places=3, tasks_per_path=2)
    model.expand(2)
    again = PathNet(1, places=3, tasks_per_path=2)
    with pytest.raises(ValueError, match="its paths do not fit"):
        again.rebuild({**model.structure(), **wrong})
    again.rebuild(model.structure())
    assert again.structure() == model.structure()
