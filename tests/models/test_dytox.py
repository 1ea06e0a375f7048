"""The model: the batched form against the plain one, sizes, growth, DropPath, and what is refused."""

from __future__ import annotations

import copy
import json

import pytest
import torch

from dytox import DyTox
from dytox.bench import plain
from dytox.config import Config
from dytox.errors import UserError
from dytox.models.base import Constant, ContinualModel
from dytox.models.build import token_network

SMALL = {"image_size": 8, "patch_size": 4, "dim": 12, "heads": 3, "depth": 2}
MANY = {
    1: [3],
    2: [4, 1],
    3: [2, 5, 3],
    7: [1, 2, 3, 4, 3, 2, 1],
    20: [2, 1, 3, 1] * 5,
    50: [2, 1] * 25,
}
SHAPES = {
    "2x2 patches": {},
    "one head": {"heads": 1, "dim": 10},
    "two heads, oblong mlp": {"heads": 2, "dim": 14, "mlp_ratio": 1.5, "depth": 1},
    "many heads": {"heads": 16, "dim": 32, "image_size": 9, "patch_size": 3},
    "one patch": {"image_size": 5, "patch_size": 5},
    "patch of a pixel": {"image_size": 4, "patch_size": 1, "depth": 3},
    "strong locality": {"locality_strength": 2.5, "heads": 4, "image_size": 12, "patch_size": 4},
    "plain attention": {"attention": "plain", "image_size": 10, "patch_size": 2, "heads": 6},
    "no divergence": {"divergence": False},
    "single head": {"independent_heads": False},
    "single head, plain attention": {"independent_heads": False, "attention": "plain", "heads": 6},
    "one token": {"independent_heads": False, "token_expansion": False},
}


def grown(increments: list[int], **shape) -> DyTox:
    """A model after some tasks, none of whose weights is as it began."""
    torch.manual_seed(len(increments))
    model = DyTox(**{**SMALL, "drop_path": 0.4, **shape})
    for classes in increments:
        model.expand(classes)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape) * 0.1)
    return model


def images_for(model: DyTox, count: int = 3) -> torch.Tensor:
    tokenizer = model.encoder.tokenizer
    side = tokenizer.side * tokenizer.proj.kernel_size[0]
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(7)).to(
        tokenizer.pos_embed
    )


def outputs(output) -> dict[str, torch.Tensor]:
    found = {"logits": output.logits, "embeddings": output.embeddings, "divergence": output.divergence}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def gradients(model: DyTox, output) -> dict[str, torch.Tensor]:
    """Of a weighted mean of all outputs, in which every value has a weight of its own."""
    total = 0.0
    for tensor in outputs(output).values():
        weights = torch.linspace(-1, 2, tensor.numel()).view_as(tensor).to(tensor)
        total = total + (weights * tensor).mean()
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    found = torch.autograd.grad(total, list(weights.values()))  # refuses a weight that has none
    return dict(zip(weights, found, strict=True))


def hold_equal(model: DyTox, *, dropping: bool, tolerance: float) -> None:
    images = images_for(model)
    draws = model.draw(torch.Generator().manual_seed(1), len(images))
    model.train(dropping)
    ours = model(images, draws)
    theirs = plain.forward(model, images, draws if dropping else None)
    assert outputs(ours).keys() == outputs(theirs).keys()
    pairs = [(outputs(ours), outputs(theirs)), (gradients(model, ours), gradients(model, theirs))]
    for mine, expected in pairs:
        for name, tensor in expected.items():
            torch.testing.assert_close(
                mine[name],
                tensor,
                atol=tolerance,
                rtol=tolerance,
                msg=lambda text, name=name: f"{name}: {text}",
            )


@pytest.mark.parametrize("dropping", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("tasks", MANY)
@pytest.mark.parametrize("shape", [{}, {"independent_heads": False}], ids=["independent", "single"])
def test_batched_equals_plain_for_any_number_of_tasks(tasks, shape, dropping):
    model = grown(MANY[tasks], **shape)
    assert model(images_for(model)).logits.shape == (3, sum(MANY[tasks]))
    hold_equal(model, dropping=dropping, tolerance=1e-5)
    hold_equal(model.double(), dropping=dropping, tolerance=1e-11)


@pytest.mark.parametrize("dropping", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("shape", SHAPES)
def test_batched_equals_plain_for_any_shape(shape, dropping):
    model = grown([2, 4, 1], **SHAPES[shape])
    hold_equal(model, dropping=dropping, tolerance=1e-5)
    hold_equal(model.double(), dropping=dropping, tolerance=1e-11)


@pytest.mark.parametrize(
    ("increments", "parameters"),
    [
        ([10] * 10, 10_733_584),
        ([5] * 20, 10_745_104),
        ([2] * 50, 10_779_664),
        ([100], 10_723_216),
    ],
    ids=["10 steps", "20 steps", "50 steps", "joint"],
)
def test_parameter_counts_of_the_paper(increments, parameters):
    model = DyTox(image_size=32)
    for classes in increments:
        model.expand(classes)
    assert model.count_parameters() == parameters
    everything = sum(weight.numel() for weight in model.parameters())
    new = increments[-1]
    assert everything - parameters == (384 * (new + 1) + (new + 1) + 768 if len(increments) > 1 else 0)


def test_the_divergence_head_of_ten_classes_is_not_counted():
    model = DyTox(image_size=32, depth=1)
    model.expand(10)
    model.expand(10)
    counted = model.count_parameters()
    assert sum(weight.numel() for weight in model.parameters()) - counted == 5_003
    model.drop_divergence_head()
    assert model.count_parameters() == counted


def test_an_embedding_depends_on_its_own_token_alone():
    model = grown([2, 2, 2]).eval()
    images = images_for(model)
    before = model(images)
    with torch.no_grad():
        model.task_tokens[0].add_(3.0)
        model.task_tokens[2].mul_(-5.0)
    after = model(images)
    torch.testing.assert_close(after.embeddings[:, 1], before.embeddings[:, 1], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(after.logits[:, 2:4], before.logits[:, 2:4], atol=1e-6, rtol=1e-6)
    for i in (0, 2):
        assert (after.embeddings[:, i] - before.embeddings[:, i]).abs().min() > 1e-3
    found = torch.autograd.grad(after.embeddings[:, 1].square().sum(), list(model.task_tokens))
    assert [bool(gradient.any()) for gradient in found] == [False, True, False]


def test_an_independent_head_sees_its_own_embedding_alone():
    model = grown([2, 3, 2])
    embeddings = torch.randn(4, 3, 12, requires_grad=True)
    model.heads(embeddings)[:, 2:5].square().sum().backward()
    assert [bool(embeddings.grad[:, i].any()) for i in range(3)] == [False, True, False]


@pytest.mark.parametrize("tokens", [True, False], ids=["a token a task", "one token"])
def test_growing_the_single_head_changes_no_old_logit(tokens):
    model = grown([3, 2], independent_heads=False, token_expansion=tokens).eval()
    images = images_for(model)
    before = model(images).logits
    for new in (1, 4):
        model.expand(new)
        after = model(images).logits
        assert after.shape[1] == before.shape[1] + new
        torch.testing.assert_close(after[:, : before.shape[1]], before, atol=1e-6, rtol=0)
        before = after
    rows = model.heads.tasks[0].weight
    assert rows.shape == (3, 12 * len(model.task_tokens))
    assert not rows[:, 24:].any()


def test_growing_independent_heads_changes_no_old_logit():
    model = grown([3, 2]).eval()
    before = model(images_for(model)).logits
    model.expand(6)
    torch.testing.assert_close(model(images_for(model)).logits[:, :5], before, atol=1e-6, rtol=0)


def test_new_weights_take_the_type_of_the_old():
    model = grown([2]).double()
    model.expand(2)
    assert {weight.dtype for weight in model.parameters()} == {torch.float64}


def test_the_divergence_head_comes_with_the_second_task():
    model = DyTox(**SMALL)
    model.expand(3)
    assert model(images_for(model)).divergence is None
    model.expand(4)
    first = model.divergence_head
    assert model(images_for(model)).divergence.shape == (3, 5)
    model.expand(2)
    assert model.divergence_head is not first
    assert model(images_for(model)).divergence.shape == (3, 3)


def test_a_new_token_is_no_copy():
    model = DyTox(**SMALL)
    model.expand(2)
    model.expand(2)
    tokens = model.tokens()
    assert not torch.equal(tokens[0], tokens[1])
    assert tokens.abs().max() < 0.2  # trunc-normal of deviation 0.02


def test_drop_rates_rise_linearly():
    model = DyTox(**{**SMALL, "depth": 5}, drop_path=0.1)
    expected = [0.0, 0.02, 0.04, 0.06, 0.08, 0.1]
    torch.testing.assert_close(model.drop_rates, torch.tensor(expected))
    model = DyTox(**{**SMALL, "depth": 4}, drop_path=0.4)
    model.expand(2)
    model.expand(2)
    draws = model.draw(torch.Generator().manual_seed(0), 20_000)
    assert draws["sab_keep"].shape == (20_000, 4, 2)
    assert draws["tab_keep"].shape == (20_000, 2, 2)
    kept = (draws["sab_keep"] > 0).double().mean(dim=0)
    torch.testing.assert_close(
        kept, torch.tensor([1.0, 0.9, 0.8, 0.7]).double()[:, None].expand(4, 2), atol=0.02, rtol=0
    )
    torch.testing.assert_close(
        (draws["tab_keep"] > 0).double().mean(dim=0), torch.full((2, 2), 0.6).double(), atol=0.02, rtol=0
    )
    for level, rate in enumerate([0.0, 0.1, 0.2, 0.3]):
        values = draws["sab_keep"][:, level].unique()
        torch.testing.assert_close(values[-1].item(), 1 / (1 - rate), atol=1e-6, rtol=0)
        assert len(values) == (1 if rate == 0 else 2)
    torch.testing.assert_close(draws["tab_keep"].unique(), torch.tensor([0.0, 1 / 0.6]))


def test_branches_and_tasks_are_dropped_each_on_its_own():
    model = DyTox(**SMALL, drop_path=0.5)
    model.expand(2)
    model.expand(2)
    dropped = (model.draw(torch.Generator().manual_seed(3), 5_000)["tab_keep"] == 0).double().flatten(1)
    together = dropped.T @ dropped / len(dropped)  # (tasks · branches)²: 0.5 on the diagonal, 0.25 elsewhere
    expected = torch.full((4, 4), 0.25).fill_diagonal_(0.5).double()
    torch.testing.assert_close(together, expected, atol=0.03, rtol=0)


def test_without_drop_path_nothing_is_drawn():
    model = DyTox(**SMALL, drop_path=0.0)
    model.expand(2)
    assert model.draw(torch.Generator(), 4) == {}


def test_rows_of_the_draws_are_rows_of_the_pass():
    """What lets a process take its part of a global batch: rows do not know of each other."""
    model = grown([2, 2]).double().train()
    images = images_for(model, 10)
    draws = model.draw(torch.Generator().manual_seed(5), 10)
    whole = outputs(model(images, draws))
    for rows in (slice(0, 4), slice(4, 5), slice(5, 10)):
        part = outputs(model(images[rows], {key: value[rows] for key, value in draws.items()}))
        for name, tensor in part.items():
            torch.testing.assert_close(tensor, whole[name][rows], atol=1e-12, rtol=1e-12)


def test_eval_mode_ignores_the_draws():
    model = grown([2, 2]).eval()
    images = images_for(model)
    draws = model.draw(torch.Generator().manual_seed(1), 3)
    assert torch.equal(model(images, draws).logits, model(images).logits)
    model.train()
    assert not torch.equal(model(images, draws).logits, model(images).logits)


def test_a_frozen_encoder_ignores_its_draws_while_the_tab_uses_its_own():
    model = grown([2, 2]).eval()
    images = images_for(model)
    model.tab.train()
    nothing = {"sab_keep": torch.zeros(3, 2, 2), "tab_keep": torch.ones(3, 2, 2)}
    torch.testing.assert_close(model(images, nothing).embeddings, model(images).embeddings, atol=1e-6, rtol=0)
    nothing["tab_keep"][:, 1] = 0.0  # of the second token both branches: it stays as it is
    embeddings = model(images, nothing).embeddings
    torch.testing.assert_close(embeddings[:, 1], model.task_tokens[1].expand(3, -1))
    torch.testing.assert_close(embeddings[:, 0], model(images).embeddings[:, 0], atol=1e-6, rtol=0)


def test_the_positional_bias_is_kept_and_never_learns():
    model = grown([2])
    constants = [name for name, weight in model.named_parameters() if isinstance(weight, Constant)]
    assert constants == [f"encoder.sabs.{level}.attn.pos_bias" for level in range(2)]
    assert all(name in model.state_dict() for name in constants)
    twin = copy.deepcopy(model).double().float()
    twin.load_state_dict(model.state_dict())
    for each in (model, twin):
        weights = dict(each.named_parameters())
        assert all(type(weights[name]) is Constant for name in constants)
        assert not any(weights[name].requires_grad for name in constants)
    assert not Constant(torch.zeros(2), requires_grad=True).requires_grad


def test_gpsa_starts_with_square_kernels():
    for heads, local in ((1, 1), (2, 1), (4, 4), (6, 4), (12, 9), (16, 16)):
        attention = DyTox(**{**SMALL, "dim": 48, "heads": heads}, locality_strength=3.0).encoder.sabs[0].attn
        assert (attention.pos_proj.weight[:, 2] == -3.0).sum() == local
        centre = attention.pos_proj.weight[:local, :2].sum(dim=0)
        torch.testing.assert_close(centre, torch.zeros(2))
        assert (attention.gate == 1).all()
        maps = attention.positional_map()
        torch.testing.assert_close(maps.sum(dim=-1), torch.ones(heads, 4))


def test_a_local_head_looks_at_its_place_of_the_kernel():
    attention = DyTox(image_size=20, heads=12, dim=24, depth=1).encoder.sabs[0].attn
    maps = attention.positional_map().view(12, 5, 5, 5, 5)  # of 5×5 patches, head by head
    for head in range(9):
        row, column = divmod(head, 3)
        looked = maps[head, 2, 2].argmax()  # from the patch in the middle
        assert (
            looked == (2 + column - 1) * 5 + 2 + row - 1
        )  # the first of the two is x, as in the authors' code


def test_where_a_token_looks():
    model = grown([2, 2]).eval()
    images = images_for(model)
    looked = model.attention(images)
    assert looked.shape == (3, 2, 4)
    assert (looked > 0).all()
    assert (looked.sum(dim=-1) < 1).all()  # the rest goes to the token itself
    queries, patches = model.tab.prepare(model.tokens()), model.tab.norm1(model.encoder(images).tokens)
    whole = model.tab.attn.weights(queries, patches)
    torch.testing.assert_close(whole.sum(dim=-1), torch.ones(3, 3, 2))
    torch.testing.assert_close(whole[..., 1:].mean(dim=1), looked)


@pytest.mark.parametrize(
    "shape", [{}, {"independent_heads": False}, {"independent_heads": False, "token_expansion": False}]
)
def test_a_rebuilt_model_is_equal_at_every_stage(shape):
    model = DyTox(**SMALL, **shape)
    stages = [lambda: None, lambda: model.expand(3), lambda: model.expand(2)]
    stages += [model.drop_divergence_head, lambda: model.expand(4), model.drop_divergence_head]
    for grow in stages:
        grow()
        twin = DyTox(**SMALL, **shape)
        twin.rebuild(json.loads(json.dumps(model.structure())))
        assert twin.increments == model.increments
        twin.load_state_dict(model.state_dict())
        if model.increments:
            mine, its = outputs(model(images_for(model))), outputs(twin(images_for(model)))
            assert mine.keys() == its.keys()
            assert all(torch.equal(mine[name], its[name]) for name in mine)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"image_size": 10}, "image size 10 is not a multiple of patch size 4"),
        ({"image_size": 3}, "image size 3 is not a multiple of patch size 4"),
        ({"heads": 5}, "dim 12 is not a multiple of heads 5"),
        ({"token_expansion": False}, "independent heads need a token for each task"),
    ],
)
def test_bad_shapes_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        DyTox(**{**SMALL, **wrong})


def test_a_misspelt_argument_is_refused():
    with pytest.raises(TypeError):
        DyTox(**SMALL, token_expansions=True)
    with pytest.raises(TypeError):
        DyTox(8)


def test_a_config_whose_patches_do_not_fit_is_refused():
    config = Config.model_validate({"data": {"image_size": 30}})
    with pytest.raises(UserError, match=r"data.image_size 30 is not a multiple of model.patch_size 4"):
        token_network(config)


def test_the_config_reaches_the_model():
    shape = {"patch_size": 2, "dim": 18, "heads": 6, "depth": 3, "attention": "plain", "mlp_ratio": 2.0}
    config = Config.model_validate({"data": {"image_size": 6}, "model": {**shape, "drop_path": 0.3}})
    model = token_network(config)
    model.expand(4)
    model.expand(2)
    assert len(model.task_tokens) == 1
    assert model.divergence_head is None
    assert model.tokens().shape == (1, 18)
    assert model.encoder.tokenizer.pos_embed.shape == (9, 18)
    assert len(model.encoder.sabs) == 3
    assert model.tab.mlp[0].weight.shape == (36, 18)
    assert model.tab.attn.heads == 6
    assert model.drop_rates[-1] == pytest.approx(0.3)
    assert not any(name.endswith("gate") for name in model.state_dict())
    full = token_network(config, token_expansion=True, independent_heads=True, divergence=True)
    full.expand(4)
    full.expand(2)
    assert len(full.task_tokens) == len(full.heads.tasks) == 2
    assert full.divergence_head is not None


def test_locality_strength_reaches_every_block():
    config = Config.model_validate(
        {"data": {"image_size": 8}, "model": {"dim": 12, "heads": 4, "depth": 2, "locality_strength": 4.0}}
    )
    for sab in token_network(config).encoder.sabs:
        assert (sab.attn.pos_proj.weight[:, 2] == -4.0).all()


def test_a_network_that_cannot_grow_says_so():
    with pytest.raises(TypeError, match="ContinualModel cannot grow"):
        ContinualModel().expand(2)
