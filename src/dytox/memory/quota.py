"""The number of exemplars a class."""

from __future__ import annotations

from dytox.config import MemoryConfig
from dytox.errors import UserError


def exemplars_per_share(config: MemoryConfig, classes: int) -> int:
    """The number of images a class in each share of the memory, after `classes` classes have been seen."""
    shared = config.size // classes
    per_class = shared if config.per_class is None else min(shared, config.per_class)
    per_share = per_class if config.budget == "each" else per_class // config.shares
    if per_share == 0:
        key, value, each = ("size", config.size, classes)
        if config.per_class is not None and config.per_class < shared:
            key, value, each = ("per_class", config.per_class, 1)
        shares = f" in each of {config.shares} shares" if config.shares > 1 else ""
        least = each * (1 if config.budget == "each" else config.shares)
        none = ", or 0 for no memory" if key == "size" else ""
        raise UserError(
            f"memory.{key} {value} leaves no image{shares} for each of {classes} classes: "
            f"it must be at least {least}{none}."
        )
    return per_share
