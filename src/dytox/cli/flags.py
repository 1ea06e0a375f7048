"""Commands whose flags show no type, as they take no value, and cost nothing where they are not given."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command with plain flags."""

    def get_params(self, ctx: Any) -> Any:
        """Arguments and options, typer's own too."""
        return _plain(super().get_params(ctx))


class Commands(TyperGroup):
    """The program itself, likewise."""

    def get_params(self, ctx: Any) -> Any:
        """Its options."""
        return _plain(super().get_params(ctx))


def _plain(parameters: list[Any]) -> list[Any]:
    """None in the place of False would be checked by typer, which imports pydantic for it."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.default, each.metavar = each.default or False, ""
    return parameters
