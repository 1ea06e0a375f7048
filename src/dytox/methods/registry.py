"""Methods by name: the package's own, those of other packages, and any `package.module:Class`."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

from dytox.checking import merge, validate
from dytox.config import Config, MethodConfig
from dytox.engine.method import Method
from dytox.errors import UserError, unknown
from dytox.models.encoders import refuse_encoder

BUILT_IN = {
    "dytox": "dytox.methods.dytox:DyToxMethod",
    "podnet": "dytox.methods.podnet:PodNet",
    "rpsnet": "dytox.methods.rpsnet:RpsNet",
    "der": "dytox.methods.der:Der",
    "simple_der": "dytox.methods.simple_der:SimpleDer",
    "replay": "dytox.methods.replay:Replay",
    "finetune": "dytox.methods.finetune:Finetune",
    "joint": "dytox.methods.joint:Joint",
    "icarl": "dytox.methods.icarl:ICaRL",
    "e2e": "dytox.methods.e2e:E2E",
    "ucir": "dytox.methods.ucir:UCIR",
    "bic": "dytox.methods.bic:BiC",
    "wa": "dytox.methods.wa:WA",
}


def places() -> dict[str, str]:
    """Where each method is defined: name -> `module:Class`."""
    found = {each.name: each.value for each in entry_points(group="dytox.methods")}
    return {**found, **BUILT_IN}


def find(name: str) -> type[Method]:
    """The method of this name."""
    place = name if ":" in name else BUILT_IN.get(name) or places().get(name)
    if place is None:
        raise unknown("method", name, places())
    module_name, _, class_name = place.partition(":")
    try:
        method = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"Method {name!r} cannot be loaded from {place}: {error}.") from None
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise UserError(f"Method {name!r}: {place} is not a dytox.engine.method.Method.")
    return method


def complete(config: Config) -> Config:
    """The config with all options of its method, checked."""
    method = find(config.method.name)
    options = validate(method.Options, config.method.options, "method.")
    refuse_encoder(config.method.name, method.works_on, config.model)
    if config.memory.size and not method.uses_memory:
        raise UserError(
            f"{config.method.name} never has a memory, so memory.size must be 0, not {config.memory.size}; "
            "replay is finetune with a memory."
        )
    if method.needs_memory and not config.memory.size:
        raise UserError(f"{config.method.name} cannot do without a memory, so memory.size must be above 0.")
    filled = {"name": config.method.name, **options.model_dump()}
    return config.model_copy(update={"method": validate(MethodConfig, merge({}, filled), "method.")})
