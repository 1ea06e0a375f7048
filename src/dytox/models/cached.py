"""Values that depend on the weights alone: computed in each forward pass, or once while they are cached."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import nn

Constants = TypeVar("Constants")


class Cached(Generic[Constants]):
    """A module with a part of its computation that depends on its weights and not on the images."""

    cache: Constants | None = None

    @abstractmethod
    def compute_constants(self) -> Constants:
        """Compute what depends on the weights alone."""

    def constants(self) -> Constants:
        """The constants from the cache, or computed now."""
        return self.compute_constants() if self.cache is None else self.cache


@contextmanager
def cached(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Compute the constants of these modules once for the whole block, in which no weight may change."""
    mine = [each for each in modules if isinstance(each, Cached) and each.cache is None]
    before = [_versions(each) for each in mine]
    with torch.no_grad():
        for each in mine:
            each.cache = each.compute_constants()
    try:
        yield
    finally:
        for each in mine:
            del each.cache  # compiled code finds the attribute of the class again
    assert before == [_versions(each) for each in mine], "weights changed while constants were cached"


def frozen(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """The modules without a trainable parameter."""
    return (each for each in modules if not any(weight.requires_grad for weight in each.parameters()))


def _versions(module: nn.Module) -> list[int]:
    return [weight._version for weight in module.parameters()]
