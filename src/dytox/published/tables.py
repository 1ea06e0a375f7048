"""The paper's tables, each with its columns and what one has to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dytox.errors import unknown
from dytox.published import figures
from dytox.published.figures import DATASETS, MEMORIES, Row, facts

Cell = str | float | None  # numbers are percent or millions

MEMORY_NOTE = "Compare a run only with figures of its own memory setting."
FORGETTING_NOTE = (
    "Forgetting is as the library of the time computed it, with an error in an index: it is not what "
    "dytox prints as forgetting."
)
FIRST_EDITION_NOTE = f"Memory: original ({MEMORIES['original']}); compare order and gaps."


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    notes: list[str]
    groups: tuple[int, ...] = ()  # columns that belong together, counted from the end

    @property
    def keys(self) -> int:
        """The columns before the groups, which say what a row is."""
        return len(self.columns) - sum(self.groups)


def table(name: str) -> Table:
    """The table of this name."""
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    return TABLES[name]()


def cifar100() -> Table:
    """The main table and the erratum's, as one."""
    steps = figures.steps("cifar100")
    by_steps = {number: figures.rows("cifar100", number) for number in steps}
    names = [(row.method, row.memory) for row in by_steps[10]]
    rows: list[list[Cell]] = []
    for method, memory in names:
        cells: list[Cell] = [method, memory]
        for number in steps:
            row = next(
                (each for each in by_steps[number] if (each.method, each.memory) == (method, memory)), None
            )
            cells += (
                [row.params_m, spread(row.avg, row.avg_std), spread(row.last, row.last_std)]
                if row
                else [None] * 3
            )
        rows.append(cells)
    columns = [f"{name} {number}" for number in steps for name in ("#P", "Avg", "Last")]
    title = "CIFAR-100 in 10, 20 and 50 steps: parameters in millions, top-1 in percent (three class orders)"
    return Table(
        "cifar100", title, ["Method", "Memory", *columns], rows, [MEMORY_NOTE, *_memories(rows)], (3, 3, 3)
    )


def erratum() -> Table:
    """DyTox and DyTox+ by the kind of their memory."""
    whole = cifar100()
    rows = [row for row in whole.rows if row[0] in ("DyTox", "DyTox+")]
    title = "CIFAR-100 by the kind of memory: parameters in millions, top-1 in percent"
    return Table("erratum", title, whole.columns, rows, [MEMORY_NOTE, *_memories(rows)], whole.groups)


def imagenet(dataset: str) -> Table:
    """A half of the ImageNet table and of its erratum."""
    rows = [_imagenet_row(row) for row in figures.rows(dataset, 10)]
    columns = ["Method", "Memory", "#P", "top-1 Avg", "top-1 Last", "top-5 Avg", "top-5 Last"]
    title = f"{DATASETS[dataset]} in 10 steps: parameters in millions, accuracy in percent"
    return Table(dataset, title, columns, rows, [MEMORY_NOTE, *_memories(rows)], (3, 2))


def ablation() -> Table:
    """The components of DyTox, one after the other."""
    keys = {
        "kd": "distillation",
        "finetuning": "finetuning",
        "tokens": "token expansion",
        "divergence": "divergence",
        "independent": "independent heads",
    }
    rows: list[list[Cell]] = [
        [*("✓" if row[key] else "" for key in keys), row["avg"], row["last"]]
        for row in facts()["ablation_cifar100_50"]
    ]
    title = "Ablation on CIFAR-100 in 50 steps"
    return Table("ablation", title, [*keys.values(), "Avg", "Last"], rows, [FIRST_EDITION_NOTE])


def variants(name: str, title: str, key: str, what: str) -> Table:
    """One part of DyTox replaced by another, on CIFAR-100 in 50 steps."""
    found = facts()[key]
    labels = {
        "params_m": "#P",
        "avg": "Avg",
        "last": "Last",
        "joint_last": "joint Last",
        "forgetting": "Forgetting",
    }
    present = [figure for figure in labels if any(figure in row for row in found.values())]
    rows: list[list[Cell]] = [[choice, *(row.get(each) for each in present)] for choice, row in found.items()]
    notes = [FIRST_EDITION_NOTE, *([FORGETTING_NOTE] if "forgetting" in present else [])]
    return Table(name, title, [what, *(labels[each] for each in present)], rows, notes)


def decoder() -> Table:
    """The task attention block, and what could stand in its place."""
    rows: list[list[Cell]] = [
        [
            name.replace("_", " "),
            *(
                row[setting][figure]
                for setting in ("cifar100_50", "imagenet100_top5")
                for figure in ("avg", "last")
            ),
        ]
        for name, row in facts()["decoder"].items()
    ]
    columns = [
        "Decoder",
        "CIFAR-100 Avg",
        "CIFAR-100 Last",
        "ImageNet-100 top-5 Avg",
        "ImageNet-100 top-5 Last",
    ]
    title = "Task decoders on CIFAR-100 in 50 steps (top-1) and ImageNet-100 in 10 (top-5)"
    return Table("decoder", title, columns, rows, [FIRST_EDITION_NOTE])


def training() -> Table:
    """Joint accuracy, Last and forgetting of the three training procedures."""
    found = facts()["training_cifar100_50"]
    rows: list[list[Cell]] = [
        [method, place.replace("_", " "), row.get("joint_last"), row.get("last"), row.get("forgetting")]
        for place in ("main_text", "appendix_table")
        for method, row in found[place].items()
    ]
    notes = [FIRST_EDITION_NOTE, "The paper's two sets disagree.", FORGETTING_NOTE]
    title = "Training procedures on CIFAR-100 in 50 steps"
    return Table("training", title, ["Method", "From", "joint Last", "Last", "Forgetting"], rows, notes)


def tuning() -> Table:
    """The hyperparameters that were searched."""
    found = facts()["tuning"]
    rows: list[list[Cell]] = [
        [name.replace("_", " "), ", ".join(f"{each:g}" for each in row["range"]), f"{row['chosen']:g}"]
        for name, row in found.items()
        if name != "on"
    ]
    return Table(
        "tuning", "Tuned hyperparameters", ["Hyperparameter", "Range", "Chosen"], rows, [f"On {found['on']}."]
    )


def overheads() -> Table:
    """What a task costs, as the text says it."""
    rows: list[list[Cell]] = [
        [name.replace("_", " ").replace(" percent", " (%)"), f"{value:g}"]
        for name, value in facts()["overheads"].items()
    ]
    return Table("overheads", "Overheads and effects named in the text", ["What", "Value"], rows, [])


TABLES: dict[str, Callable[[], Table]] = {
    "cifar100": cifar100,
    "imagenet100": lambda: imagenet("imagenet100"),
    "imagenet1000": lambda: imagenet("imagenet1000"),
    "erratum": erratum,
    "ablation": ablation,
    "training": training,
    "decoder": decoder,
    "encoder": lambda: variants(
        "encoder", "Encoders on CIFAR-100 in 50 steps", "encoder_cifar100_50", "Encoder"
    ),
    "patch-size": lambda: variants(
        "patch-size", "Patch sizes on CIFAR-100 in 50 steps", "patch_size_cifar100", "Patch size"
    ),
    "tab-sharing": lambda: variants(
        "tab-sharing", "One TAB for all tasks, or one each, in 50 steps", "tab_sharing_cifar100_50", "TAB"
    ),
    "tuning": tuning,
    "overheads": overheads,
}


def spread(mean: float | None, std: float | None) -> Cell:
    """`mean ± std`, or the mean alone."""
    return mean if mean is None or std is None else f"{mean:.2f} ± {std:.2f}"


def _imagenet_row(row: Row) -> list[Cell]:
    return [row.method, row.memory, row.params_m, row.avg, row.last, row.top5_avg, row.top5_last]


def _memories(rows: list[list[Cell]]) -> list[str]:
    return [f"{name}: {MEMORIES[name]}." for name in MEMORIES if any(row[1] == name for row in rows)]
