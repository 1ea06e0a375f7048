"""Presets: each with the values it promises, every pair of them, and who beats whom."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dytox import recipes
from dytox.config import Config, Preset
from dytox.engine.schedule import learning_rate
from dytox.errors import UserError
from dytox.methods import registry
from dytox.methods.replay import Replay
from dytox.recipes import reading

SCENARIOS = [
    "cifar100-10",
    "cifar100-10-fast",
    "cifar100-10-short",
    "cifar100-10-tuned",
    "cifar100-20",
    "cifar100-20-fast",
    "cifar100-50",
    "cifar100-50-fast",
    "cifar100-b50-10",
    "cifar100-b50-10-fast",
    "cifar100-b50-2",
    "cifar100-b50-2-fast",
    "cifar100-b50-5",
    "cifar100-b50-5-fast",
    "cifar20-5-short",
    "cifar20-5-tuned",
    "digits",
    "imagenet100-10",
    "imagenet1000-10",
    "own-images",
]
VARIANTS = ["dytox-plus", "dytox-plus-plus", "dytox-hybrid"]
OTHER_VARIANTS = ["der-pruned", "finetune-resnet", "joint-resnet", "replay-resnet"]

OWN = """\
about: two digits at a time, only four of them
scale: demo
config:
  data: {dataset: digits, image_size: 8}
  scenario: {classes: 4, increment: 2}
  memory: {size: 12}
  training: {epochs: 7, lr: 5e-4}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "four-digits.yaml"
    path.write_text(OWN, encoding="utf-8")
    return path


def test_all_presets_are_there_and_say_what_they_are() -> None:
    assert sorted(recipes.scenarios()) == SCENARIOS
    assert set(recipes.methods()) == {*registry.BUILT_IN, *VARIANTS, *OTHER_VARIANTS}
    variants = [about for about in recipes.methods().values() if about]
    assert len(variants) == len(VARIANTS) + len(OTHER_VARIANTS)
    for about in [*recipes.scenarios().values(), *variants]:
        assert about
        assert "\n" not in about


@pytest.mark.parametrize("kind", ["scenarios", "methods"])
def test_what_a_preset_is_stands_in_its_first_line(kind: str) -> None:
    folder = Path(recipes.__file__).parent / kind
    found = {path.stem: YAML(typ="safe").load(path)["about"] for path in folder.glob("*.yaml")}
    assert {name: about for name, about in getattr(recipes, kind)().items() if about} == found


def is_tuned_for(recipe: str, method: str) -> bool:
    """Whether a recipe asks for tuned values that the method does not have: only the transformer has some."""
    return not recipe.endswith("-tuned") or registry.find_method(method).preset.base == "transformer"


@pytest.mark.parametrize("method", sorted(registry.BUILT_IN))
@pytest.mark.parametrize("recipe", SCENARIOS)
def test_every_recipe_goes_with_every_method(recipe: str, method: str) -> None:
    if not is_tuned_for(recipe, method):
        other = recipe.replace("tuned", "short")
        words = f"The recipe {recipe} asks for tuned values, and the method {method} has none: take {other}."
        with pytest.raises(UserError, match=re.escape(words)):
            recipes.compose(recipe, method=method)
        return
    config = registry.complete(recipes.compose(recipe, method=method))
    assert config.recipe == recipe
    assert config.method.name == method
    assert registry.complete(config) == config


@pytest.mark.parametrize(
    ("recipe", "first", "increment", "per_class"),
    [
        ("cifar100-10", None, 10, None),
        ("cifar100-20", None, 5, None),
        ("cifar100-50", None, 2, None),
        ("cifar100-b50-10", 50, 10, 20),
        ("cifar100-b50-5", 50, 5, 20),
        ("cifar100-b50-2", 50, 2, 20),
    ],
)
def test_the_full_cifar100_presets(
    recipe: str, first: int | None, increment: int, per_class: int | None
) -> None:
    config = recipes.compose(recipe)
    assert (config.scenario.first, config.scenario.increment) == (first, increment)
    assert config.scenario.order == 1
    assert config.scenario.classes is None
    assert (config.memory.size, config.memory.per_class) == (2000, per_class)
    assert (config.data.dataset, config.data.image_size) == ("cifar100", 32)
    defaults = Config()
    assert config.model == defaults.model
    assert config.training == defaults.training
    assert config.finetuning == defaults.finetuning
    assert config.augment == defaults.augment
    assert config.data.mean == pytest.approx([0.507, 0.487, 0.441], abs=1e-3)


@pytest.mark.parametrize(
    ("classes", "memory", "parameters"),
    [(100, 2_000, 11_060_752), (1000, 20_000, 11_407_252)],  # 11.06 and 11.41 M with 196 patches
)
def test_the_imagenet_presets(classes: int, memory: int, parameters: int) -> None:
    recipe = f"imagenet{classes}-10"
    config = registry.complete(recipes.compose(recipe))
    data, augment = config.data, config.augment
    assert (data.dataset, data.image_size, data.resize) == (f"imagenet{classes}", 224, 256)
    assert (config.scenario.order, config.scenario.increment, config.memory.size) == (
        1,
        classes // 10,
        memory,
    )
    assert (config.training.batch, config.training.effective_lr, config.training.epochs) == (1024, 1e-3, 500)
    assert (config.finetuning.batch, config.finetuning.effective_lr) == (1024, 1e-4)
    assert (config.model.patch_size, augment.resized_crop) == (16, [0.08, 1.0])
    model = registry.find_method("dytox")(config).model
    for _ in range(10):
        model.expand(classes // 10)
    assert model.count_parameters() == parameters
    resnet = recipes.compose(recipe, method="replay-resnet")
    assert (resnet.model.encoder, resnet.model.stem, resnet.training.batch) == ("resnet18", "large", 128)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_published_class_orders_can_be_asked_for(order: int) -> None:
    assert recipes.compose("cifar100-10", overrides=[f"scenario.order={order}"]).scenario.order == order


@pytest.mark.parametrize(
    ("recipe", "batch", "memory", "classes", "increment"),
    [("cifar100-10-short", 128, 2000, None, 10), ("cifar20-5-short", 64, 100, 20, 4)],
)
def test_the_short_cifar_presets(
    recipe: str, batch: int, memory: int, classes: int | None, increment: int
) -> None:
    config = recipes.compose(recipe)
    model, training, finetuning = config.model, config.training, config.finetuning
    assert (model.dim, model.heads, model.depth, model.patch_size) == (192, 12, 3, 8)
    assert (training.epochs, training.batch, training.effective_lr) == (20, batch, 1e-3)
    assert (finetuning.epochs, finetuning.batch, finetuning.effective_lr) == (5, batch, 1e-4)
    assert (config.memory.size, config.memory.per_class) == (memory, None)
    assert config.scenario.order == 1
    assert (config.scenario.classes, config.scenario.increment) == (classes, increment)
    assert config.data.dataset == "cifar100"


@pytest.mark.parametrize("recipe", SCENARIOS)
def test_dytox_plus_is_dytox_with_mixup_and_plus_plus_has_asam_too(recipe: str) -> None:
    dytox, plus, plus_plus = (recipes.compose(recipe, method=name) for name in ("dytox", *VARIANTS[:2]))
    assert plus.augment.mixup == plus_plus.augment.mixup == 0.8
    assert (plus_plus.sam.rho, plus_plus.sam.adaptive) == (3.0, True)
    assert (plus_plus.sam.skip_first, plus_plus.sam.phases) == (True, ["train"])
    assert plus.loss.label_smoothing == (0.1 if recipe.endswith("-fast") else 0.0)
    unmixed = plus.augment.model_copy(update={"mixup": 0.0})
    assert plus.model_copy(update={"augment": unmixed}) == dytox
    assert plus_plus.model_copy(update={"augment": unmixed, "sam": dytox.sam}) == dytox
    assert recipes.compose(recipe, method="dytox+") == plus
    assert recipes.compose(recipe, method="dytox++") == plus_plus


@pytest.mark.parametrize("bound", ["finetune", "replay", "joint"])
def test_the_bounds_on_a_resnet_have_the_schedule_of_der(bound: str) -> None:
    config = recipes.compose("cifar100-10", method=f"{bound}-resnet")
    training, optimizer = config.training, config.training.optimizer
    assert (config.method.name, config.model.encoder) == (bound, "resnet18")
    assert (config.loss.activation, config.augment.randaugment) == ("softmax", None)
    assert config.augment.brightness == pytest.approx(63 / 255, abs=1e-6)
    assert (training.epochs, training.batch, optimizer.name) == (170, 128, "sgd")
    assert (optimizer.momentum, optimizer.weight_decay, optimizer.decay_vectors) == (0.9, 5e-4, True)
    rates = [round(learning_rate(training, epoch), 6) for epoch in (0, 5, 9, 10, 109, 110, 129, 130, 169)]
    assert rates == [0.01, 0.055, 0.091, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001]


@pytest.mark.parametrize(
    ("recipe", "network"),
    [("digits", "resnet8"), ("cifar20-5-short", "resnet8"), ("cifar100-b50-2", "resnet18")],
)
def test_a_resnet_sees_as_many_images_as_the_transformer_below_the_papers_scale(
    recipe: str, network: str
) -> None:
    ours, theirs = recipes.compose(recipe, method="replay-resnet"), recipes.compose(recipe)
    assert ours.model.encoder == network
    assert ours.memory == theirs.memory
    if network != "resnet18":
        assert ours.training.epochs == theirs.training.epochs


def test_the_digits() -> None:
    config = recipes.compose("digits")
    assert (config.data.dataset, config.data.image_size, config.data.test_share) == ("digits", 8, 0.2)
    assert (config.scenario.order, config.scenario.increment) == ("natural", 2)
    assert config.memory.size == 40
    assert (config.model.dim, config.model.depth, config.model.patch_size) == (64, 2, 2)
    assert (config.training.batch, config.model.drop_path) == (64, 0.0)
    assert config.training.schedule.name == "cosine"
    assert config.training.schedule.warmup_epochs == 5
    augment = config.augment
    assert (augment.pad, augment.flip, augment.randaugment, augment.mixup) == (1, 0.0, None, 0.0)


@pytest.mark.parametrize("method", ["finetune", "joint"])
@pytest.mark.parametrize("recipe", SCENARIOS)
def test_some_methods_never_have_a_memory_whatever_the_scenario_says(recipe: str, method: str) -> None:
    config = recipes.compose(recipe, method=method)
    assert (config.memory.size, config.memory.per_class) == (0, None)


@pytest.mark.parametrize("method", ["finetune", "joint"])
def test_asking_for_their_memory_is_refused(method: str) -> None:
    config = recipes.compose("digits", method=method, overrides=["memory.size=40"])
    with pytest.raises(UserError, match=f"{method} never has a memory, so memory.size must be 0, not 40"):
        registry.complete(config)


BASE = {"scales": {"demo": {"data": {"test_share": 0.31}, "memory": {"size": 31, "shares": 31}}}}
OTHERS: dict[str, dict[str, Any]] = {
    "general": {
        "about": "all of them",
        "scale": "demo",
        "config": {"memory": {"shares": 51}, "augment": {"pad": 5}, "seed": 51, "runtime": {"threads": 5}},
    },
    "special": {"about": "one", "extends": "general", "config": {"runtime": {"threads": 6, "workers": 6}}},
    "variant": {"about": "another", "extends": "replay", "config": {"memory": {"size": 45}}},
}


def test_who_beats_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Default < base < class < variant < scenarios < always < --set < values; general < scale in each."""
    own = Preset(
        config={"memory": {"size": 41, "shares": 41}},
        scales={"demo": {"memory": {"shares": 42}}, "paper": {"memory": {"shares": 49}}},
        always={"seed": 61, "augment": {"pad": 6}},
    )
    monkeypatch.setattr(Replay, "preset", own)
    monkeypatch.setattr(reading, "preset", lambda kind, name: BASE if kind == "bases" else OTHERS[name])
    names = {"bases": ["transformer"], "methods": ["variant"], "scenarios": ["general", "special"]}
    monkeypatch.setattr(reading, "names", names.__getitem__)

    def composed(recipe: str = "special", method: str = "replay", **over: Any) -> Config:
        return recipes.compose(recipe, method=method, **over)

    config = composed()
    assert config.data.validation_share == Config().data.validation_share  # the default
    assert config.data.test_share == 0.31  # the base
    assert config.memory.size == 41  # the method
    assert composed(method="variant").memory.size == 45  # the variant
    assert config.memory.shares == 51  # the scenario that is extended
    assert (config.runtime.threads, config.runtime.workers) == (6, 6)  # the scenario
    assert (config.augment.pad, config.seed) == (6, 61)  # what the method always has
    config = composed(overrides=["augment.pad=7", "memory.shares=7", "augment.pad=8"])
    assert (config.augment.pad, config.memory.shares, config.seed) == (8, 7, 61)  # --set, the last one
    assert composed(overrides=["seed=1"], values={"seed": 2}).seed == 2
    found = recipes.origins(recipes.layers("special", method="variant", overrides=["seed=3"]))
    assert found["data.test_share"] == "base transformer (scale demo)"
    assert found["memory.size"] == "method variant"
    assert found["memory.shares"] == "recipe general"
    assert found["runtime.threads"] == "recipe special"
    assert found["augment.pad"] == "method replay (always)"
    assert found["seed"] == "--set"
    assert "training.epochs" not in found  # the default
    monkeypatch.setitem(OTHERS["general"], "config", {})
    assert composed().memory.shares == 42  # the method at its scale


def test_the_origin_of_a_section_that_is_switched_off_and_on() -> None:
    found = recipes.origins(recipes.layers("digits", overrides=["augment.randaugment.magnitude=5"]))
    assert found["augment.randaugment.magnitude"] == "--set"
    assert "augment.randaugment" not in found
    assert recipes.origins(recipes.layers("digits"))["augment.randaugment"] == "recipe digits"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("training.lr=5e-4", 5e-4),
        ("training.lr=1E-3", 1e-3),
        ("training.lr=.5", 0.5),
        ("training.lr= 2 ", 2),
        ("training.lr=no", "no"),  # YAML 1.1 would say false
        ("training.lr=null", None),
        ("training.lr=", None),
        ("training.lr=[1, a]", [1, "a"]),
        ("training.lr=a=b", "a=b"),
    ],
)
def test_the_value_of_an_override_is_yaml_1_2(text: str, value: object) -> None:
    found = recipes.override(text)
    assert found == {"training": {"lr": value}}
    assert type(found["training"]["lr"]) is type(value)


def test_5e_4_is_a_number() -> None:
    assert recipes.compose("digits", overrides=["training.lr=5e-4"]).training.lr == 0.0005


def test_an_override_may_open_a_section_that_was_off() -> None:
    config = recipes.compose("digits", overrides=["augment.randaugment.magnitude=5"])
    assert config.augment.randaugment is not None
    assert (config.augment.randaugment.magnitude, config.augment.randaugment.operations) == (5, 2)


@pytest.mark.parametrize("text", ["training.epochs", "=5", " = 5"])
def test_an_override_has_a_key_and_a_value(text: str) -> None:
    with pytest.raises(UserError, match="is not of the form key=value"):
        recipes.override(text)


@pytest.mark.parametrize("text", ["a=[1", "a={", "a=!!python/name:os.system", "a=2024-13-45", "a='"])
def test_a_value_that_is_no_yaml_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not readable as YAML"):
        recipes.override(text)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("training.epoch=3", "Unknown config key 'training.epoch': did you mean 'training.epochs'"),
        ("epochs=3", "Unknown config key 'epochs'"),
        ("training.epochs=three", "Config key training.epochs should be a valid integer, not 'three'"),
        ("model.heads=7", "model.dim 64 is not a multiple of model.heads 7"),
        ("training=3", "Config key training is a section"),
    ],
)
def test_a_bad_override_is_refused_with_the_keys_full_name(override: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        recipes.compose("digits", overrides=[override])


def test_a_methods_own_options_are_checked_once_the_method_is_known() -> None:
    options = {"method": {"temprature": 2.0}}
    with pytest.raises(UserError, match=r"'method\.temprature': did you mean 'method\.temperature'"):
        registry.complete(recipes.compose("digits", values=options))
    with pytest.raises(UserError, match=r"Unknown config key 'method\.temperature'"):
        registry.complete(recipes.compose("digits", method="replay", values={"method": {"temperature": 2.0}}))
    full = registry.complete(recipes.compose("digits", values={"method": {"temperature": 2.0}}))
    assert full.method.options["temperature"] == 2.0
    assert full.method.options["divergence"] == 0.1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("digit", "Unknown recipe 'digit': did you mean 'digits'?"),
        ("cifar20-short", "did you mean 'cifar20-5-short'?"),
        ("mnist", "Unknown recipe 'mnist': there is cifar100-10, cifar100-10-fast, "),
    ],
)
def test_an_unknown_recipe_gets_a_hint(name: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        recipes.compose(name)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dytx", "Unknown method 'dytx': did you mean 'dytox'?"),
        ("zzz", f"Unknown method 'zzz': there is {', '.join(sorted(registry.BUILT_IN))}."),
        ("nowhere:Thing", "Method 'nowhere:Thing' cannot be loaded from nowhere:Thing"),
        ("dytox.config:Nothing", "cannot be loaded"),
        ("dytox.config:Config", "is not a subclass of dytox.method.Method"),
    ],
)
def test_an_unknown_method_gets_a_hint(name: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        registry.complete(recipes.compose("digits", method=name))
    assert words in str(error.value)


def test_a_method_of_somebody_elses_gets_the_transformers_preset() -> None:
    config = registry.complete(recipes.compose("digits", method="dytox.methods.replay:Replay"))
    assert config.method.name == "dytox.methods.replay:Replay"
    assert config.model == recipes.compose("digits").model


# A recipe of one's own


def test_a_recipe_may_be_a_file(own: Path) -> None:
    config = recipes.compose(str(own))
    assert config.recipe == "four-digits"
    assert config.scenario.classes == 4
    assert config.memory.size == 12
    assert (config.training.epochs, config.training.lr) == (7, 5e-4)
    assert config.model == recipes.compose("digits").model  # of its scale


def test_it_goes_with_every_method_and_override(own: Path) -> None:
    config = recipes.compose(str(own), method="finetune", overrides=["training.epochs=9"])
    assert config.method.name == "finetune"
    assert config.memory.size == 0
    assert config.training.epochs == 9


def test_it_needs_no_about(own: Path) -> None:
    own.write_text("scale: short\nconfig: {data: {dataset: folder}}\n")
    config = recipes.compose(str(own))
    assert (config.model.dim, config.data.dataset) == (192, "folder")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("scale: demo\nconfig: {a: [1\n", "is not readable as YAML in line"),
        ("a: 1\na: 2\n", "is not readable as YAML in line 2"),
        ("config: !!python/name:os.system\n", "is not readable as YAML"),
        (
            "scale: demo\n",
            "has no key 'config': a recipe has the keys scale and config, or extends; about, large and tuned "
            "if wanted.",
        ),
        ("config: {}\n", "has no key 'scale': a recipe has the keys"),
        ("", "has no key 'scale'"),
        ("- 1\n- 2\n", "has no key 'scale'"),
        ("scale: demo\nconfig: {}\ntraining: {}\n", "has the key 'training': a recipe has the keys"),
        ("scale: demo\nconfig: 3\n", "config holds keys and values, not 3"),
        ("extends: [digits]\n", "extends names one recipe, not ['digits']"),
        ("extends: digit\n", "Unknown recipe 'digit': did you mean 'digits'?"),
        ("extends: four-digits.yaml\n", "extends itself"),
        ("extends: none.yaml\n", "none.yaml cannot be read: No such file or directory."),
        ("extends: digits\ntuned: 3\n", "tuned is true or false, not 3"),
        ("extends: digits\ntuned: true\nconfig: {method: {name: mine:Replay}}\n", "--method"),
        (
            "extends: digits\nconfig: {data: {dataset: 'mine:load'}}\n",
            "if you trust it, add --dataset mine:load.",
        ),
        ("a: &a [1]\nconfig: [*a, *a]\n", "is not readable as YAML in line 2: aliases (*) are not allowed"),
        ("scale: " + "[" * 100_000, "nested too deeply"),
        ("#" * 2**20 + "\n", "It is larger than 1 MiB"),
        ("scale: tiny\nconfig: {}\n", "Unknown scale 'tiny': there is demo, fast, paper, short."),
        ("scale: [demo]\nconfig: {}\n", "Unknown scale"),
        ("scale: demo\nconfig: {trainin: {}}\n", "Unknown config key 'trainin': did you mean 'training'?"),
        ("scale: demo\nconfig: {training: {lr: fast}}\n", "training.lr should be a valid number, not 'fast'"),
    ],
)
def test_a_bad_file_is_one_sentence(own: Path, content: str, words: str) -> None:
    own.write_text(content)
    with pytest.raises(UserError) as error:
        recipes.compose(str(own))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml cannot be read: No such file or directory\."):
        recipes.compose(str(tmp_path / "none.yaml"))
    (tmp_path / "folder.yml").mkdir()
    with pytest.raises(UserError, match=r"folder\.yml cannot be read: Is a directory\."):
        recipes.compose(str(tmp_path / "folder.yml"))
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"bytes\.yaml is not readable as YAML"):
        recipes.compose(str(tmp_path / "bytes.yaml"))


def test_a_tuned_recipe_differs_from_the_short_one_by_our_own_values_alone() -> None:
    """Data, model and, within a hundredth, the number of images shown are the same."""
    for short, tuned in (("cifar20-5-short", "cifar20-5-tuned"), ("cifar100-10-short", "cifar100-10-tuned")):
        theirs, ours = recipes.compose(short), recipes.compose(tuned)
        for same in ("data", "scenario", "memory", "model"):
            assert getattr(ours, same) == getattr(theirs, same)
        assert (ours.augment.randaugment, ours.loss.activation) == (None, "softmax")
        assert (ours.training.batch, ours.training.lr, ours.finetuning.batch) == (32, 5e-4, 16)
        assert ours.method.options["distillation_scale"] == 10.0
        new = 500 * ours.scenario.increment
        shown = [
            phases.training.epochs * (new + phases.memory.size)
            + phases.finetuning.epochs * phases.memory.size
            for phases in (theirs, ours)
        ]
        assert shown[1] <= 1.01 * shown[0]
        replay = recipes.compose(tuned, method="replay")
        assert (replay.training, replay.augment) == (ours.training, ours.augment)


def test_a_file_may_extend_a_recipe_or_a_file_beside_it(own: Path) -> None:
    own.write_text("extends: cifar100-10-tuned\nconfig: {scenario: {increment: 20}}\n")
    config, theirs = recipes.compose(str(own)), recipes.compose("cifar100-10-tuned")
    assert config.scenario.increment == 20
    changed = {"scenario": theirs.scenario.model_copy(update={"increment": 20}), "recipe": "four-digits"}
    assert config == theirs.model_copy(update=changed)
    other = own.with_name("other.yaml")
    other.write_text("extends: four-digits.yaml\ntuned: false\nscale: demo\n")
    again = recipes.compose(str(other))
    assert (again.scenario.increment, again.data.dataset) == (20, "cifar100")
    assert (again.model, again.recipe) == (recipes.compose("digits").model, "other")
    assert again.augment.randaugment is not None  # not the tuned values


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(UserError, match=r"pipe\.yaml cannot be read: It is not a regular file\."):
        recipes.compose(str(tmp_path / "pipe.yaml"))


def test_the_method_is_chosen_by_its_option_alone() -> None:
    with pytest.raises(UserError, match=r"--set sets method.name to 'replay': choose a method with --method"):
        recipes.compose("digits", overrides=["method.name=replay"])
    assert recipes.compose("digits", overrides=["method.name=dytox"]).method.name == "dytox"
