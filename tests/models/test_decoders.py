"""What could stand in the TAB's place, and the parameter counts of every architecture of the paper."""

from __future__ import annotations

import json

import pytest
import torch
from torch.nn.functional import gelu

from dytox import DyTox, recipes
from dytox.models.build import token_network

SMALL = {"image_size": 8, "patch_size": 4, "dim": 12, "heads": 3, "depth": 1, "drop_path": 0.5}
KINDS = ["tab-per-task", "film", "adapters"]


def grown(*increments: int, **shape) -> DyTox:
    torch.manual_seed(0)
    model = DyTox(**{**SMALL, **shape})
    for classes in increments:
        model.expand(classes)
    return model.eval()


IMAGES = torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(1))

# By hand, from the 10,779,664 of DyTox in 50 steps of 2 classes; a TAB has 1,773,312 (norms 2 · 768, keys,
# queries and values 3 · 384², projection 384² + 384, MLP 2 · 384 · 1,536 + 1,536 + 384).
FIFTY, TAB = 10_779_664, 1_773_312
COUNTS = {
    "a TAB per task": ([2] * 50, {"decoder": "tab-per-task"}, 97_671_952),  # FIFTY + 49 · TAB
    "FiLM": ([2] * 50, {"decoder": "film"}, FIFTY - TAB + 50 * 384),  # θ is twice as long
    "adapters": (
        [2] * 50,
        {"decoder": "adapters"},
        FIFTY - TAB + 50 * (2 * 384**2 + 384),
    ),  # no θ but biases
    "patches of 8": ([2] * 50, {"patch_size": 8}, FIFTY + (3 * 64 - 3 * 16) * 384 - (64 - 16) * 384),
    "patches of 16": ([2] * 50, {"patch_size": 16}, FIFTY + (3 * 256 - 3 * 16) * 384 - (64 - 4) * 384),
    "plain attention": ([2] * 50, {"attention": "plain"}, FIFTY - 5 * (3 * 12 + 12 + 12)),
    "ImageNet-100, joint": ([100], {"image_size": 224, "patch_size": 16}, 11_050_384),
    "ImageNet-100": ([10] * 10, {"image_size": 224, "patch_size": 16}, 11_060_752),
    "ImageNet-1000, joint": ([1000], {"image_size": 224, "patch_size": 16}, 11_396_884),
    "ImageNet-1000": ([100] * 10, {"image_size": 224, "patch_size": 16}, 11_407_252),
}


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts(name):
    increments, shape, expected = COUNTS[name]
    with torch.device("meta"):
        model = DyTox(**{"image_size": 32, **shape})
        for classes in increments:
            model.expand(classes)
    assert model.count_parameters() == expected


def test_the_hybrid_counts_less_than_the_papers_table_says():
    """6,084,972 in 50 steps; the table's 10.68 M is about what the transformer has.

    Stem 1,856; stages 147,968, 525,568 and 2,099,712; 256 · 504 + 504 and BatchNorm 1,008; the TAB of length
    504 3,053,232; 50 tokens of 504 and 50 heads of 1,008 + 1,010.
    """
    with torch.device("meta"):
        config = recipes.compose("cifar100-50", method="dytox-hybrid")
        model = token_network(config, token_expansion=True, independent_heads=True, divergence=True)
        for _ in range(50):
            model.expand(2)
    encoder = 1_856 + 147_968 + 525_568 + 2_099_712 + 129_528 + 1_008
    assert sum(weight.numel() for weight in model.encoder.parameters()) == encoder
    assert model.count_parameters() == encoder + 3_053_232 + 50 * (504 + 2_018) == 6_084_972
    assert model.encoder(torch.empty(2, 3, 32, 32, device="meta")).tokens.shape == (2, 64, 504)


def test_where_the_papers_counts_come_from():
    """97.59 M shares the LayerNorms of the TABs; ImageNet's fit an embedding of 64 positions, not 196."""
    assert (97_671_952 - 49 * 2 * 768) // 10_000 == 9_759
    pairs = {"ImageNet-100, joint": 11.00, "ImageNet-100": 11.01}
    pairs |= {"ImageNet-1000, joint": 11.35, "ImageNet-1000": 11.36}
    for name, published in pairs.items():
        assert round((COUNTS[name][2] - (196 - 64) * 384) / 1e6, 2) == published


def test_a_tab_per_task_of_equal_weights_is_one_tab():
    shared, own = grown(2, 3, 1, drop_path=0.5), grown(2, 3, 1, decoder="tab-per-task")
    weights = {name: tensor for name, tensor in shared.state_dict().items() if not name.startswith("tab.")}
    for task in range(3):
        weights |= {f"tab.tasks.{task}.{name}": each for name, each in shared.tab.state_dict().items()}
    own.load_state_dict(weights)
    draws = shared.draw(torch.Generator().manual_seed(2), len(IMAGES))
    for mode in (True, False):
        one, other = (model.train(mode)(IMAGES, draws) for model in (shared, own))
        torch.testing.assert_close(other.logits, one.logits, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(other.divergence, one.divergence, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(own.attention(IMAGES), shared.attention(IMAGES))


def test_film_scales_and_shifts_the_pooled_patches():
    model = grown(2, 2, decoder="film")
    pooled = model.encoder(IMAGES).tokens.mean(dim=1)
    torch.testing.assert_close(model(IMAGES).embeddings, torch.stack([pooled, pooled], dim=1))  # at first
    with torch.no_grad():
        model.task_tokens[1].copy_(torch.arange(24.0))
    expected = pooled * torch.arange(12.0) + torch.arange(12.0, 24.0)
    torch.testing.assert_close(model(IMAGES).embeddings, torch.stack([pooled, expected], dim=1))
    assert model.attention(IMAGES) is None


def test_a_residual_adapter_adds_an_mlp_of_the_pooled_patches():
    model = grown(2, 2, decoder="adapters")
    pooled = model.encoder(IMAGES).tokens.mean(dim=1)
    for task, adapter in enumerate(model.tab.tasks):
        hidden = gelu(pooled @ adapter.up.weight.T + adapter.up.bias)
        expected = pooled + hidden @ adapter.down.weight.T + model.task_tokens[task]
        torch.testing.assert_close(model(IMAGES).embeddings[:, task], expected)
    assert model.attention(IMAGES) is None


@pytest.mark.parametrize("single", [False, True], ids=["independent", "single"])
@pytest.mark.parametrize("kind", KINDS)
def test_growing_forgetting_and_rebuilding(kind, single):
    """No old logit changes by growing; none moves when other classes go; a rebuilt model is equal."""
    shape = {"decoder": kind, "independent_heads": not single}
    model = grown(2, 2, **shape)
    before = model(IMAGES).logits
    model.expand(3)
    torch.testing.assert_close(model(IMAGES).logits[:, :4], before)
    model.drop_divergence_head()
    before = model(IMAGES).logits
    model.forget([2, 3, 5])  # all of the second task
    left = before[:, [0, 1, 4, 6]]
    assert torch.equal(model(IMAGES).logits, left)
    twin = DyTox(**SMALL, **shape).eval()
    twin.rebuild(json.loads(json.dumps(model.structure())))
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(IMAGES).logits, left)
    if kind == "tab-per-task" and not single:
        assert not any(weight.any() for weight in model.tab.tasks[1].parameters())
    model.expand(1)
    torch.testing.assert_close(model(IMAGES).logits[:, :4], left)
