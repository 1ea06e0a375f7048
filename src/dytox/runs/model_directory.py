"""A model directory: all that is needed to predict and to go on learning, and no code.

`config.json` names the other files with their SHA-256; these carry a part of it in their names, so a new
state stands beside the old one until the rename of `config.json` makes it the valid one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from dytox import upgrade
from dytox.errors import UserError
from dytox.runs import files, locks, sealed, tensor_file

_KIND = "dytox model"
_OURS = re.compile(r"(model|memory)-[0-9a-f]{8}\.safetensors|history-[0-9a-f]{8}\.json")


@dataclass(frozen=True)
class SavedModel:
    """What a model directory holds; `memory` is None where there is none."""

    description: dict[str, Any]
    model: dict[str, Tensor]
    memory: dict[str, Tensor] | None
    history: list[Any]


def save(
    path: str | Path,
    description: Mapping[str, Any],
    model: Mapping[str, Tensor],
    memory: Mapping[str, Tensor] | None,
    history: list[Any],
) -> None:
    """Save a new state; the old one stays valid until all of the new one is on the disk."""
    folder = Path(path)
    config = folder / "config.json"
    assert "files" not in description, "`files` is not the description's"
    files.make_folder(folder)
    with locks.for_saving(folder, f"The model {folder}"):
        _refuse_foreign(config)
        before = {each.name for each in folder.iterdir()}
        try:
            named = {"model": sealed.attach(folder / "model.safetensors", tensor_file.encode_tensors(model))}
            if memory is not None:
                named["memory"] = sealed.attach(
                    folder / "memory.safetensors", tensor_file.encode_tensors(memory)
                )
            named["history"] = sealed.attach(folder / "history.json", [files.to_json(history, indent=2)])
            sealed.write_sealed(config, _KIND, {**description, "files": named})
        finally:
            _clean(config, before)


def load(path: str | Path) -> SavedModel:
    """Load the valid state; if a writer removes its files meanwhile, the state that replaced it.

    Without its memory a model can still predict: where that file is missing, there is none.
    """
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise files.not_a("model", folder, without="config.json")
    before = None
    while True:
        config, found = sealed.read_sealed(folder / "config.json", _KIND)
        try:
            return _read_state(folder / "config.json", config, found)
        except files.MissingFile:
            if config == before:
                return _read_state(folder / "config.json", config, found, memory=False)
            before = config


def files_of(path: str | Path) -> dict[str, str]:
    """The names of the files beside `config.json` that are there: model, memory, history."""
    source = Path(path) / "config.json"
    named = sealed.read_sealed(source, _KIND)[0]["files"]
    followed = {role: sealed.follow(source, reference)[0] for role, reference in named.items()}
    return {role: file.name for role, file in followed.items() if file.exists()}


def _read_state(source: Path, config: dict[str, Any], found: int, *, memory: bool = True) -> SavedModel:
    named = config.get("files")
    if not isinstance(named, dict):
        raise files.damaged(source, "it does not name its files")
    model, _ = files.read_tensors(*sealed.follow(source, named.get("model")))
    exemplars = None
    if memory and "memory" in named:
        exemplars, _ = files.read_tensors(*sealed.follow(source, named["memory"]))
    history = files.read_json(*sealed.follow(source, named.get("history")))
    if not isinstance(history, list):
        raise files.damaged(source, "its history is not a list")
    description = {key: value for key, value in config.items() if key != "files"}
    try:
        description, model = upgrade.model(description, model, found)
    except ValueError as error:
        raise files.damaged(source, str(error)) from error
    return SavedModel(description, model, exemplars, history)


def _refuse_foreign(config: Path) -> None:
    """Raise if `config.json` belongs to another program."""
    if config.exists():
        content = files.read_json(config)
        if not isinstance(content, dict) or content.get("kind") != _KIND:
            raise UserError(f"{config} is not a {_KIND}'s and would be overwritten: choose another folder.")


def _clean(config: Path, before: set[str]) -> None:
    """Remove files that the valid state does not name or, if none can be read, the new files."""
    try:
        keep = {each["name"] for each in sealed.read_sealed(config, _KIND)[0]["files"].values()}
    except UserError:
        keep = before
    for path in config.parent.iterdir():
        if files.is_temporary(path) or (_OURS.fullmatch(path.name) and path.name not in keep):
            files.remove(path)
