"""The schema: what it refuses, in which words, and that nothing in it is idle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import dytox
from dytox.checking import differing, flat, merge, validate
from dytox.config import Config, MethodConfig, PhaseConfig, Section
from dytox.errors import UserError

SOURCE = Path(dytox.__file__).parent


def leaves(schema: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The full name of every key that holds a value."""
    for name, field in schema.model_fields.items():
        candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
        inner = [each for each in candidates if isinstance(each, type) and issubclass(each, BaseModel)]
        if inner:
            yield from leaves(inner[0], f"{prefix}{name}.")
        else:
            yield prefix + name


def attributes_read() -> set[str]:
    """Every attribute that the package reads, the checks of the schema itself aside."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        checks = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and "model_validator" in map(_called, node.decorator_list)
        ]
        aside = {id(node) for check in checks for node in ast.walk(check)}
        found |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in aside
        }
    return found


def _called(node: ast.expr) -> str:
    function = node.func if isinstance(node, ast.Call) else node
    return function.id if isinstance(function, ast.Name) else ""


def refused(values: dict[str, Any], schema: type[BaseModel] = Config, prefix: str = "") -> str:
    with pytest.raises(UserError) as error:
        validate(schema, values, prefix)
    return str(error.value)


def test_every_key_is_read_somewhere() -> None:
    read = attributes_read()
    idle = [key for key in leaves(Config) if key.rpartition(".")[2] not in read]
    assert idle == [], "a key that nothing reads is deleted"


def test_every_section_is_strict_frozen_and_closed() -> None:
    def sections(schema: type[BaseModel]) -> Iterator[type[BaseModel]]:
        yield schema
        for each in schema.__subclasses__():
            yield from sections(each)

    for schema in sections(Section):
        assert schema.model_config["strict"], schema
        assert schema.model_config["frozen"], schema
        assert schema.model_config["extra"] == "forbid", schema
        assert schema.model_config["allow_inf_nan"] is False, schema
    with pytest.raises(ValidationError):
        Config().seed = 3  # type: ignore[misc]


def test_the_defaults_are_the_papers_for_cifar100() -> None:
    config = Config()
    model, training, finetuning = config.model, config.training, config.finetuning
    assert (model.dim, model.heads, model.depth, model.patch_size) == (384, 12, 5, 4)
    assert (training.epochs, training.batch, training.lr, training.effective_lr) == (500, 256, 5e-4, 2.5e-4)
    assert training.optimizer.name == "adamw"
    assert training.optimizer.weight_decay == 1e-6
    assert not training.optimizer.decay_vectors
    schedule = training.schedule
    assert (schedule.name, schedule.warmup_epochs, schedule.warmup_lr) == ("cosine", 5, 1e-6)
    assert schedule.min_lr == 1e-5
    assert (finetuning.epochs, finetuning.effective_lr) == (20, 2.5e-5)
    assert (finetuning.schedule.name, finetuning.schedule.warmup_epochs) == ("constant", 0)
    assert config.memory.size == 2000
    assert (config.memory.selection, config.memory.shares, config.memory.budget) == ("herding", 1, "split")
    assert config.sam.rho == 0
    assert config.sam.skip_first
    assert config.augment.mixup == 0
    randaugment = config.augment.randaugment
    assert randaugment is not None
    assert (randaugment.operations, randaugment.magnitude, randaugment.magnitude_std) == (2, 9, 0.5)
    assert randaugment.probability == 0.5
    assert config.loss.activation == "sigmoid"
    assert config.loss.label_smoothing == 0


def test_the_learning_rate_is_scaled_by_the_batch_only_against_a_reference() -> None:
    assert PhaseConfig(batch=1024, lr=5e-4).effective_lr == 1e-3
    assert PhaseConfig(batch=1024, lr=5e-4, lr_reference_batch=None).effective_lr == 5e-4


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"trainign": {}}, "Unknown config key 'trainign': did you mean 'training'?"),
        (
            {"training": {"epoch": 3}},
            "Unknown config key 'training.epoch': did you mean 'training.epochs'?",
        ),
        (
            {"training": {"optimizer": {"beta": 1}}},
            "Unknown config key 'training.optimizer.beta': did you mean 'training.optimizer.betas'?",
        ),
        (
            {"augment": {"randaugment": {"foo": 1}}},
            "Unknown config key 'augment.randaugment.foo': the section augment.randaugment has the keys "
            "operations, magnitude, magnitude_std, probability.",
        ),
    ],
)
def test_an_unknown_key_is_named_in_full_with_the_nearest_known_one(
    values: dict[str, Any], words: str
) -> None:
    assert refused(values) == words


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"training": {"epochs": "ten"}}, "training.epochs should be a valid integer, not 'ten'."),
        ({"training": {"epochs": 5.0}}, "training.epochs should be a valid integer, not 5.0."),
        ({"training": {"epochs": True}}, "training.epochs should be a valid integer, not True."),
        ({"training": {"lr": "5e-4"}}, "training.lr should be a valid number, not '5e-4'."),
        ({"training": {"lr": 0}}, "training.lr should be greater than 0, not 0."),
        ({"training": {"lr": float("inf")}}, "training.lr should be a finite number, not inf."),
        ({"training": {"lr": float("nan")}}, "training.lr should be a finite number, not nan."),
        ({"data": {"mean": [1]}}, "data.mean should have at least 3 items, not [1]."),
        ({"data": {"mean": [0, 0, "x"]}}, "data.mean should be a valid number, not 'x'."),
        ({"data": {"std": [0.5, 0, 0.5]}}, "data.std should be greater than 0, not 0."),
        (
            {"training": {"optimizer": {"betas": [0.9, 1.0]}}},
            "training.optimizer.betas should be less than 1, not 1.0.",
        ),
        (
            {"memory": {"selection": "herd"}},
            "memory.selection should be 'herding', 'closest', 'furthest' or 'random', not 'herd': "
            "did you mean 'herding'?",
        ),
        (
            {"scenario": {"order": "mine"}},
            "scenario.order should be a valid integer or a valid list or 'natural', not 'mine'.",
        ),
        ({"method": {"name": 3}}, "method.name should be a valid string, not 3."),
        ({"seed": -1}, "seed should be greater than or equal to 0, not -1."),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_what_would_be_right(
    values: dict[str, Any], words: str
) -> None:
    assert refused(values) == f"Config key {words}"


def test_a_value_in_place_of_a_section_is_told_the_sections_keys() -> None:
    assert refused({"sam": 3}) == (
        "Config key sam is a section with the keys rho, adaptive, skip_first, phases, every, reuse, not 3."
    )
    assert refused({"augment": {"randaugment": True}}).startswith(
        "Config key augment.randaugment is a section"
    )


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ({"model": {"dim": 10, "heads": 3}}, ["model.dim 10", "model.heads 3"]),
        ({"scenario": {"increments": []}}, ["scenario.increments []"]),
        ({"scenario": {"increments": [2, 0]}}, ["scenario.increments [2, 0]"]),
        (
            {"training": {"epochs": 5, "schedule": {"warmup_epochs": 5}}},
            ["training.schedule.warmup_epochs 5", "training.epochs 5"],
        ),
        ({"augment": {"resized_crop": [0.9, 0.1]}}, ["augment.resized_crop [0.9, 0.1]"]),
    ],
)
def test_an_impossible_combination_names_every_key_in_it(values: dict[str, Any], keys: list[str]) -> None:
    message = refused(values)
    assert message.startswith("Impossible config: ")
    assert all(key in message for key in keys), message
    assert "\n" not in message


def test_a_methods_own_options_are_named_under_method() -> None:
    class Options(Section):
        temperature: float = 1.0

    assert refused({"temprature": 2.0}, Options, "method.") == (
        "Unknown config key 'method.temprature': did you mean 'method.temperature'?"
    )
    assert refused({"temperature": "hot"}, Options, "method.") == (
        "Config key method.temperature should be a valid number, not 'hot'."
    )
    assert MethodConfig.model_validate({"name": "x", "temperature": 2.0}).options == {"temperature": 2.0}


def test_merging_goes_section_by_section_and_leaves_its_arguments_alone() -> None:
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": [1, 2]}
    over = {"a": {"c": {"d": 3, "f": 4}}, "e": [5]}
    assert merge(base, over) == {"a": {"b": 1, "c": {"d": 3, "f": 4}}, "e": [5]}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": [1, 2]}
    assert merge({"a": None}, {"a": {"b": 1}}) == {"a": {"b": 1}}
    assert merge({"a": {"b": 1}}, {"a": None}) == {"a": None}


def test_sections_are_compared_by_full_keys() -> None:
    mine: dict[str, Any] = {"a": {"b": 1, "c": {"d": 2}}, "e": [1, 2], "f": None}
    assert flat(mine) == {"a.b": 1, "a.c.d": 2, "e": [1, 2], "f": None}
    assert differing(mine, {"a": {"b": 1, "c": None}, "e": [1], "g": 3}) == {
        "a.c.d": (2, None),
        "e": ([1, 2], [1]),
        "g": (None, 3),
    }
