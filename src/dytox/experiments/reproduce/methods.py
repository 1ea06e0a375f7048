"""The tables that compare methods: CIFAR-100, ImageNet, and the erratum's kinds of memory."""

from __future__ import annotations

from dytox.experiments.reproduce.plan import Plan, Row, Setting
from dytox.published import figures
from dytox.published.figures import DATASETS, JOINT_NOTE
from dytox.published.tables import MEMORY_NOTE

BASELINES = {
    "ResNet18 joint": "joint-resnet",
    "Transformer joint": "joint",
    "E2E": "e2e",
    "Simple-DER": "simple_der",
    "iCaRL": "icarl",
    "UCIR": "ucir",
    "BiC": "bic",
    "WA": "wa",
    "PODNet": "podnet",
    "RPSNet": "rpsnet",
    "DER w/o P": "der",
    "DER": "der-pruned",
}
OURS = {"DyTox": "dytox", "DyTox+": "dytox-plus", "DyTox++": "dytox-plus-plus"}
MEMORIES = ("all", "global", "distributed", "original")  # whose figures are the fairest first


def cifar100() -> Plan:
    """The main table, with the erratum's figures where there are some."""
    settings = tuple(Setting(f"{number} steps", f"cifar100-{number}") for number in (10, 20, 50))
    title = "CIFAR-100 in 10, 20 and 50 steps: parameters in millions, top-1 in percent"
    rows = _methods("cifar100", {f"{number} steps": number for number in (10, 20, 50)})
    return Plan("cifar100", title, ("Method", "Paper's memory"), settings, rows, (MEMORY_NOTE, JOINT_NOTE))


def imagenet(dataset: str) -> Plan:
    """A half of the ImageNet table."""
    shown = ("#P", "Avg", "Last", "top-5 Avg", "top-5 Last")
    setting = Setting("10 steps", f"{dataset}-10", shown)
    title = f"{DATASETS[dataset]} in 10 steps: parameters in millions, accuracy in percent"
    rows = _methods(dataset, {"10 steps": 10})
    return Plan(dataset, title, ("Method", "Paper's memory"), (setting,), rows, (MEMORY_NOTE, JOINT_NOTE))


def erratum() -> Plan:
    """DyTox by the kind of its memory."""
    kinds = {
        "global": (),
        "distributed": ("memory.shares=2",),
        "original": ("memory.shares=2", "memory.budget=each"),
    }
    numbers = (10, 20, 50)
    rows = []
    for name in ("DyTox", "DyTox+"):
        for kind, overrides in kinds.items():
            published = {f"{n} steps": _published("cifar100", n, name, (kind,)) for n in numbers}
            rows.append(Row((name, kind), OURS[name], overrides, published=published))
    settings = tuple(Setting(f"{number} steps", f"cifar100-{number}") for number in numbers)
    title = "CIFAR-100 by the kind of memory: one, shares within its size, shares of its size each"
    return Plan("erratum", title, ("Method", "Memory"), settings, tuple(rows), (MEMORY_NOTE,))


def _methods(dataset: str, settings: dict[str, int]) -> tuple[Row, ...]:
    """Bounds, baselines and DyTox, as far as the paper has figures for them on this dataset."""
    rows = []
    for name, preset in {**BASELINES, **OURS}.items():
        published = {title: _published(dataset, number, name, MEMORIES) for title, number in settings.items()}
        if not any(published.values()) and name not in OURS:
            continue
        memory = _memory(dataset, next(iter(settings.values())), name)
        once = name == "Transformer joint"
        overrides = ("scenario.joint=true",) if once else ()
        label = f"{name}-like" if name == "Simple-DER" else name  # a stand-in: `methods/simple_der.py`
        rows.append(Row((label, memory), preset, overrides, once=once, published=published))
    return tuple(rows)


def _memory(dataset: str, number: int, name: str) -> str:
    """The kind of memory of the fairest published figure."""
    kinds = {row.memory for row in figures.rows(dataset, number) if row.method == name}
    return next((kind for kind in MEMORIES if kind in kinds), "–")


def _published(dataset: str, number: int, name: str, memories: tuple[str, ...]) -> dict[str, float]:
    found = [row for row in figures.rows(dataset, number) if row.method == name]
    row = next((row for kind in memories for row in found if row.memory == kind), None)
    if row is None:
        return {}
    values = {
        "#P": row.params_m,
        "Avg": row.avg,
        "Last": row.last,
        "top-5 Avg": row.top5_avg,
        "top-5 Last": row.top5_last,
    }
    return {figure: value for figure, value in values.items() if value is not None}
