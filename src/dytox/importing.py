"""Code of the user's own, named as `module:name`: found, and never imported only because a file names it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

from dytox.errors import UserError


def is_place(name: str) -> bool:
    """Whether a name is of the form `module:name`; `hf:NAME` is a dataset of Hugging Face."""
    module, colon, attribute = name.partition(":")
    parts = [*module.split("."), attribute]
    return bool(colon) and module != "hf" and all(part.isidentifier() for part in parts)


def load(place: str, what: str) -> Any:
    """The object that `module:name` names; `what` names it in errors.

    The module is installed, or it lies in the current folder. That folder is searched for this module alone:
    it does not get onto Python's path, where any library could import files that lie there.
    """
    module_name, _, name = place.partition(":")
    if not is_place(place):
        raise UserError(f"{what} is not of the form module:name.")
    try:
        top = module_name.partition(".")[0]
        if top not in sys.modules and not _is_installed(top):
            _import_here(top)
        return getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{what} cannot be loaded from {place}: {error}.") from None


def confirm(name: str, trusted: Collection[str | None], *, where: str, option: str) -> None:
    """Raise if `where` (a file) names code that the user has not named too, with `option`."""
    if is_place(name) and name not in trusted:
        raise UserError(f"{where} asks to run code from {name}: if you trust it, add {option} {name}.")


def _is_installed(top: str) -> bool:
    """Whether Python finds the module; "" on its path would be the current folder."""
    if top in sys.builtin_module_names:
        return True
    return PathFinder.find_spec(top, [each for each in sys.path if each]) is not None


def _import_here(top: str) -> None:
    spec = PathFinder.find_spec(top, [str(Path.cwd())])
    if spec is None or spec.loader is None:
        return  # the import that follows says that there is none
    module = module_from_spec(spec)
    sys.modules[top] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[top]
        raise
