"""Validating values against the schema, with one sentence per error; merging and comparing nested values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dytox.errors import UserError, unknown

AnySection = TypeVar("AnySection", bound=BaseModel)


def validate(schema: type[AnySection], values: Mapping[str, Any], prefix: str = "") -> AnySection:
    """Validate `values` by `schema`; an error is one sentence with the full name of the key."""
    try:
        return schema.model_validate(dict(values))
    except ValidationError as error:
        raise _explain(schema, error, prefix) from None


def _explain(schema: type[BaseModel], error: ValidationError, prefix: str) -> UserError:
    errors = error.errors(include_url=False)
    first = errors[0]
    section, path = _follow(schema, first["loc"])
    key = prefix + ".".join(path)
    if first["type"] == "extra_forbidden":
        return _unknown_key(key, path[-1], list(section.model_fields))
    if first["type"] == "value_error":  # the message names the keys in full
        return UserError(f"Impossible config: {first['ctx']['error']}.")
    if first["type"] == "model_type":
        within = ", ".join(section.model_fields)
        return UserError(f"Config key {key} is a section with the keys {within}, not {first['input']!r}.")
    here = [
        each for each in errors if _follow(schema, each["loc"])[1] == path
    ]  # one error for each type that the key may have
    wanted = dict.fromkeys(each["msg"].split(" should ")[-1].split(" after ")[0] for each in here)
    what = " or ".join(wanted).replace(" or be ", " or ")
    value = here[-1]["input"]
    named = [
        name for each in here for name in re.findall(r"'(.+?)'", each.get("ctx", {}).get("expected", ""))
    ]
    near = difflib.get_close_matches(value, named, n=1) if isinstance(value, str) else []
    hint = f": did you mean {near[0]!r}?" if near else "."
    return UserError(f"Config key {key} should {what}, not {value!r}{hint}")


def _unknown_key(key: str, name: str, known: list[str]) -> UserError:
    section = key.removesuffix(name)
    if difflib.get_close_matches(name, known):
        return unknown("config key", key, [section + each for each in known])
    where = f"the section {section.rstrip('.')}" if section else "a config"
    return UserError(f"Unknown config key {key!r}: {where} has the keys {', '.join(known)}.")


def _follow(schema: type[BaseModel], place: Sequence[str | int]) -> tuple[type[BaseModel], list[str]]:
    """The section in which an error is, and the keys that lead to it, without positions in lists."""
    path: list[str] = []
    for name in map(str, place):
        path.append(name)
        annotation = schema.model_fields[name].annotation if name in schema.model_fields else None
        candidates = [annotation, *getattr(annotation, "__args__", ())]
        inner = [each for each in candidates if isinstance(each, type) and issubclass(each, BaseModel)]
        if not inner:
            break
        schema = inner[0]
    return schema, path


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` overridden by `over`, section by section."""
    merged = dict(base)
    for key, value in over.items():
        mine = merged.get(key)
        merged[key] = (
            merge(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
        )
    return merged


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested sections by their full keys, as in {"training.epochs": 100}."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        full = prefix + key
        found |= flat(value, f"{full}.") if isinstance(value, Mapping) else {full: value}
    return found


def differing(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The pairs of values that differ, by full key; None stands for a key that one side does not have."""
    here, there = flat(mine), flat(theirs)
    pairs = {key: (here.get(key), there.get(key)) for key in {**here, **there}}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
