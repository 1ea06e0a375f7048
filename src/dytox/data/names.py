"""Class names: printable text, and no two names that look alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from dytox.errors import UserError


def tidy(name: str) -> str:
    """Normalise a name for storage: some file systems store letters and accents separately."""
    return unicodedata.normalize("NFC", name)


def check_names(new: Iterable[str], known: Iterable[str] = ()) -> None:
    """Raise if a new name is not printable, or differs from another one only in case or normalisation."""
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
    """Remove duplicates and sort: numbers by value, then other names alphabetically."""
    return sorted(set(names), key=lambda name: (0, int(name), name) if name.isdecimal() else (1, 0, name))


def _alike(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()
