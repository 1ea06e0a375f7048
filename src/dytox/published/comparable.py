"""Which published figures a run may be compared with: the same setting and the same kind of memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from dytox import recipes
from dytox.checking import differing
from dytox.config import Config
from dytox.published import figures, tables
from dytox.published.figures import CLASS_COUNTS, DATASETS, PER_CLASS, PublishedResult
from dytox.published.layout import STAND_INS
from dytox.published.tables import BASELINES, COMPONENTS, JOINT_NOTE

_DISTRIBUTED = ("training.batch=512", "finetuning.batch=512")  # of ImageNet's rows: 4 GPUs instead of 8
_NETWORKS = {"resnet8": "ResNet8", "resnet18": "ResNet18", "resnet32": "ResNet32"}
_SHORT = {"distillation": "KD", "token_expansion": "tokens", "independent_heads": "heads"}
_PARTS = {  # of the transformer: a key of its config -> values that are not the paper's, in words
    "decoder": {"tab-per-task": "a TAB per task", "film": "FiLM", "adapters": "residual adapters"},
    "encoder": {"hybrid": "a ResNet", **_NETWORKS, "vit": "a ViT", "own": "a custom encoder"},
    "attention": {"plain": "plain attention"},
}
_SCALE = {"model", "augment", "training", "finetuning"}  # where a run may be smaller than the paper's
_NAMED = ("augment.mixup", "model.decoder", "model.encoder", "model.attention")  # these are in the name


@dataclass(frozen=True)
class Comparison:
    """Published results for a run, and sentences that say why these."""

    steps: int | None  # None: the paper has no such setting
    own: PublishedResult | None  # the same method with the same kind of memory; an average over steps as Avg
    alongside: list[PublishedResult]  # other methods, with the same kind of memory
    apart: list[PublishedResult]  # the same method with another kind of memory
    sentences: list[str]


def compare(config: Config) -> Comparison:
    """Find the published figures that a run of this config may be compared with."""
    dataset, steps = config.data.dataset, published_steps(config)
    if steps is None:
        return Comparison(None, None, [], [], ["The paper has no figures for this setting."])
    wanted = PER_CLASS * CLASS_COUNTS[dataset]
    kept = config.memory.size
    if config.memory.per_class:
        kept = min(kept, config.memory.per_class * CLASS_COUNTS[dataset])
    if kept and kept != wanted:
        reason = (
            f"The paper keeps {wanted:,} images in memory and this run {kept:,}: no figure belongs beside it."
        )
        return Comparison(steps, None, [], [], [reason])
    name, memory = method_label(config), memory_setting(config)
    found = figures.rows(dataset, steps)
    if (dataset, steps) == ("cifar100", 50) and name in _variants():
        found.append(_variants()[name])
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
    """Return in how many equal steps the whole dataset is learned; None if the paper has no such setting."""
    dataset, scenario = config.data.dataset, config.scenario
    classes = CLASS_COUNTS.get(dataset)
    if classes is None or config.data.validation_share or scenario.joint:
        return None
    if scenario.classes not in (None, classes):
        return None
    increments = scenario.increments or [scenario.first or scenario.increment, scenario.increment]
    if len(set(increments)) > 1 or classes % increments[0]:
        return None
    steps = classes // increments[0]
    return steps if steps in figures.step_counts(dataset) else None


def memory_setting(config: Config) -> str:
    """Return the erratum's word for the kind of memory that a run has."""
    memory = config.memory
    if not memory.size:
        return "none"
    if memory.shares == 1:
        return "global"
    return "distributed" if memory.budget == "split" else "original"


def method_label(config: Config) -> str:
    """Return what the paper calls the method of a config, or a name of ours where it has none."""
    mixup, sam, parts = config.augment.mixup > 0, config.sam.rho > 0, _other_parts(config)
    whole = not parts and all(config.method.options.get(option, True) for option in COMPONENTS)
    if config.method.name == "dytox" and whole and (mixup or not sam):
        return "DyTox++" if mixup and sam else "DyTox+" if mixup else "DyTox"
    return " with ".join([_base(config), *parts, *(["MixUp"] if mixup else []), *(["SAM"] if sam else [])])


def recipe_differences(config: Config, steps: int) -> list[str]:
    """List the settings of the model and its training that differ from the paper's recipe."""
    recipe, method = f"{config.data.dataset}-{steps}", _preset(config)
    if recipe not in recipes.scenarios() or method not in recipes.methods():
        return []
    fewer = _DISTRIBUTED if config.data.dataset != "cifar100" and config.memory.shares > 1 else ()
    paper = recipes.compose(recipe, method=method, overrides=fewer)
    different = differing(config.model_dump(include=_SCALE), paper.model_dump(include=_SCALE))
    named = _NAMED if config.model.decoder != "pool" else ()
    return [f"{key} {mine} ({its})" for key, (mine, its) in different.items() if key not in named]


@cache
def _variants() -> dict[str, PublishedResult]:
    """DyTox without some component or with another part: results on CIFAR-100 in 50 steps, by their label."""
    found = {}
    for name in ("ablation", "tab-sharing", "decoder", "encoder"):
        table = tables.find_table(name)
        for row in table.rows:
            if row.published is None or row.method is None:
                continue
            values = row.published[table.settings[0].title]
            config = recipes.compose("cifar100-50", method=row.method, overrides=row.overrides)
            label = method_label(config)
            found[label] = PublishedResult(
                label, "original", values.get("#P"), values.get("Avg"), values.get("Last")
            )
    del found["DyTox"]  # it has rows of its own in the main table
    return found


def _base(config: Config) -> str:
    name, options, network = config.method.name, config.method.options, config.model.encoder
    if name == "dytox":
        absent = [_SHORT.get(option, option) for option in COMPONENTS if not options.get(option, True)]
        return f"DyTox w/o {', '.join(absent)}" if absent else "DyTox"
    if name == "der":
        return "DER" if options.get("sparsity") else "DER w/o P"
    if name == "joint":
        return f"{_NETWORKS.get(network, 'Transformer')} joint"
    if name in ("finetune", "replay") and network in _NETWORKS:
        return f"{name} on a {_NETWORKS[network]}"
    published = next((label for label, preset in BASELINES.items() if preset == name), None)
    return STAND_INS.get(published, published) if published else name.rpartition(":")[2]


def _other_parts(config: Config) -> list[str]:
    """The parts of the transformer that are not the paper's, in words."""
    if config.model.decoder == "pool" and config.model.encoder in _NETWORKS:
        return []
    values = config.model.model_dump()
    found = [words[values[key]] for key, words in _PARTS.items() if values[key] in words]
    if values["encoder"] not in ("dytox", *_PARTS["encoder"]):
        found.append(values["encoder"])
    return found


def _preset(config: Config) -> str:
    """The method preset that this config comes closest to."""
    name, found = config.method.name, ""
    if config.model.decoder == "pool" and config.model.encoder in _NETWORKS:
        found = f"{name}-resnet"
    if name == "der" and config.method.options.get("sparsity"):
        found = "der-pruned"
    if name == "dytox" and config.model.encoder == "hybrid":
        found = "dytox-hybrid"
    return found if found in recipes.methods() else name


def _sentences(
    config: Config, steps: int, name: str, own: PublishedResult | None, apart: list[PublishedResult]
) -> list[str]:
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
    if config.evaluation.flip:
        found.append("Scores are averaged over each image and its mirror image; the paper's are not.")
    different = recipe_differences(config, steps)
    if different:
        more = f" and {len(different) - 6} more" if len(different) > 6 else ""
        found.append(
            f"This run is not the paper's recipe (there in brackets): {', '.join(different[:6])}{more}."
        )
    return found
