"""The page of the Python API: the public names, from their signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import dytox

ABOUT = """# Python

What other programs may rely on; everything else may change without notice.
"""
API = {
    "Learn and predict": ["learner.continual:ContinualLearner", "learner.assessment:Assessment"],
    "The model by itself": ["models.dytox:DyTox", "models.base:Output"],
    "Runs": ["recipes:compose", "experiments.train:train", "experiments.train:resume"],
    "Data": ["data.datasets:load", "data.datasets:from_arrays", "data.samples:Samples"],
    "A method of your own": [
        *("method:Method", "method:Preset", "method:Action", "method:Training", "method:Lesson"),
        *(
            "method:select_memory",
            "method:Term",
            "method:ContinualModel",
            "method:network",
        ),
    ],
    "Losses": ["losses:classification", "losses:distillation"],
    "Published figures": ["published.figures:rows", "published.comparable:compare"],
    "Errors": ["errors:UserError"],
}


def page() -> list[str]:
    """Return the lines of the page."""
    lines = [ABOUT]
    for title, places in API.items():
        lines += [f"## {title}", ""]
        for place in places:
            module, _, name = place.partition(":")
            lines += _described(name, importlib.import_module(f"dytox.{module}"))
    return lines


def _described(name: str, module: Any) -> list[str]:
    thing = getattr(module, name)
    place = "dytox" if name in dytox.__all__ else module.__name__
    lines = [f"### {name}", "", f"`from {place} import {name}`", ""]
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        lines += ["```", f"{name}{_signature(thing)}", "```", ""]
    lines += [_text(thing), ""]
    members = list(_members(thing)) if inspect.isclass(thing) else []
    for each, member in members:
        first, *rest = _text(member).split("\n")
        lines += [f"- **`{each}{_signature(member)}`** {first}", *(f"  {line}".rstrip() for line in rest)]
    return [*lines, ""] if members else lines


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Return public methods and properties, also those of dytox's own base classes."""
    seen = set()
    for owner in (each for each in thing.__mro__ if each.__module__.startswith("dytox")):
        for name, member in vars(owner).items():
            inner = getattr(member, "__func__", getattr(member, "fget", member))
            if inspect.isfunction(inner) and inner.__doc__ and name not in seen and not name.startswith("_"):
                seen.add(name)
                yield name, member


class _Plain(str):
    """An annotation that is shown as in the source, without module names."""

    __slots__ = ()

    def __repr__(self) -> str:
        return re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", self)


def _signature(thing: Any) -> str:
    if isinstance(thing, property):
        return ""
    signature = inspect.signature(getattr(thing, "__func__", thing))
    kept = [
        each.replace(annotation=_Plain(each.annotation))
        for each in signature.parameters.values()
        if each.name not in ("self", "cls")
    ]
    given = signature.return_annotation
    returned = signature.empty if given in (signature.empty, None, "None") else _Plain(given)
    text = str(signature.replace(parameters=kept, return_annotation=returned))
    return re.sub(r"<function (\w+) at \w+>", r"\1", text).replace("<factory>", "…")


def _text(thing: Any) -> str:
    return inspect.getdoc(getattr(thing, "__func__", thing)) or ""
