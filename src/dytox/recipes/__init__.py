"""Presets: a recipe is a scenario (which classes come when) with a method (how they are learned).

Defaults < the method's preset at the scenario's scale < the scenario < what a method always has < `--set`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from dytox.config import Config, merge, validate
from dytox.errors import UserError, unknown


def scenarios() -> dict[str, str]:
    """The scenarios and what each is."""
    return {name: _read("scenarios", name)["about"] for name in _names("scenarios")}


def methods() -> dict[str, str]:
    """The method presets and what each is."""
    return {name: _read("methods", name)["about"] for name in _names("methods")}


def compose(
    recipe: str,
    *,
    method: str = "dytox",
    overrides: Iterable[str] = (),
    values: Mapping[str, Any] | None = None,
) -> Config:
    """The config of a recipe with a method, then `key=value` overrides, then nested values."""
    if recipe not in _names("scenarios"):
        raise unknown("recipe", recipe, _names("scenarios"))
    scenario = _read("scenarios", recipe)
    preset = _method_preset(method)
    scale = scenario["scale"]
    layers: list[Mapping[str, Any]] = [{"recipe": recipe}]
    for part in (_read("bases", preset["extends"]), preset):
        layers += [part.get("config", {}), part.get("scales", {}).get(scale, {})]
    layers += [scenario["config"], preset.get("always", {}), *map(override, overrides), values or {}]
    merged: dict[str, Any] = Config().model_dump()
    for layer in layers:
        merged = merge(merged, layer)
    return validate(Config, merged)


def override(text: str) -> dict[str, Any]:
    """`a.b=value` as a nested mapping; the value is YAML 1.2, so 5e-4 is a number."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set {text!r} is not of the form key=value, as in --set training.epochs=50.")
    try:
        parsed = YAML(typ="safe", pure=True).load(value) if value.strip() else None
    except YAMLError:
        raise UserError(f"--set {text!r}: the value is not readable as YAML.") from None
    for part in reversed(key.strip().split(".")):
        parsed = {part: parsed}
    return cast(dict[str, Any], parsed)


def _method_preset(name: str) -> dict[str, Any]:
    if name in _names("methods"):
        return _read("methods", name)
    return {"extends": "transformer", "config": {"method": {"name": name}}}  # of another package


def _names(kind: str) -> list[str]:
    folder = files(__package__).joinpath(kind)
    return sorted(each.name.removesuffix(".yaml") for each in folder.iterdir() if each.name.endswith(".yaml"))


def _read(kind: str, name: str) -> dict[str, Any]:
    text = files(__package__).joinpath(kind, f"{name}.yaml").read_text(encoding="utf-8")
    return cast(dict[str, Any], YAML(typ="safe", pure=True).load(text))
