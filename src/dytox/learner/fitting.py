"""Checks that the parts of a saved model fit each other, before any of them is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dytox.checking import validate
from dytox.config import Config, DataConfig
from dytox.errors import UserError
from dytox.importing import confirm
from dytox.methods import registry
from dytox.models.encoders import from_saved_state
from dytox.models.pretrained import OwnEncoder
from dytox.runs.model_directory import SavedModel


def config_of(saved: SavedModel, trusted: str | None = None, encoder: nn.Module | None = None) -> Config:
    """The config of a sound saved model, whose method is of this package, installed for it, or trusted.

    `encoder` is the module that a model with an encoder of its user's needs.
    """
    about = saved.description
    config = validate(Config, about["config"])
    name = config.method.name
    confirm(name, [trusted], where="it", option="--method")
    if config.model.encoder == "own" and encoder is None:
        raise UserError(
            "its encoder is a custom module, which is not saved: pass it, as in load(path, encoder=module)"
        )
    _check_description(about)
    _check_weights(config, about["structure"], saved.model, encoder)
    _check_memory(saved.memory or {}, config.data, len(about["classes"]))
    if not all(_is_event(entry) for entry in saved.history):
        raise ValueError("its history is not a list of lessons")
    return config


def _is_event(entry: Any) -> bool:
    match entry:
        case {"forgotten": int(), "finished": str()}:
            return True
        case {
            "classes": [*names],
            "known_classes": [*others],
            "images": int(),
            "machine": str(),
            "finished": str(),
        }:
            return all(isinstance(name, str) for name in [*names, *others])
    return False


def _check_description(about: Mapping[str, Any]) -> None:
    names, increments = about["classes"], about["structure"]["model"]["increments"]
    text = isinstance(names, list) and all(isinstance(name, str) for name in names)
    sizes = isinstance(increments, list) and all(type(size) is int and size > 0 for size in increments)
    if not (text and sizes and len(names) == len(set(names)) == sum(increments)):
        raise ValueError("its tasks do not fit its classes")
    if type(about["temperature"]) is not float or not 0 < about["temperature"] < 1e6:
        raise ValueError("its temperature must be a finite positive number")


def _check_weights(
    config: Config, structure: Mapping[str, Any], weights: Mapping[str, Tensor], encoder: nn.Module | None
) -> None:
    """Compares shapes before anything is allocated: a small file cannot ask for all of the machine."""
    with torch.device("meta"):
        method = registry.find_method(config.method.name)(from_saved_state(registry.complete(config)))
        if config.model.encoder == "own":
            module = OwnEncoder(encoder or nn.Identity(), config.model.dim)
            method.model.put_encoder(module.to("meta"))
        method.rebuild(structure)
    wanted = {name: tensor.shape for name, tensor in method.state_dict().items()}
    found = {name: tensor.shape for name, tensor in weights.items()}
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            raise ValueError(f"its weights {name!r} are not those of its network")
    if not all(tensor.isfinite().all() for tensor in weights.values()):
        raise ValueError("some of its weights are not finite numbers")


def _check_memory(memory: Mapping[str, Tensor], data: DataConfig, classes: int) -> None:
    size = data.image_size
    for name, tensor in memory.items():
        seen = tensor.shape[1:] == (3, size, size) if name.endswith("images") else True
        seen = tensor.tolist() == [size, data.resize or size] if name.endswith("sides") else seen
        if not seen:
            raise ValueError(f"the images in its memory are not {size}×{size} pixels")
        if (
            name.endswith("labels")
            and tensor.numel()
            and not 0 <= int(tensor.min()) <= int(tensor.max()) < classes
        ):
            raise ValueError("its memory has labels that it does not know")
