"""Finding methods: those of the package and of installed packages by name, any other as `module:Class`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dytox import importing
from dytox.errors import UserError, unknown

if TYPE_CHECKING:  # both are slow to import, and a list of names needs neither
    from dytox.config import Config
    from dytox.engine.method import Method

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
    "ncm": "dytox.methods.ncm:Ncm",
    "slda": "dytox.methods.slda:Slda",
    "ranpac": "dytox.methods.ranpac:Ranpac",
    "fecam": "dytox.methods.fecam:Fecam",
}


def places() -> dict[str, str]:
    """The methods known by name, each with its `module:Class`; the package's own come first."""
    import importlib.metadata  # slow to import

    points = importlib.metadata.entry_points(group="dytox.methods")
    found = {each.name: each.value for each in points}
    return {**found, **BUILT_IN}


def find_method(name: str) -> type[Method]:
    """The class of a method, by its name or as `module:Class`."""
    from dytox.engine.method import Method

    place = name if ":" in name else BUILT_IN.get(name) or places().get(name)
    if place is None:
        raise unknown("method", name, places())
    method = importing.load(place, f"Method {name!r}")
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise UserError(f"Method {name!r}: {place} is not a subclass of dytox.method.Method.")
    return method


def complete(config: Config) -> Config:
    """The config with all options of its method; raise if the method cannot work with it."""
    from dytox.checking import merge, validate
    from dytox.config import MethodConfig
    from dytox.models.encoders import refuse_encoder

    method = find_method(config.method.name)
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
