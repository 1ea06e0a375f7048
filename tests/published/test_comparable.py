"""Which published figures belong beside a run."""

from __future__ import annotations

import pytest

from dytox.config import Config, MethodConfig
from dytox.methods import registry
from dytox.published.comparable import compare, method_label, published_steps, recipe_differences
from dytox.recipes import compose


def config(recipe: str, *overrides: str, method: str = "dytox") -> Config:
    return compose(recipe, method=method, overrides=overrides)


SPLIT = "memory.shares=2"
EACH = ("memory.shares=2", "memory.budget=each")
MIXUP, SAM = "augment.mixup=0.8", "sam.rho=3.0"


@pytest.mark.parametrize(
    ("overrides", "memory", "avg", "word"),
    [
        ((), "global", 67.33, "global setting"),
        ((SPLIT,), "distributed", 71.50, "distributed setting"),
        (EACH, "original", 73.66, "first edition"),
        ((*EACH, MIXUP), "original", 75.54, "first edition"),
        ((*EACH, MIXUP, SAM), "original", 77.10, "first edition"),
        ((SPLIT, MIXUP), "distributed", 74.10, "distributed setting"),
    ],
)
def test_the_runs_own_memory_chooses(overrides: tuple[str, ...], memory: str, avg: float, word: str) -> None:
    found = compare(config("cifar100-10", *overrides))
    assert found.own is not None
    assert (found.own.memory, found.own.avg) == (memory, avg)
    assert word in found.sentences[0]
    assert found.own not in found.apart
    kinds = {row.memory for row in found.alongside if row.method.startswith("DyTox")}
    assert kinds <= {memory}
    assert {"iCaRL", "WA", "DER w/o P"} <= {row.method for row in found.alongside}


def test_what_was_never_measured_has_no_figure() -> None:
    found = compare(config("cifar100-20", MIXUP))  # DyTox+ with global memory: not on CIFAR
    assert found.own is None
    assert {row.memory for row in found.apart} == {"distributed", "original", "rerun"}
    assert "only with another kind of memory" in found.sentences[1]
    found = compare(config("cifar100-10", method="replay"))
    assert (found.own, found.apart) == (None, [])
    assert "no figure for replay" in found.sentences[1]


def test_another_size_of_memory_is_another_setting() -> None:
    found = compare(config("cifar100-10", "memory.size=1000"))
    assert (found.own, found.alongside, found.apart) == (None, [], [])
    assert "keeps 2,000 images in memory and this run 1,000" in found.sentences[0]
    assert compare(config("cifar100-10", "memory.per_class=20")).own is not None


def test_a_method_without_memory_is_told_so() -> None:
    assert "no memory" in compare(config("cifar100-10", method="finetune")).sentences[0]
    joint = compare(config("cifar100-10", method="joint"))
    assert joint.own is not None
    assert joint.own.last == 76.12


@pytest.mark.parametrize(
    ("recipe", "overrides", "steps"),
    [
        ("cifar100-10", [], 10),
        ("cifar100-50", [], 50),
        ("cifar100-10", ["scenario.increment=20"], None),
        ("cifar100-10", ["scenario.increments=[50, 50]"], None),
        ("cifar100-10", ["scenario.classes=100"], 10),
        ("cifar100-10", ["scenario.classes=50"], None),
        ("cifar100-b50-10", [], None),
        ("cifar100-10", ["data.validation_share=0.1"], None),
        ("cifar100-10", ["scenario.joint=true"], None),
        ("digits", [], None),
    ],
)
def test_the_setting_is_the_whole_dataset_in_equal_steps(
    recipe: str, overrides: list[str], steps: int | None
) -> None:
    assert published_steps(config(recipe, *overrides)) == steps
    if steps is None:
        assert compare(config(recipe, *overrides)).sentences == ["The paper has no figures for this setting."]


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "DyTox"),
        ([MIXUP], "DyTox+"),
        ([MIXUP, SAM], "DyTox++"),
        ([SAM], "DyTox with SAM"),
        (["method.divergence=0.0"], "DyTox w/o divergence"),
        (
            ["method.divergence=0.0", "method.independent_heads=false", MIXUP],
            "DyTox w/o divergence, heads with MixUp",
        ),
    ],
)
def test_names_are_the_papers(overrides: list[str], name: str) -> None:
    assert method_label(config("cifar100-10", *overrides)) == name


def test_another_method_with_mixup_is_not_the_published_one() -> None:
    assert method_label(config("cifar100-10", method="replay")) == "replay"
    assert method_label(config("cifar100-10", MIXUP, method="joint")) == "Transformer joint with MixUp"
    other = config("cifar100-10", method="replay").model_copy(
        update={"method": MethodConfig(name="module:Mine")}
    )
    assert method_label(other) == "Mine"


@pytest.mark.parametrize(
    ("method", "name", "own"),
    [
        ("der", "DER w/o P", 65.22),
        ("der-pruned", "DER", 64.35),
        ("joint-resnet", "ResNet18 joint", 80.41),
        ("joint", "Transformer joint", 76.12),
        ("replay-resnet", "replay on a ResNet18", None),
        ("dytox-hybrid", "DyTox with a ResNet", None),
        ("dytox-plus-plus", "DyTox++", None),
        ("simple_der", "Simple-DER-like", None),
    ],
)
def test_every_preset_goes_by_its_name(method: str, name: str, own: float | None) -> None:
    whole = registry.complete(config("cifar100-10", method=method))
    assert method_label(whole) == name
    found = compare(whole)
    assert (found.own and (found.own.last or found.own.avg)) == own
    assert not any("not the paper's recipe" in sentence for sentence in found.sentences)


@pytest.mark.parametrize(
    ("overrides", "name", "last"),
    [
        (["model.decoder=film"], "DyTox with FiLM", 54.05),
        (["model.decoder=tab-per-task"], "DyTox with a TAB per task", 56.0),
        (["model.decoder=adapters"], "DyTox with residual adapters", 52.38),
        (["model.decoder=film", "model.attention=plain"], "DyTox with FiLM with plain attention", None),
        (["model.decoder=film", MIXUP], "DyTox with FiLM with MixUp", None),
    ],
)
def test_other_parts_have_first_edition_figures(overrides: list[str], name: str, last: float | None) -> None:
    assert method_label(config("cifar100-50", *overrides)) == name
    assert compare(config("cifar100-50", *overrides)).own is None
    own = compare(config("cifar100-50", *overrides, *EACH)).own
    assert (own and own.last) == last


def test_the_ablation_has_first_edition_memory() -> None:
    without = ["method.independent_heads=false"]
    assert compare(config("cifar100-50", *without)).own is None
    own = compare(config("cifar100-50", *without, *EACH)).own
    assert own is not None
    assert (own.avg, own.last) == (68.28, 49.45)
    assert compare(config("cifar100-10", *without, *EACH)).own is None


def test_a_smaller_run_is_told_apart() -> None:
    assert recipe_differences(config("cifar100-10"), 10) == []
    assert recipe_differences(config("cifar100-10", MIXUP), 10) == []  # it is in the name
    found = recipe_differences(config("cifar100-10-short"), 10)
    assert "training.epochs 20 (500)" in found
    assert "model.dim 192 (384)" in found
    assert "augment.randaugment.operations None (2)" in recipe_differences(
        config("cifar100-10", "augment.randaugment=null"), 10
    )
    sentence = compare(config("cifar100-10-short")).sentences[-1]
    assert sentence.startswith(
        "This run is not the paper's recipe (there in brackets): model.patch_size 8 (4),"
    )


def test_imagenet_in_the_papers_batches() -> None:
    """The erratum's rows: one memory on 8 GPUs, shared memory on 4, so with half the batch."""
    own = compare(config("imagenet100-10"))
    assert own.own is not None
    assert (own.own.avg, own.own.top5_avg, len(own.sentences)) == (71.85, 90.72, 1)
    halved = ("memory.shares=4", "training.batch=512", "finetuning.batch=512")
    distributed = compare(config("imagenet100-10", *halved))
    assert distributed.own is not None
    assert (distributed.own.avg, len(distributed.sentences)) == (73.96, 1)
    assert "training.batch 512 (1024)" in compare(config("imagenet1000-10", *halved[1:])).sentences[-1]
