"""The processes of a run, and what each of them does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class World:
    """One process of `size`; the default is a run of one process."""

    rank: int = 0
    size: int = 1

    def rows(self, count: int) -> slice:
        """This process's rows of a batch: whole pairs, so that MixUp's partners stay together."""
        pairs = (count + 1) // 2
        first, last = pairs * self.rank // self.size, pairs * (self.rank + 1) // self.size
        return slice(2 * first, min(2 * last, count))
