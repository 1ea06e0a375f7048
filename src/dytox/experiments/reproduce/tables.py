"""Every table of the paper, by the name under which `dytox paper` and `dytox reproduce` have it."""

from __future__ import annotations

from collections.abc import Callable

from dytox.errors import unknown
from dytox.experiments.reproduce import methods, variants
from dytox.experiments.reproduce.plan import Plan

PLANS: dict[str, Callable[[], Plan]] = {
    "cifar100": methods.cifar100,
    "imagenet100": lambda: methods.imagenet("imagenet100"),
    "imagenet1000": lambda: methods.imagenet("imagenet1000"),
    "erratum": methods.erratum,
    "ablation": variants.ablation,
    "training": variants.training,
    "decoder": variants.decoder,
    "encoder": variants.encoder,
    "patch-size": variants.patch_size,
    "tab-sharing": variants.tab_sharing,
    "tuning": variants.tuning,
    "overheads": variants.overheads,
    "calibration": variants.calibration,
}


def plan(name: str) -> Plan:
    """The plan of this table."""
    if name not in PLANS:
        raise unknown("table", name, PLANS)
    return PLANS[name]()
