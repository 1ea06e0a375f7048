"""The tables that take DyTox apart, most of them on CIFAR-100 in 50 steps."""

from __future__ import annotations

from dytox.experiments.reproduce.methods import OURS
from dytox.experiments.reproduce.plan import Plan, Row, Setting
from dytox.published.figures import facts
from dytox.published.naming import COMPONENTS
from dytox.published.tables import FIRST_EDITION_NOTE

JOINT = Setting("joint", "cifar100-50", ("Last",), ("scenario.joint=true", "sam.skip_first=false"))
FIFTY = Setting("50 steps", "cifar100-50")
DISTANCE_NOTE = "Distance is the smallest between two task tokens."
ERRATUM_NOTE = (
    "Runs keep one memory of the stated size; with that the erratum has 64.39 Avg and 43.47 Last for DyTox."
)


def ablation() -> Plan:
    """The components of DyTox, one after the other."""
    rows = []
    for row in facts()["ablation_cifar100_50"]:
        absent = [option for option, key in COMPONENTS.items() if not row[key]]
        overrides = tuple(f"method.{each}={'0.0' if each == 'divergence' else 'false'}" for each in absent)
        label = tuple("✓" if row[key] else "" for key in COMPONENTS.values())
        published = {"50 steps": {"Avg": row["avg"], "Last": row["last"]}}
        rows.append(Row(label, "dytox", overrides, published=published))
    setting = Setting("50 steps", "cifar100-50", ("Avg", "Last", "Forgetting", "Distance"))
    keys = ("KD", "finetuning", "tokens", "divergence", "heads")
    title = "Ablation on CIFAR-100 in 50 steps"
    notes = (FIRST_EDITION_NOTE, ERRATUM_NOTE, DISTANCE_NOTE)
    return Plan("ablation", title, keys, (setting,), tuple(rows), notes)


def training() -> Plan:
    """MixUp and ASAM, in one step and in fifty."""
    found = facts()["training_cifar100_50"]["appendix_table"]
    rows = tuple(Row((name,), preset, published=_joint(found[name])) for name, preset in OURS.items())
    fifty = Setting("50 steps", "cifar100-50", ("Last", "Forgetting"))
    notes = (
        FIRST_EDITION_NOTE,
        ERRATUM_NOTE,
        "Published figures are the appendix's; `dytox paper training` has the main text's, which disagree.",
    )
    title = "Training procedures on CIFAR-100, in one step and in 50"
    return Plan("training", title, ("Method",), (JOINT, fifty), rows, notes)


def patch_size() -> Plan:
    """Patches of the recipe's side, twice and four times that."""
    found = facts()["patch_size_cifar100"]
    rows = tuple(
        Row((size,), "dytox", change, published=_joint(found[size]))
        for size, change in {"4": (), "8": ("model.patch_size*=2",), "16": ("model.patch_size*=4",)}.items()
    )
    fifty = Setting("50 steps", "cifar100-50", ("Last", "Forgetting"))
    notes = (
        FIRST_EDITION_NOTE,
        ERRATUM_NOTE,
        "Smaller scales have 1, 2 and 4 times the patch size of their recipe.",
    )
    return Plan("patch-size", "Patch sizes on CIFAR-100", ("Patch size",), (JOINT, fifty), rows, notes)


def encoder() -> Plan:
    """What stands before the TAB."""
    rows = (
        _variant("encoder_cifar100_50", "resnet", "ResNet18", "dytox-hybrid"),
        _variant("encoder_cifar100_50", "sab", "SABs", "dytox"),
        Row(("SABs with plain attention",), "dytox", ("model.attention=plain",)),
    )
    notes = (
        FIRST_EDITION_NOTE,
        ERRATUM_NOTE,
        "The published 10.68 M of the ResNet18 is not what its description counts to, 6.08 M.",
    )
    return Plan("encoder", "Encoders on CIFAR-100 in 50 steps", ("Encoder",), (FIFTY,), rows, notes)


def decoder() -> Plan:
    """The TAB, and what could stand in its place."""
    kinds = {"residual_adapters": "adapters", "film": "film", "tab": "tab"}
    rows = []
    for name, kind in kinds.items():
        found = facts()["decoder"][name]
        cifar, imagenet100 = found["cifar100_50"], found["imagenet100_top5"]
        published = {
            "CIFAR-100": {"Avg": cifar["avg"], "Last": cifar["last"]},
            "ImageNet-100": {"top-5 Avg": imagenet100["avg"], "top-5 Last": imagenet100["last"]},
        }
        overrides = () if kind == "tab" else (f"model.decoder={kind}",)
        rows.append(Row((name.replace("_", " "),), "dytox", overrides, published=published))
    settings = (
        Setting("CIFAR-100", "cifar100-50"),
        Setting("ImageNet-100", "imagenet100-10", ("#P", "top-5 Avg", "top-5 Last")),
    )
    title = "Task decoders on CIFAR-100 in 50 steps and ImageNet-100 in 10"
    notes = (FIRST_EDITION_NOTE, ERRATUM_NOTE)
    return Plan("decoder", title, ("Decoder",), settings, tuple(rows), notes)


def tab_sharing() -> Plan:
    """A TAB for each task, or one for all."""
    rows = (
        _variant("tab_sharing_cifar100_50", "separate", "one a task", "dytox", "model.decoder=tab-per-task"),
        _variant("tab_sharing_cifar100_50", "shared", "one for all", "dytox"),
    )
    notes = (
        FIRST_EDITION_NOTE,
        ERRATUM_NOTE,
        "The published 97.59 M shares the LayerNorms of the TABs; without that it is 97.67 M.",
    )
    return Plan("tab-sharing", "TABs on CIFAR-100 in 50 steps", ("TAB",), (FIFTY,), rows, notes)


def tuning() -> Plan:
    """Each tuned hyperparameter alone, around the chosen values, on a tenth of the training data."""
    searched = {
        "learning rate": ("training.lr*=", "learning_rate"),
        "epochs": ("training.epochs*=", "epochs"),
        "divergence": ("method.divergence=", "divergence_lambda"),
        "patch size": ("model.patch_size*=", "cifar_patch"),
    }
    rows = []
    for word, (key, name) in searched.items():
        found = facts()["tuning"][name]
        for value in found["range"]:
            label = (word, f"{value:g}", "✓" if value == found["chosen"] else "")
            change = f"{key}{value / found['chosen']:g}" if key.endswith("*=") else f"{key}{value:g}"
            rows.append(Row(label, "dytox", () if label[2] else (change,)))
    setting = Setting("validation", "cifar100-10", ("Avg", "Last"), ("data.validation_share=0.1",))
    notes = (
        f"On {facts()['tuning']['on']}; the published values were chosen in a grid, `dytox tune` runs one.",
        "Smaller scales have the same multiples of their recipe's learning rate, epochs and patch size.",
    )
    keys = ("Hyperparameter", "Value", "Chosen")
    return Plan("tuning", "Tuned hyperparameters, each alone", keys, (setting,), tuple(rows), notes)


def overheads() -> Plan:
    """DyTox, and what two of its parts are said to do."""
    rows = (
        Row(("DyTox",), "dytox"),
        Row(("DyTox w/o divergence",), "dytox", ("method.divergence=0.0",)),
        Row(("DyTox w/o independent heads",), "dytox", ("method.independent_heads=false",)),
    )
    setting = Setting("50 steps", "cifar100-50", ("#P", "Avg", "Last", "Forgetting", "Distance"))
    notes = (DISTANCE_NOTE,)
    return Plan("overheads", "What a task costs, on CIFAR-100", ("Method",), (setting,), rows, notes)


def calibration() -> Plan:
    """The text's claim that sigmoids and MixUp calibrate."""
    rows = tuple(
        Row((activation, "✓" if mixed else ""), preset, (f"loss.activation={activation}",))
        for activation in ("softmax", "sigmoid")
        for preset, mixed in (("dytox", False), ("dytox-plus", True))
    )
    setting = Setting("10 steps", "cifar100-10", ("Avg", "Last", "ECE"))
    notes = (
        "ECE is the calibration error after the last task, in percent; the paper has no figures for it.",
    )
    return Plan("calibration", "Calibration", ("Activation", "MixUp"), (setting,), rows, notes)


def _variant(key: str, choice: str, label: str, method: str, *overrides: str) -> Row:
    found = facts()[key][choice]
    published = {"#P": found["params_m"], "Avg": found["avg"], "Last": found["last"]}
    return Row((label,), method, overrides, published={"50 steps": published})


def _joint(found: dict[str, float]) -> dict[str, dict[str, float]]:
    fifty = {"Last": found["last"], "Forgetting": found["forgetting"]}
    return {"joint": {"Last": found["joint_last"]}, "50 steps": fifty}
