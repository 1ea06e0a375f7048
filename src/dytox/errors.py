"""Errors that a user can mend: reported as one sentence with exit code 2, without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """An error that the user can mend; the message says what is wrong, where, and what to do."""


class Lost(UserError):
    """Another process of the run has ended; this process does not know which one or why."""


def unknown(kind: str, name: object, known: Iterable[object]) -> UserError:
    """The error for an unknown name; it suggests the most similar known name."""
    names = sorted(str(each) for each in known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(names) or 'none'}."
    return UserError(f"Unknown {kind} {str(name)!r}: {hint}")
