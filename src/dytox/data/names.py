"""Names of classes: any text that can be shown, and no two that look alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from dytox.errors import UserError


def tidy(name: str) -> str:
    """A name as it is stored: some file systems take accents apart."""
    return unicodedata.normalize("NFC", name)


def check(new: Iterable[str], known: Iterable[str] = ()) -> None:
    """New names must be printable, and differ from each other and from those known by more than case."""
    taken = {_alike(name): name for name in known}
    for name in new:
        if not name.strip() or not name.isprintable():
            raise UserError(f"The class name {name!r} is empty or cannot be printed: rename it.")
        other = taken.setdefault(_alike(name), name)
        if other != name:
            raise UserError(
                f"The classes {other!r} and {name!r} differ only in case or spelling of letters: "
                "give one class one name, or different classes different ones."
            )


def in_order(names: Iterable[str]) -> list[str]:
    """Each name once: numbers by value, then text by alphabet."""
    return sorted(set(names), key=lambda name: (0, int(name), name) if name.isdecimal() else (1, 0, name))


def _alike(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()
