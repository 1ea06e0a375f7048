"""What the paper calls the method of a config."""

from __future__ import annotations

from dytox import recipes
from dytox.config import Config

NAMES = {
    "icarl": "iCaRL",
    "e2e": "E2E",
    "ucir": "UCIR",
    "bic": "BiC",
    "wa": "WA",
    "podnet": "PODNet",
    "rpsnet": "RPSNet",
    "simple_der": "Simple-DER-like",  # a stand-in
}
NETWORKS = {"resnet8": "ResNet8", "resnet18": "ResNet18", "resnet32": "ResNet32"}
COMPONENTS = {  # of DyTox: the method's option -> the ablation's key
    "distillation": "kd",
    "finetuning": "finetuning",
    "token_expansion": "tokens",
    "divergence": "divergence",
    "independent_heads": "independent",
}
SHORT = {"distillation": "KD", "token_expansion": "tokens", "independent_heads": "heads"}
PARTS = {  # of the transformer: a key of its config -> what stands in the place of the paper's
    "decoder": {"tab-per-task": "a TAB per task", "film": "FiLM", "adapters": "residual adapters"},
    "encoder": {"hybrid": "a ResNet", **NETWORKS, "vit": "a ViT", "own": "an encoder of one's own"},
    "attention": {"plain": "plain attention"},
}


def paper_name(config: Config) -> str:
    """What the paper calls the method of this config; a name of ours where it has none."""
    mixup, sam, parts = config.augment.mixup > 0, config.sam.rho > 0, other_parts(config)
    whole = not parts and all(config.method.options.get(option, True) for option in COMPONENTS)
    if config.method.name == "dytox" and whole and (mixup or not sam):
        return "DyTox++" if mixup and sam else "DyTox+" if mixup else "DyTox"
    return " with ".join([_base(config), *parts, *(["MixUp"] if mixup else []), *(["SAM"] if sam else [])])


def _base(config: Config) -> str:
    name, options, network = config.method.name, config.method.options, config.model.encoder
    if name == "dytox":
        absent = [SHORT.get(option, option) for option in COMPONENTS if not options.get(option, True)]
        return f"DyTox w/o {', '.join(absent)}" if absent else "DyTox"
    if name == "der":
        return "DER" if options.get("sparsity") else "DER w/o P"
    if name == "joint":
        return f"{NETWORKS.get(network, 'Transformer')} joint"
    if name in ("finetune", "replay") and network in NETWORKS:
        return f"{name} on a {NETWORKS[network]}"
    return NAMES.get(name, name.rpartition(":")[2])


def other_parts(config: Config) -> list[str]:
    """What of the transformer is not the paper's, in words."""
    if config.model.decoder == "pool" and config.model.encoder in NETWORKS:
        return []
    values = config.model.model_dump()
    return [words[values[key]] for key, words in PARTS.items() if values[key] in words]


def preset(config: Config) -> str:
    """The method preset that this config comes closest to."""
    name, found = config.method.name, ""
    if config.model.decoder == "pool" and config.model.encoder in NETWORKS:
        found = f"{name}-resnet"
    if name == "der" and config.method.options.get("sparsity"):
        found = "der-pruned"
    if name == "dytox" and config.model.encoder == "hybrid":
        found = "dytox-hybrid"
    return found if found in recipes.methods() else name
