"""Pretrained encoders: a ViT from a file, which the test trains itself, or a module of one's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from dytox import ContinualLearner
from dytox.config import Config, DataConfig
from dytox.data import datasets
from dytox.data.samples import Samples
from dytox.errors import UserError
from dytox.experiments.train import Watcher, train
from dytox.models import encoders
from dytox.models.pretrained import OwnEncoder, VisionTransformer

Make = Callable[..., Samples]
DIM, HEADS, DEPTH = 32, 4, 2


class Block(nn.Module):
    """Written out as timm names it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(DIM, eps=1e-6) for _ in range(2))
        self.attn = nn.ModuleDict({"qkv": nn.Linear(DIM, 3 * DIM), "proj": nn.Linear(DIM, DIM)})
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(DIM, 2 * DIM), "fc2": nn.Linear(2 * DIM, DIM)})

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        qkv = self.attn["qkv"](self.norm1(x)).reshape(batch, tokens, 3, HEADS, DIM // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1) / (DIM // HEADS) ** 0.5).softmax(dim=-1)
        x = x + self.attn["proj"]((a @ v).transpose(1, 2).reshape(batch, tokens, DIM))
        return x + self.mlp["fc2"](functional.gelu(self.mlp["fc1"](self.norm2(x))))


class TimmViT(nn.Module):
    """A small ViT, as timm names its parts, that classifies by its class token."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, DIM, 2, 2)})
        self.cls_token = nn.Parameter(torch.zeros(1, 1, DIM))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 17, DIM))
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(DIM, eps=1e-6)
        self.head = nn.Linear(DIM, classes)

    def tokens(self, images: Tensor) -> Tensor:
        x = self.patch_embed["proj"](images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        return self.norm(self.blocks(x))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.tokens(images)[:, 0])


@pytest.fixture(scope="module")
def digits() -> Any:
    return datasets.load(DataConfig(dataset="digits", image_size=8))


def normalised(images: Tensor) -> Tensor:
    return images.float() / 127.5 - 1


@pytest.fixture(scope="module")
def vit(digits: Any) -> TimmViT:
    """Trained on many digits."""
    torch.manual_seed(0)
    model = TimmViT(10)
    samples = digits.train
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(16):
        for places in torch.randperm(len(samples)).split(32):
            loss = functional.cross_entropy(model(normalised(samples.images[places])), samples.labels[places])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def file(vit: TimmViT, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vit") / "vit.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in vit.state_dict().items()}, path)
    return path


def as_hugging_face(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same weights under Hugging Face's names."""
    renamed = {}
    for name, tensor in state.items():
        for old, new in (
            (r"^patch_embed\.proj", "vit.embeddings.patch_embeddings.projection"),
            (r"^cls_token", "vit.embeddings.cls_token"),
            (r"^pos_embed", "vit.embeddings.position_embeddings"),
            (r"^norm\.", "vit.layernorm."),
            (r"^head", "classifier"),
            (r"^blocks", "vit.encoder.layer"),
            (r"\.norm1", ".layernorm_before"),
            (r"\.norm2", ".layernorm_after"),
            (r"\.attn\.proj", ".attention.output.dense"),
            (r"\.mlp\.fc1", ".intermediate.dense"),
            (r"\.mlp\.fc2", ".output.dense"),
        ):
            name = re.sub(old, new, name)
        if ".attn.qkv." in name:
            for part, each in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                renamed[name.replace("attn.qkv", f"attention.attention.{part}")] = each.clone()
        else:
            renamed[name] = tensor
    return renamed


CONFIG = {
    "model": {"heads": HEADS},
    "training": {"epochs": 40, "batch": 8},
    "finetuning": {"epochs": 10, "batch": 8},
    "runtime": {"device": "cpu"},
}
BRIEF = {
    **CONFIG,
    "training": {"epochs": 2, "batch": 8, "schedule": {"warmup_epochs": 0}},
    "finetuning": {"epochs": 1, "batch": 8},
}


def few(digits: Any, first: int, last: int, each: int = 5) -> tuple[Tensor, Tensor]:
    """The first so many images of each class."""
    samples = digits.train.between(first, last)
    places = [(samples.labels == label).nonzero().squeeze(1)[:each] for label in range(first, last)]
    chosen = samples.take(torch.cat(places))
    return chosen.images, chosen.labels


@pytest.mark.parametrize("layout", ["timm", "hugging face"])
def test_the_tokens_are_those_of_the_vit(
    vit: TimmViT, file: Path, tmp_path: Path, digits: Any, layout: str
) -> None:
    if layout == "hugging face":
        file = tmp_path / "hf.safetensors"
        save_file(as_hugging_face(dict(vit.state_dict())), file)
    learner = ContinualLearner.create("digits", config=CONFIG, encoder=file)
    assert (learner.config.model.dim, learner.config.model.depth, learner.config.model.patch_size) == (
        32,
        2,
        2,
    )
    images = normalised(digits.test.images[:9])
    with torch.no_grad():
        torch.testing.assert_close(
            learner.method.model.encoder(images).tokens, vit.tokens(images), atol=1e-5, rtol=1e-5
        )


def test_few_images_suffice(file: Path, digits: Any) -> None:
    """Five images of each class, in two tasks."""
    test, scores = digits.test.between(0, 5), {}
    for name, options in (("frozen", {}), ("learning", {"frozen": False}), ("from scratch", None)):
        given = {} if options is None else {"encoder": file, **options}
        learner = ContinualLearner.create("digits", config=CONFIG, **given)
        learner.learn(*few(digits, 0, 3))
        learner.learn(*few(digits, 3, 5))
        scores[name] = learner.score(test)
    assert scores["frozen"] > 0.85  # 0.96 here
    assert scores["learning"] > scores["from scratch"] + 0.15  # 0.69
    assert scores["from scratch"] < 0.6  # 0.28


def test_a_frozen_encoder_stays_as_it_is_through_save_and_load(
    file: Path, digits: Any, tmp_path: Path
) -> None:
    learner = ContinualLearner.create("digits", config=BRIEF, encoder=file)
    before = {name: each.clone() for name, each in learner.method.model.encoder.state_dict().items()}
    learner.learn(*few(digits, 0, 2))
    learner.save(tmp_path / "model")
    loaded = ContinualLearner.load(tmp_path / "model")  # the file is not needed any more
    for each in (learner, loaded):
        each.learn(*few(digits, 2, 4))
        after = each.method.model.encoder.state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before)
    assert np.array_equal(
        learner.predict_proba(digits.test.images[:9]), loaded.predict_proba(digits.test.images[:9])
    )


def test_one_that_is_not_frozen_goes_on_learning(file: Path, digits: Any) -> None:
    learner = ContinualLearner.create("digits", config=BRIEF, encoder=file, frozen=False)
    before = {name: each.clone() for name, each in learner.method.model.encoder.state_dict().items()}
    learner.learn(*few(digits, 0, 2))
    after = learner.method.model.encoder.state_dict()
    assert all(not torch.equal(before[name], after[name]) for name in before)


def test_positions_are_interpolated_for_another_size(file: Path) -> None:
    learner = ContinualLearner.create("digits", config={**CONFIG, "data": {"image_size": 12}}, encoder=file)
    found = learner.method.model.encoder.pos_embed
    assert found.shape == (1, 37, DIM)
    weights = encoders.read_vit(file)
    assert torch.equal(found[:, 0], weights.tensors["pos_embed"][:, 0])
    assert weights.at(8)["pos_embed"] is weights.tensors["pos_embed"]


class Convolutions(nn.Module):
    """Somebody's own encoder, with BatchNorm."""

    def __init__(self, form: str = "map") -> None:
        super().__init__()
        self.form = form
        self.body = nn.Sequential(nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12), nn.ReLU())

    def forward(self, images: Tensor) -> Any:
        found = self.body(images)
        return {
            "map": found,
            "tokens": found.flatten(2).transpose(1, 2),
            "vector": found.mean(dim=(2, 3)),
            "scalar": found.mean(),
            "pair": (found, found),
        }[self.form]


@pytest.mark.parametrize("form", ["map", "tokens", "vector"])
@pytest.mark.parametrize("frozen", [True, False])
def test_any_module_may_be_the_encoder(
    tiny: Callable[..., Config], made: Make, tmp_path: Path, form: str, frozen: bool
) -> None:
    torch.manual_seed(1)
    module = Convolutions(form)
    before = {name: each.clone() for name, each in module.state_dict().items()}
    config = tiny().model_dump(include={"training", "finetuning", "runtime", "memory"})
    learner = ContinualLearner.create("digits", config=config, encoder=module, frozen=frozen)
    assert learner.config.model.dim == 12
    for first, last in [(0, 2), (2, 4)]:
        learner.learn(made(first, last))
    after = learner.method.model.encoder.module.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == (set() if frozen else set(before))
    assert all(torch.equal(before[name], each) for name, each in module.state_dict().items())  # a copy learns
    learner.save(tmp_path)
    loaded = ContinualLearner.load(tmp_path, encoder=Convolutions(form))
    images = made(0, 4).images
    assert np.array_equal(learner.predict_proba(images), loaded.predict_proba(images))
    with pytest.raises(UserError, match=r"its encoder is a custom module, which is not saved: pass it"):
        ContinualLearner.load(tmp_path)


def test_shared_parameters_stay_shared_when_frozen() -> None:
    layer = nn.Linear(4, 4)
    encoder = OwnEncoder(nn.Sequential(layer, layer))
    encoder.freeze()
    assert len(list(encoder.parameters())) == 2
    assert not encoder.train().training


@pytest.mark.parametrize("form", ["scalar", "pair"])
def test_a_module_that_is_no_encoder(form: str) -> None:
    with pytest.raises(UserError, match="The encoder must give one tensor"):
        ContinualLearner.create("digits", encoder=Convolutions(form))


def test_what_is_no_encoder(vit: TimmViT, file: Path, tmp_path: Path) -> None:
    state = {name: tensor.clone() for name, tensor in vit.state_dict().items()}

    def refused(tensors: dict[str, Tensor]) -> str:
        save_file(tensors, tmp_path / "x.safetensors")
        with pytest.raises(UserError) as error:
            ContinualLearner.create("digits", config=CONFIG, encoder=tmp_path / "x.safetensors")
        return str(error.value)

    assert "is not a plain ViT as timm or Hugging Face save it" in refused({"weight": torch.zeros(3)})
    assert "'dist_token'" in refused({**state, "dist_token": torch.zeros(1, 1, DIM)})
    assert "'sabs.1.norm2.bias'" in refused({n: t for n, t in state.items() if n != "blocks.1.norm2.bias"})
    assert "'pos_embed'" in refused({**state, "pos_embed": torch.zeros(1, 19, DIM)})
    (tmp_path / "y.safetensors").write_text("?")
    with pytest.raises(UserError, match="is not a safetensors file"):
        ContinualLearner.create("digits", encoder=tmp_path / "y.safetensors")
    with pytest.raises(UserError, match="is missing"):
        ContinualLearner.create("digits", encoder=tmp_path / "z.safetensors")
    with pytest.raises(UserError, match=r"^Config key model\.encoder: dytox takes no weights from a file"):
        ContinualLearner.create("digits", config={"model": {"encoder": "dytox"}}, encoder=file, frozen=False)
    for wrong in ({"dim": 48}, {"depth": 3}, {"patch_size": 4}, {"mlp_ratio": 4.0}):
        [(key, value)] = wrong.items()
        with pytest.raises(UserError, match=rf"^Config key model\.{key}: the encoder's file says .*{value}"):
            ContinualLearner.create(
                "digits", config={"model": {"heads": HEADS, **wrong}}, encoder=file, frozen=False
            )
    with pytest.raises(UserError, match=r"model\.frozen without a pretrained encoder"):
        ContinualLearner.create("digits", config={"model": {"frozen": True}})


def test_a_vit_counts_its_tokens() -> None:
    vit = VisionTransformer(image_size=8, patch_size=2, dim=12, heads=3, depth=1, mlp_ratio=2.0)
    assert vit(torch.zeros(2, 3, 8, 8)).tokens.shape == (2, 17, 12)


ON_ANY = ["dytox", "replay", "joint", "icarl", "wa", "ucir", "bic", "e2e", "der"]


@pytest.mark.parametrize("method", ON_ANY)
def test_every_method_takes_a_pretrained_encoder(
    file: Path, tmp_path: Path, tiny: Callable[..., Config], made: Make, method: str
) -> None:
    """It learns and forgets, and the model directory needs the file no more."""
    keep = {"training", "finetuning", "runtime", "memory", "loss", "method"}
    config = tiny(method).model_dump(include=keep) | {"model": {"heads": HEADS}}
    weights = tmp_path / "vit.safetensors"
    weights.write_bytes(file.read_bytes())
    frozen = method != "der"
    learner = ContinualLearner.create("digits", method=method, config=config, encoder=weights, frozen=frozen)
    before = {
        name: each.clone() for name, each in learner.method.model.encoder_parts()[0].state_dict().items()
    }
    learner.learn(made(0, 2))
    if method != "joint":
        weights.unlink()
        learner.learn(made(2, 4))
        learner.forget("1")
        assert learner.increments == [1, 2]
    after = learner.method.model.encoder_parts()[0].state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert bool(moved) != frozen
    learner.save(tmp_path / "model")
    weights.unlink(missing_ok=True)
    images = made(0, 4).images
    loaded = ContinualLearner.load(tmp_path / "model")
    assert np.array_equal(learner.predict_proba(images), loaded.predict_proba(images))


@pytest.mark.parametrize(
    ("method", "encoder"),
    [
        ("dytox", "resnet8"),
        ("icarl", "dytox"),
        ("podnet", "hybrid"),
        ("der", "dytox"),
        ("replay-resnet", "hybrid"),
    ],
)
def test_methods_and_encoders_are_combined_freely(
    tiny: Callable[..., Config], made: Make, method: str, encoder: str
) -> None:
    learner = ContinualLearner(tiny(method, model={"encoder": encoder, "heads": 4, "dim": 16}))
    for first, last in [(0, 2), (2, 4)]:
        learner.learn(made(first, last))
    assert learner.predict_proba(made(0, 4).images).shape == (48, 4)


@pytest.mark.parametrize(
    ("method", "model", "words"),
    [
        (
            "podnet",
            {"encoder": "vit"},
            "podnet works on convolutional encoders, so",
        ),
        ("simple_der", {"encoder": "dytox"}, "works on residual encoders"),
        ("dytox", {"encoder": "vit", "frozen": True}, "it would stay random for ever"),
        ("wa", {"encoder": "resnet8", "frozen": True}, "it would stay random for ever"),
        ("der", {"frozen": True, "weights": "x"}, "der trains a copy of the encoder for each task"),
        ("replay", {"encoder": "vti"}, "Unknown encoder 'vti': did you mean 'vit'"),
        ("dytox", {"encoder": "resnet8", "heads": 3}, "is not a multiple of model.heads 3"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(
    tiny: Callable[..., Config], method: str, model: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        ContinualLearner(tiny(method, model=model))


def test_a_benchmark_begins_with_the_weights_of_a_file(
    file: Path, vit: TimmViT, tiny: Callable[..., Config], tmp_path: Path
) -> None:
    sizes = {"patch_size": 2, "dim": DIM, "depth": DEPTH, "mlp_ratio": 2.0, "heads": HEADS}
    model = {"encoder": "vit", "weights": str(file), "frozen": True, **sizes}
    config = tiny("replay", model=model, scenario={"classes": 4, "increment": 2}, data={"test_share": 0.9})
    train(config, tmp_path / "run", Watcher())
    learner = ContinualLearner.load(tmp_path / "run" / "model")
    weight = learner.method.model.encoder.cls_token
    assert torch.equal(weight, vit.cls_token)


def test_a_file_that_is_something_else_is_named_for_what_it_is(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, tmp_path / "net.pth")
    with pytest.raises(UserError, match=r"net.pth is a file of torch.save .*: an encoder is a name such as"):
        ContinualLearner.create("digits", encoder=tmp_path / "net.pth")
    save_file(
        {"bn1.running_mean": torch.zeros(3), "conv1.weight": torch.zeros(3)}, tmp_path / "cnn.safetensors"
    )
    with pytest.raises(UserError, match=r"cnn.safetensors holds a convolutional network .* not a plain ViT"):
        ContinualLearner.create("digits", encoder=tmp_path / "cnn.safetensors")
    with pytest.raises(
        UserError, match=r"Unknown encoder 'efficientnet-lite': did you mean 'efficientnet-lite"
    ):
        ContinualLearner.create("digits", encoder="efficientnet-lite")
