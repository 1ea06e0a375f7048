"""The page of the config: keys, types, defaults, and their meanings from the comments beside them."""

from __future__ import annotations

import ast
import inspect
import io
import json
import re
import tokenize
from typing import Any, get_args

from pydantic import BaseModel

from dytox.config import Config
from dytox.methods import registry

ABOUT = """# Config

Every key of a run, strictly typed: unknown keys, wrong types and impossible combinations are refused. The
defaults are the paper's, for CIFAR-100; recipes, scales and methods change them, and
`dytox show RECIPE --method METHOD` prints what is in effect. On the command line a key is set with
`--set section.key=value`, in Python with `config={"section": {"key": value}}`.
"""
OPTIONS = """## Options of the methods

Under `method:`, checked by the method that is named there.
"""
HEAD = ["| key | type | default | meaning |", "|---|---|---|---|"]
SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def page() -> list[str]:
    """Return the lines of the page."""
    lines = [ABOUT, *_section(Config(), ""), OPTIONS]
    for name in sorted(registry.BUILT_IN):
        options = registry.find_method(name).Options
        if options.model_fields:
            lines += [f"### {name}", "", *_table(options(), "method."), ""]
    return lines


def _section(section: BaseModel, prefix: str) -> list[str]:
    """Return the keys of a section, then the sections in it, also those that are null by default."""
    values = {name: getattr(section, name) for name in type(section).model_fields}
    inner = {name: value for name, value in values.items() if isinstance(value, BaseModel)}
    optional = {
        name: kind()
        for name, field in type(section).model_fields.items()
        for kind in get_args(field.annotation)
        if values[name] is None and isinstance(kind, type) and issubclass(kind, BaseModel)
    }
    lines = [f"## {prefix.rstrip('.')}", "", inspect.getdoc(type(section)) or "", ""] if prefix else []
    lines += [*_table(section, prefix), ""] if len(inner) < len(values) else []
    for name, value in (inner | optional).items():
        lines += _section(value, f"{prefix}{name}.")
    return lines


def _table(section: BaseModel, prefix: str) -> list[str]:
    notes, lines = _notes(type(section)), list(HEAD)
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if not isinstance(value, BaseModel):
            kind, meaning = notes[name]
            limits = "".join(_limits(each) for each in field.metadata)
            kind = f"{kind.removesuffix(' | null')}{limits}{', or null' if kind.endswith('| null') else ''}"
            cells = (f"`{prefix}{name}`", kind, f"`{_value(value)}`", meaning)
            lines.append(f"| {' | '.join(each.replace('|', 'or') for each in cells)} |")
    return lines


def _limits(metadata: object) -> str:
    found = ((sign, getattr(metadata, name, None)) for name, sign in SIGNS.items())
    return "".join(f" {sign} {value:g}" for sign, value in found if value is not None)


def _value(value: Any) -> str:
    """Return a value as it is written in `--set`."""
    return value if isinstance(value, str) else json.dumps(value)


def _notes(section: type[BaseModel]) -> dict[str, tuple[str, str]]:
    """Return the type and the comment of each key of a section, from the source; bases first."""
    found: dict[str, tuple[str, str]] = {}
    for base in reversed(section.__mro__):
        if issubclass(base, BaseModel) and base.__module__.startswith("dytox."):
            found |= _own_notes(base)
    return found


def _own_notes(section: type[BaseModel]) -> dict[str, tuple[str, str]]:
    module = inspect.getmodule(section)
    assert module is not None
    source = inspect.getsource(module)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    classes = {node.name: node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)}
    found = {}
    for node in classes[section.__name__].body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            beside = " ".join(comments[line] for line in lines if line in comments)
            found[node.target.id] = (_kind(node.annotation), beside)
    return found


def _kind(annotation: ast.expr) -> str:
    text = re.sub(r"Annotated\[(\w+), .*?\)\]", r"\1", ast.unparse(annotation))
    text = re.sub(r"\w+Config\b", "section", text)
    names = re.compile(r"Literal\[([^\]]*)\]")
    return names.sub(lambda found: found[1].replace("'", "`").replace(", ", " | "), text).replace(
        "None", "null"
    )
