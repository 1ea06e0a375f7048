"""What a user can mend: one clear sentence and exit code 2, never a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can mend; the message says what, where, and what would be right."""


class Lost(UserError):
    """Another process of the run is gone; which, and why, is not known here."""


def unknown(kind: str, name: object, known: Iterable[object]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(str(each) for each in known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(names) or 'none'}."
    return UserError(f"Unknown {kind} {str(name)!r}: {hint}")
