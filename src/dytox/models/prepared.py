"""The part of a module's work that does not depend on the images, computed once while its weights stay."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import nn

Prepared = TypeVar("Prepared")


class Preparing(Generic[Prepared]):
    """A module part of whose work depends on its weights alone."""

    cache: Prepared | None = None

    @abstractmethod
    def prepare(self) -> Prepared:
        """Compute that part."""

    def prepared(self) -> Prepared:
        """The cached result of `prepare` within `cached`, otherwise a new one."""
        return self.prepare() if self.cache is None else self.cache


@contextmanager
def cached(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Within it each of these modules prepares once; their weights must not change until its end."""
    mine = [each for each in modules if isinstance(each, Preparing) and each.cache is None]
    before = [_versions(each) for each in mine]
    with torch.no_grad():
        for each in mine:
            each.cache = each.prepare()
    try:
        yield
    finally:
        for each in mine:
            del each.cache  # compiled code sees what it saw before
    assert before == [_versions(each) for each in mine], "weights changed while they were cached"


def frozen(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """Those of the modules in which nothing learns."""
    return (each for each in modules if not any(weight.requires_grad for weight in each.parameters()))


def _versions(module: nn.Module) -> list[int]:
    return [weight._version for weight in module.parameters()]
