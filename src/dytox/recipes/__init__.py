"""Presets: a recipe is a scenario (which classes come when) with a method (how they are learned).

Defaults < the method's preset at the scenario's scale < the scenario < what a method always has < `--set`.
A scenario with `large: true` has images as large as ImageNet's, one with `tuned: true` takes our own values
in the place of the paper's: a preset may have such values under the same name.
A scenario of one's own is a YAML file in the form of those in `scenarios/`, named by its path.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dytox import upgrade
from dytox.errors import UserError, unknown

if TYPE_CHECKING:  # the schema and the reader of YAML are slow to import, and a list of names needs neither
    from dytox.config import Config

VARIANTS = ("large", "tuned")


def scenarios() -> dict[str, str]:
    """The scenarios and what each is."""
    return {name: _about("scenarios", name) for name in _names("scenarios")}


def methods() -> dict[str, str]:
    """The method presets and what each is."""
    return {name: _about("methods", name) for name in _names("methods")}


def paper_name(method: str) -> str:
    """What the paper calls a preset, which `compose` takes too: dytox++ is dytox-plus-plus."""
    return method.replace("-plus", "+")


def compose(
    recipe: str,
    *,
    method: str = "dytox",
    overrides: Iterable[str] = (),
    values: Mapping[str, Any] | None = None,
) -> Config:
    """The config of a recipe with a method, then `key=value` overrides, then nested values."""
    from dytox.checking import merge, validate
    from dytox.config import Config

    scenario = _scenario(recipe)
    preset = _method_preset(method)
    base = _read("bases", preset["extends"])
    scale = scenario["scale"]
    if str(scale) not in base["scales"]:
        raise unknown("scale", scale, base["scales"])
    layers: list[Mapping[str, Any]] = [{"recipe": Path(recipe).stem}]
    for part in (base, preset):
        layers += [part.get("config", {}), part.get("scales", {}).get(scale, {})]
        layers += [part.get(variant, {}) for variant in VARIANTS if scenario.get(variant)]
    layers += [upgrade.keys(scenario["config"]), preset.get("always", {})]
    layers += [*map(override, overrides), upgrade.keys(values or {})]
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
        parsed = _yaml(value) if value.strip() else None
    except _Unreadable:
        raise UserError(f"--set {text!r}: the value is not readable as YAML.") from None
    for part in reversed(key.strip().split(".")):
        parsed = {part: parsed}
    return upgrade.keys(cast(dict[str, Any], parsed))


def _scenario(recipe: str) -> dict[str, Any]:
    if recipe in _names("scenarios"):
        return _read("scenarios", recipe)
    if recipe.endswith((".yaml", ".yml")):
        return _read_own(Path(recipe).expanduser())
    raise unknown("recipe", recipe, _names("scenarios"))


def _read_own(path: Path) -> dict[str, Any]:
    """A scenario from somebody's own file, checked as far as the schema does not do it."""
    try:
        content = _yaml(path.read_bytes())
    except OSError as error:
        raise UserError(f"The recipe {path} cannot be read: {error.strerror}.") from None
    except _Unreadable as error:
        raise UserError(f"The recipe {path} is not readable as YAML{error}.") from None
    form = "a recipe has the keys scale and config, about, large and tuned if wanted"
    keys = content if isinstance(content, dict) else {}
    for key in keys:
        if key not in ("about", "scale", *VARIANTS, "config"):
            raise UserError(f"The recipe {path} has the key {key!r}: {form}.")
    for key in ("scale", "config"):
        if key not in keys:
            raise UserError(f"The recipe {path} has no key {key!r}: {form}.")
    if not isinstance(keys["config"], dict):
        raise UserError(f"The recipe {path}: config holds keys and values, not {keys['config']!r}.")
    return keys


def _method_preset(name: str) -> dict[str, Any]:
    name = name.replace("+", "-plus")  # see paper_name
    if name in _names("methods"):
        return _read("methods", name)
    return {"extends": "transformer", "config": {"method": {"name": name}}}  # of another package


@cache
def _names(kind: str) -> list[str]:
    folder = files(__package__).joinpath(kind)
    return sorted(each.name.removesuffix(".yaml") for each in folder.iterdir() if each.name.endswith(".yaml"))


@cache
def _read(kind: str, name: str) -> dict[str, Any]:
    return cast(dict[str, Any], _yaml(_text(kind, name)))


def _about(kind: str, name: str) -> str:
    """What stands in the first line: a list of all need not read all, which takes longer than a list may."""
    text = _text(kind, name).partition("\n")[0].removeprefix("about: ")
    return str(json.loads(text)) if text.startswith('"') else text


def _text(kind: str, name: str) -> str:
    return files(__package__).joinpath(kind, f"{name}.yaml").read_text(encoding="utf-8")


class _Unreadable(Exception):
    """Text that is not YAML; as text, where."""


def _yaml(text: str | bytes) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)  # YAML 1.2
    except (YAMLError, ValueError) as error:  # ValueError: a date that is none
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        raise _Unreadable(f" in line {mark.line + 1}" if mark else "") from None
