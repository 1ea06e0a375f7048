"""What of the published figures a run may be put beside: the same setting, the same kind of memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dytox import recipes
from dytox.checking import differing
from dytox.config import Config
from dytox.published import figures
from dytox.published.figures import CLASSES, DATASETS, JOINT_NOTE, PER_CLASS, Row, facts
from dytox.published.naming import COMPONENTS, other_parts, paper_name, preset

DISTRIBUTED = ("training.batch=512", "finetuning.batch=512")  # of ImageNet's rows: 4 GPUs instead of 8
_SCALE = {"model", "augment", "training", "finetuning"}  # where a run may be smaller than the paper's
NAMED = ("augment.mixup", "model.decoder", "model.encoder", "model.attention")  # these are in the name


@dataclass(frozen=True)
class Comparison:
    """Published rows for a run, and in sentences why these."""

    steps: int | None  # None: the paper has no such setting
    own: Row | None  # the same method with the same kind of memory; an average over steps as Avg
    alongside: list[Row]  # other methods, with the same kind of memory
    apart: list[Row]  # the same method with another kind of memory
    sentences: list[str]


def compare(config: Config) -> Comparison:
    """What this run's figures may be compared with."""
    dataset, steps = config.data.dataset, published_steps(config)
    if steps is None:
        return Comparison(None, None, [], [], ["The paper has no figures for this setting."])
    wanted = PER_CLASS * CLASSES[dataset]
    kept = config.memory.size
    if config.memory.per_class:
        kept = min(kept, config.memory.per_class * CLASSES[dataset])
    if kept and kept != wanted:
        reason = (
            f"The paper keeps {wanted:,} images in memory and this run {kept:,}: no figure belongs beside it."
        )
        return Comparison(steps, None, [], [], [reason])
    name, memory = paper_name(config), memory_setting(config)
    found = figures.rows(dataset, steps) + variant_rows(config, steps)
    mine = [row for row in found if row.method == name]
    own = next((row for row in mine if row.memory in (memory, "all")), None)
    kinds = ("global", "all") if memory == "none" else (memory, "all")
    others = [row for row in found if row.method != name]
    alongside = [row for row in others if row.memory in kinds or not row.method.startswith("DyTox")]
    apart = [row for row in mine if row is not own]
    sentences = _sentences(config, steps, name, own, apart)
    if own and own.method == "ResNet18 joint" and own.last is not None:
        own, sentences = replace(own, avg=own.last, last=None), [*sentences, JOINT_NOTE]
    return Comparison(steps, own, alongside, apart, sentences)


def published_steps(config: Config) -> int | None:
    """In how many steps of equal size the whole dataset is learned, if the paper has figures for that."""
    dataset, scenario = config.data.dataset, config.scenario
    classes = CLASSES.get(dataset)
    if classes is None or config.data.validation_share or scenario.joint:
        return None
    if scenario.classes not in (None, classes):
        return None
    increments = scenario.increments or [scenario.first or scenario.increment, scenario.increment]
    if len(set(increments)) > 1 or classes % increments[0]:
        return None
    steps = classes // increments[0]
    return steps if steps in figures.steps(dataset) else None


def memory_setting(config: Config) -> str:
    """The erratum's word for the run's memory."""
    memory = config.memory
    if not memory.size:
        return "none"
    if memory.shares == 1:
        return "global"
    return "distributed" if memory.budget == "split" else "original"


def variant_rows(config: Config, steps: int) -> list[Row]:
    """The row of this config among the ablation and the alternative parts, all with first-edition memory."""
    options, model, whole = config.method.options, config.model, facts()
    if config.method.name != "dytox" or config.data.dataset != "cifar100" or steps != 50:
        return []
    rows = {
        "tab-per-task": whole["tab_sharing_cifar100_50"]["separate"],
        "film": whole["decoder"]["film"]["cifar100_50"],
        "adapters": whole["decoder"]["residual_adapters"]["cifar100_50"],
        "hybrid": whole["encoder_cifar100_50"]["resnet"],
    }
    parts = [each for each in (model.decoder, model.encoder) if each in rows]
    if other_parts(config):
        alone = len(other_parts(config)) == len(parts) == 1
        return [Row(paper_name(config), "original", **rows[parts[0]])] if alone else []
    present = {key: int(bool(options.get(option, True))) for option, key in COMPONENTS.items()}
    return [
        Row(paper_name(config), "original", avg=row["avg"], last=row["last"])
        for row in facts()["ablation_cifar100_50"]
        if not all(present.values()) and all(row[key] == value for key, value in present.items())
    ]


def differences(config: Config, steps: int) -> list[str]:
    """Where the model and its training are not those of the paper's recipe."""
    recipe, method = f"{config.data.dataset}-{steps}", preset(config)
    if recipe not in recipes.scenarios() or method not in recipes.methods():
        return []
    fewer = DISTRIBUTED if config.data.dataset != "cifar100" and config.memory.shares > 1 else ()
    paper = recipes.compose(recipe, method=method, overrides=fewer)
    different = differing(config.model_dump(include=_SCALE), paper.model_dump(include=_SCALE))
    named = NAMED if config.model.decoder != "pool" else ()
    return [f"{key} {mine} ({its})" for key, (mine, its) in different.items() if key not in named]


def _sentences(config: Config, steps: int, name: str, own: Row | None, apart: list[Row]) -> list[str]:
    memory, shares, dataset = memory_setting(config), config.memory.shares, DATASETS[config.data.dataset]
    why = {
        "none": "no memory, so baselines with a memory are for orientation",
        "global": "memory.shares 1: one memory, the erratum's global setting, as the baselines have it",
        "distributed": f"memory.shares {shares}, budget split: the erratum's distributed setting",
        "original": f"memory.shares {shares}, budget each: above the stated memory, as in the first edition",
    }[memory]
    found = [f"{dataset} in {steps} steps; {why}."]
    if own is None and apart:
        found.append(f"The paper has {name} only with another kind of memory.")
    elif own is None:
        found.append(f"The paper has no figure for {name} here.")
    different = differences(config, steps)
    if different:
        more = f" and {len(different) - 6} more" if len(different) > 6 else ""
        found.append(
            f"This run is not the paper's recipe (there in brackets): {', '.join(different[:6])}{more}."
        )
    return found
