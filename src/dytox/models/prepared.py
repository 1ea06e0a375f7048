"""What does not depend on the images: computed once a pass, or once while the weights stay as they are."""

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

    held: Prepared | None = None

    @abstractmethod
    def prepare(self) -> Prepared:
        """That part."""

    def prepared(self) -> Prepared:
        """It, as it was when the weights were held, or computed now."""
        return self.prepare() if self.held is None else self.held


@contextmanager
def held(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Within it, what these modules prepare is computed once: their weights must not change until its end."""
    mine = [each for each in modules if isinstance(each, Preparing) and each.held is None]
    before = [_versions(each) for each in mine]
    with torch.no_grad():
        for each in mine:
            each.held = each.prepare()
    try:
        yield
    finally:
        for each in mine:
            del each.held  # compiled code sees what it saw before
    assert before == [_versions(each) for each in mine], "weights changed while they were held"


def frozen(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """Those of the modules in which nothing learns."""
    return (each for each in modules if not any(weight.requires_grad for weight in each.parameters()))


def _versions(module: nn.Module) -> list[int]:
    return [weight._version for weight in module.parameters()]
