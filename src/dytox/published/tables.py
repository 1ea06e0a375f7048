"""The paper's tables, defined once: what each row is, what was published for it, and how it is run.

`dytox paper` prints the published figures, `dytox reproduce` runs the rows, and `dytox report` looks up the
figures that belong beside a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dytox.errors import unknown
from dytox.published.figures import DATASETS, MEMORIES, facts, step_counts
from dytox.published.figures import rows as published_rows
from dytox.published.layout import PaperRow, PaperTable, Setting

BASELINES = {  # the paper's name -> the preset that runs it
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
COMPONENTS = {  # of DyTox: the method's option -> the ablation's key
    "distillation": "kd",
    "finetuning": "finetuning",
    "token_expansion": "tokens",
    "divergence": "divergence",
    "independent_heads": "independent",
}
SEARCHED = {  # hyperparameter of the paper -> our config key
    "learning_rate": "training.lr",
    "epochs": "training.epochs",
    "divergence_lambda": "method.divergence",
    "cifar_patch": "model.patch_size",
}

MEMORY_NOTE = "Compare a run only with figures of its own memory setting."
FIRST_EDITION_NOTE = f"Memory: original ({MEMORIES['original']}); compare order and gaps."
ERRATUM_NOTE = (
    "Runs keep one memory of the stated size; with that the erratum has 64.39 Avg and 43.47 Last for DyTox."
)
JOINT_NOTE = (
    "ResNet18 joint is a new model at each step; its published Last varies with the steps, as an average "
    "over them does: compare it with Avg."
)
DISTANCE_NOTE = "Distance is the smallest between two task tokens."


def find_table(name: str) -> PaperTable:
    """Return the table of this name."""
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    return TABLES[name]()


def _cifar100() -> PaperTable:
    """The main table together with the erratum's."""
    title = "CIFAR-100 in 10, 20 and 50 steps: parameters in millions, top-1 in percent (three class orders)"
    rows = _method_rows("cifar100")
    return PaperTable(
        "cifar100", title, ("Method", "Memory"), _cifar_settings(), rows, (MEMORY_NOTE, JOINT_NOTE)
    )


def _imagenet(dataset: str) -> PaperTable:
    """One half of the ImageNet table and of its erratum."""
    setting = Setting("10 steps", f"{dataset}-10", ("#P", "Avg", "Last", "top-5 Avg", "top-5 Last"))
    title = f"{DATASETS[dataset]} in 10 steps: parameters in millions, accuracy in percent"
    notes = (MEMORY_NOTE, JOINT_NOTE)
    return PaperTable(dataset, title, ("Method", "Memory"), (setting,), _method_rows(dataset), notes)


def _erratum() -> PaperTable:
    """DyTox and DyTox+ by the kind of their memory."""
    kinds = {
        "global": (),
        "distributed": ("memory.shares=2",),
        "original": ("memory.shares=2", "memory.budget=each"),
    }
    rows = [
        _method_row("cifar100", name, memory, OURS[name], overrides)
        for name in ("DyTox", "DyTox+")
        for memory, overrides in kinds.items()
    ]
    rows.append(_method_row("cifar100", "DyTox+", "rerun"))
    title = "CIFAR-100 by the kind of memory: parameters in millions, top-1 in percent"
    return PaperTable("erratum", title, ("Method", "Memory"), _cifar_settings(), tuple(rows), (MEMORY_NOTE,))


def _ablation() -> PaperTable:
    """The components of DyTox, added one after the other."""
    rows = []
    for row in facts()["ablation_cifar100_50"]:
        absent = [option for option, key in COMPONENTS.items() if not row[key]]
        overrides = tuple(f"method.{each}={'0.0' if each == 'divergence' else 'false'}" for each in absent)
        label = tuple("✓" if row[key] else "" for key in COMPONENTS.values())
        rows.append(PaperRow(label, "dytox", overrides, {"50 steps": _named(row)}))
    setting = Setting("50 steps", "cifar100-50", ("Avg", "Last", "Forgetting", "Distance"))
    keys = ("KD", "finetuning", "tokens", "divergence", "heads")
    title, run_notes = "Ablation on CIFAR-100 in 50 steps", (ERRATUM_NOTE, DISTANCE_NOTE)
    return PaperTable("ablation", title, keys, (setting,), tuple(rows), (FIRST_EDITION_NOTE,), run_notes)


def _training() -> PaperTable:
    """MixUp and ASAM, in one step and in fifty; the runs are compared with the appendix."""
    found = facts()["training_cifar100_50"]
    rows = [PaperRow((name, "main text"), published=_joint(found["main_text"][name])) for name in OURS]
    rows += [
        PaperRow((name, "appendix table"), preset, published=_joint(found["appendix_table"][name]))
        for name, preset in OURS.items()
    ]
    title = "Training procedures on CIFAR-100, in one step and in 50"
    notes = (FIRST_EDITION_NOTE, "The main text and the appendix table of the paper disagree.")
    return PaperTable(
        "training", title, ("Method", "From"), JOINT_AND_FIFTY, tuple(rows), notes, (ERRATUM_NOTE,)
    )


def _patch_size() -> PaperTable:
    """Patches of the recipe's side, twice and four times that."""
    found = facts()["patch_size_cifar100"]
    changes = {"4": (), "8": ("model.patch_size*=2",), "16": ("model.patch_size*=4",)}
    rows = tuple(PaperRow((size,), "dytox", change, _joint(found[size])) for size, change in changes.items())
    run_notes = (ERRATUM_NOTE, "Smaller scales have 1, 2 and 4 times the patch size of their recipe.")
    title, notes = "Patch sizes on CIFAR-100", (FIRST_EDITION_NOTE,)
    return PaperTable("patch-size", title, ("Patch size",), JOINT_AND_FIFTY, rows, notes, run_notes)


def _encoder() -> PaperTable:
    """What stands before the TAB."""
    found = facts()["encoder_cifar100_50"]
    rows = (
        PaperRow(("ResNet18",), "dytox-hybrid", (), {"50 steps": _named(found["resnet"])}),
        PaperRow(("SABs",), "dytox", (), {"50 steps": _named(found["sab"])}),
        PaperRow(("SABs with plain attention",), "dytox", ("model.attention=plain",)),
    )
    notes = (
        FIRST_EDITION_NOTE,
        "The published 10.68 M of the ResNet18 is not what its description counts to, 6.08 M.",
    )
    title = "Encoders on CIFAR-100 in 50 steps"
    return PaperTable("encoder", title, ("Encoder",), (FIFTY,), rows, notes, (ERRATUM_NOTE,))


def _decoder() -> PaperTable:
    """The TAB, and what could stand in its place."""
    kinds = {"residual_adapters": "adapters", "film": "film", "tab": "tab"}
    rows = []
    for name, kind in kinds.items():
        found = facts()["decoder"][name]
        top5 = {f"top-5 {figure}": value for figure, value in _named(found["imagenet100_top5"]).items()}
        published = {"CIFAR-100": _named(found["cifar100_50"]), "ImageNet-100": top5}
        overrides = () if kind == "tab" else (f"model.decoder={kind}",)
        rows.append(PaperRow((name.replace("_", " "),), "dytox", overrides, published))
    settings = (
        Setting("CIFAR-100", "cifar100-50"),
        Setting("ImageNet-100", "imagenet100-10", ("#P", "top-5 Avg", "top-5 Last")),
    )
    title = "Task decoders on CIFAR-100 in 50 steps (top-1) and ImageNet-100 in 10 (top-5)"
    notes = (FIRST_EDITION_NOTE,)
    return PaperTable("decoder", title, ("Decoder",), settings, tuple(rows), notes, (ERRATUM_NOTE,))


def _tab_sharing() -> PaperTable:
    """A TAB for each task, or one for all."""
    found = facts()["tab_sharing_cifar100_50"]
    separate, shared = _named(found["separate"]), _named(found["shared"])
    rows = (
        PaperRow(("one a task",), "dytox", ("model.decoder=tab-per-task",), {"50 steps": separate}),
        PaperRow(("one for all",), "dytox", (), {"50 steps": shared}),
    )
    notes = (
        FIRST_EDITION_NOTE,
        "The published 97.59 M shares the LayerNorms of the TABs; without that it is 97.67 M.",
    )
    title = "TABs on CIFAR-100 in 50 steps"
    return PaperTable("tab-sharing", title, ("TAB",), (FIFTY,), rows, notes, (ERRATUM_NOTE,))


def _tuning() -> PaperTable:
    """Each tuned hyperparameter alone, around the chosen values, on a tenth of the training data."""
    rows = []
    for name, found in facts()["tuning"].items():
        for value in found["range"] if name != "on" else ():
            key, chosen = SEARCHED.get(name), value == found["chosen"]
            factor = (
                f"{key}={value:g}" if name == "divergence_lambda" else f"{key}*={value / found['chosen']:g}"
            )
            label = (name.replace("_", " "), f"{value:g}", "✓" if chosen else "")
            rows.append(PaperRow(label, "dytox" if key else None, () if chosen else (factor,), {}))
    setting = Setting("validation", "cifar100-10", ("Avg", "Last"), ("data.validation_share=0.1",))
    notes = (f"On {facts()['tuning']['on']}.",)
    run_notes = (
        "The published values were chosen in a grid, `dytox tune` runs one.",
        "Smaller scales have the same multiples of their recipe's learning rate, epochs and patch size.",
    )
    keys, title = ("Hyperparameter", "Value", "Chosen"), "Tuned hyperparameters, each alone"
    return PaperTable("tuning", title, keys, (setting,), tuple(rows), notes, run_notes)


def _overheads() -> PaperTable:
    """What a task costs and what two parts of DyTox do, which the paper says in its text."""
    rows = (
        PaperRow(("DyTox",), "dytox"),
        PaperRow(("DyTox w/o divergence",), "dytox", ("method.divergence=0.0",)),
        PaperRow(("DyTox w/o independent heads",), "dytox", ("method.independent_heads=false",)),
    )
    setting = Setting("50 steps", "cifar100-50", ("#P", "Avg", "Last", "Forgetting", "Distance"))
    claims = {
        name.replace("_", " ").replace(" percent", " (%)"): value
        for name, value in facts()["overheads"].items()
    }
    title, run_notes = "Overheads and effects named in the text", (DISTANCE_NOTE,)
    return PaperTable("overheads", title, ("Method",), (setting,), rows, (), run_notes, claims)


def _calibration() -> PaperTable:
    """The text's claim that sigmoids and MixUp calibrate; the paper has no figures for it."""
    rows = tuple(
        PaperRow((activation, "✓" if mixed else ""), preset, (f"loss.activation={activation}",))
        for activation in ("softmax", "sigmoid")
        for preset, mixed in (("dytox", False), ("dytox-plus", True))
    )
    setting = Setting("10 steps", "cifar100-10", ("Avg", "Last", "ECE"))
    run_notes = (
        "ECE is the calibration error after the last task, in percent; the paper has no figures for it.",
    )
    keys = ("Activation", "MixUp")
    return PaperTable("calibration", "Calibration", keys, (setting,), rows, (), run_notes)


FIFTY = Setting("50 steps", "cifar100-50")
JOINT_AND_FIFTY = (
    Setting("joint", "cifar100-50", ("Last",), ("scenario.joint=true", "sam.skip_first=false")),
    Setting("50 steps", "cifar100-50", ("Last", "Forgetting")),
)
TABLES: dict[str, Callable[[], PaperTable]] = {
    "cifar100": _cifar100,
    "imagenet100": lambda: _imagenet("imagenet100"),
    "imagenet1000": lambda: _imagenet("imagenet1000"),
    "erratum": _erratum,
    "ablation": _ablation,
    "training": _training,
    "decoder": _decoder,
    "encoder": _encoder,
    "patch-size": _patch_size,
    "tab-sharing": _tab_sharing,
    "tuning": _tuning,
    "overheads": _overheads,
    "calibration": _calibration,
}
PRINTED = tuple(name for name in TABLES if name != "calibration")  # those with published figures


def _cifar_settings() -> tuple[Setting, ...]:
    return tuple(Setting(f"{number} steps", f"cifar100-{number}") for number in step_counts("cifar100"))


def _method_rows(dataset: str) -> tuple[PaperRow, ...]:
    """Bounds, baselines and DyTox; of each method the first row, with the fairest memory, is run."""
    presets = {**BASELINES, **OURS}
    rows = []
    for result in published_rows(dataset, 10):
        preset = presets.pop(result.method, None)
        rows.append(_method_row(dataset, result.method, result.memory, preset))
    return (*rows, *(PaperRow((name, "–"), OURS[name]) for name in presets if name in OURS))


def _method_row(
    dataset: str, name: str, memory: str, preset: str | None = None, overrides: tuple[str, ...] = ()
) -> PaperRow:
    """The row of a method with a kind of memory, over all numbers of steps."""
    published, deviations = {}, {}
    for steps in step_counts(dataset):
        for result in published_rows(dataset, steps):
            if (result.method, result.memory) == (name, memory):
                published[f"{steps} steps"] = _named(vars(result))
                spread = {"Avg": result.avg_std, "Last": result.last_std}
                deviations[f"{steps} steps"] = {key: std for key, std in spread.items() if std is not None}
    once = name == "Transformer joint"
    overrides = ("scenario.joint=true",) if once else overrides
    return PaperRow((name, memory), preset, overrides, published or None, deviations, once)


def _named(found: Mapping[str, Any]) -> dict[str, float]:
    """Published figures by their names in the tables."""
    names = {
        "params_m": "#P",
        "avg": "Avg",
        "last": "Last",
        "forgetting": "Forgetting",
        "top5_avg": "top-5 Avg",
        "top5_last": "top-5 Last",
    }
    return {name: found[key] for key, name in names.items() if found.get(key) is not None}


def _joint(found: Mapping[str, float]) -> dict[str, dict[str, float]]:
    joint = {"Last": found["joint_last"]} if "joint_last" in found else {}
    return {"joint": joint, "50 steps": _named(found)}
