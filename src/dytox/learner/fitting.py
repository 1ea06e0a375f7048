"""Whether the parts of a saved model fit each other: asked before any of them is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dytox.checking import validate
from dytox.config import Config, DataConfig
from dytox.importing import confirm
from dytox.methods import registry
from dytox.runs.model_directory import SavedModel


def config_of(saved: SavedModel, trusted: str | None = None) -> Config:
    """The config of a sound saved model, whose method is of this package, installed for it, or trusted."""
    about = saved.description
    config = validate(Config, about["config"])
    name = config.method.name
    confirm(name, [trusted], where="it", option="--method")
    _check_description(about)
    _check_weights(config, about["structure"], saved.model)
    _check_memory(saved.memory or {}, config.data, len(about["classes"]))
    if not all(_is_event(entry) for entry in saved.history):
        raise ValueError("its history is none")
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
    names, increments = about["classes"], about["increments"]
    text = isinstance(names, list) and all(isinstance(name, str) for name in names)
    sizes = isinstance(increments, list) and all(type(size) is int and size > 0 for size in increments)
    if not (text and sizes and len(names) == len(set(names)) == sum(increments)):
        raise ValueError("its tasks do not fit its classes")
    if sum(about["structure"]["model"]["increments"]) != len(names):
        raise ValueError("its network does not fit its tasks")
    if type(about["temperature"]) is not float or not 0 < about["temperature"] < 1e6:
        raise ValueError("its temperature is none")


def _check_weights(config: Config, structure: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Compares shapes before anything is allocated: a small file cannot ask for all of the machine."""
    with torch.device("meta"):
        method = registry.find(config.method.name)(registry.complete(config))
        method.rebuild(structure)
    own = config.model.encoder == "own"  # whose weights are checked when they are loaded
    wanted = {name: tensor.shape for name, tensor in method.state_dict().items()}
    found = {
        name: tensor.shape
        for name, tensor in weights.items()
        if not (own and name.startswith(("model.encoder.", "teacher.encoder.")))
    }
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            raise ValueError(f"its weights {name!r} are not those of its network")
    if not all(tensor.isfinite().all() for tensor in weights.values()):
        raise ValueError("some of its weights are no numbers")


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
