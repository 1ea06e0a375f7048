"""Reading presets: YAML files of the package, a user's own recipe, and the values of `--set`."""

from __future__ import annotations

import json
import os
import stat
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from dytox import upgrade
from dytox.errors import UserError, unknown

VARIANTS = ("large", "tuned")  # switches of a scenario, and the names of what presets have for them
KEYS = ("about", "extends", "scale", *VARIANTS, "config")  # of a scenario
LARGEST = 2**20  # bytes of a recipe


@cache
def names(kind: str) -> list[str]:
    """The presets of the package: `kind` is "bases", "methods" or "scenarios"."""
    folder = files(__package__).joinpath(kind)
    return sorted(each.name.removesuffix(".yaml") for each in folder.iterdir() if each.name.endswith(".yaml"))


@cache
def preset(kind: str, name: str) -> dict[str, Any]:
    """The content of a preset of the package."""
    return cast(dict[str, Any], _yaml(_text(kind, name)))


def about(kind: str, name: str) -> str:
    """The description of a preset, from its first line: reading whole files would slow a listing down."""
    text = _text(kind, name).partition("\n")[0].removeprefix("about: ")
    return str(json.loads(text)) if text.startswith('"') else text


def scenario_chain(recipe: str) -> list[tuple[str, dict[str, Any]]]:
    """The scenario `recipe` and those that it extends, each with its name, the most general one first.

    A recipe is a name of the package or the path of a YAML file; what a file extends may be either, a path
    being relative to the file.
    """
    chain: list[tuple[str, dict[str, Any]]] = []
    seen: list[Path | str] = []
    named: Path | str | None = recipe if recipe in names("scenarios") else Path(recipe).expanduser()
    while named is not None:
        if named in seen:
            raise UserError(f"The recipe {recipe} extends itself by way of {named}: remove that `extends`.")
        seen.append(named)
        content = _scenario(named)
        chain.insert(0, (Path(named).stem if isinstance(named, Path) else named, content))
        above = content.get("extends")
        named = above if above is None or above in names("scenarios") else Path(seen[-1]).parent / above
    return chain


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


def _scenario(named: Path | str) -> dict[str, Any]:
    if isinstance(named, str):
        return preset("scenarios", named)
    if named.suffix not in (".yaml", ".yml"):
        raise unknown("recipe", named.name, names("scenarios"))
    try:
        content = _yaml(_read(named))
    except OSError as error:
        raise UserError(f"The recipe {named} cannot be read: {error.strerror}.") from None
    except _Unreadable as error:
        raise UserError(f"The recipe {named} is not readable as YAML{error}.") from None
    return _checked(named, content)


def _read(path: Path) -> bytes:
    """The content of a regular file: a pipe or a device could keep the reader waiting for ever."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(None, "Is a directory")
        if not stat.S_ISREG(mode):
            raise OSError(None, "It is not a regular file")
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(None, f"It is larger than {LARGEST // 2**20} MiB")
    return content


def _checked(path: Path, content: Any) -> dict[str, Any]:
    """A user's scenario, with the keys that it needs; the values of `config` are checked by the schema."""
    form = "a recipe has the keys scale and config, or extends; about, large and tuned if wanted"
    keys = content if isinstance(content, dict) else {}
    for key in keys:
        if key not in KEYS:
            raise UserError(f"The recipe {path} has the key {key!r}: {form}.")
    for key in () if "extends" in keys else ("scale", "config"):
        if key not in keys:
            raise UserError(f"The recipe {path} has no key {key!r}: {form}.")
    if not isinstance(keys.get("config", {}), dict):
        raise UserError(f"The recipe {path}: config holds keys and values, not {keys['config']!r}.")
    if not isinstance(keys.get("extends", ""), str):
        raise UserError(f"The recipe {path}: extends names one recipe, not {keys['extends']!r}.")
    for key in VARIANTS:
        if not isinstance(keys.get(key, False), bool):
            raise UserError(f"The recipe {path}: {key} is true or false, not {keys[key]!r}.")
    return {**keys, "config": upgrade.keys(keys.get("config", {}))}


def _text(kind: str, name: str) -> str:
    return files(__package__).joinpath(kind, f"{name}.yaml").read_text(encoding="utf-8")


class _Unreadable(Exception):
    """Text that is not YAML; its message says where."""


def _yaml(text: str | bytes) -> Any:
    """The content of YAML 1.2 without aliases, which could expand to more than the memory holds."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.tokens import AliasToken

    try:
        if "*" in (text if isinstance(text, str) else text.decode("latin-1")):
            for token in YAML(typ="safe", pure=True).scan(text):
                if isinstance(token, AliasToken):
                    raise _Unreadable(f" in line {token.start_mark.line + 1}: aliases (*) are not allowed")
        return YAML(typ="safe", pure=True).load(text)
    except RecursionError:
        raise _Unreadable(": its lists or sections are nested too deeply") from None
    except (YAMLError, ValueError) as error:  # ValueError: a date that does not exist
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        raise _Unreadable(f" in line {mark.line + 1}" if mark else "") from None
