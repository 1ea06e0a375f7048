"""Presets: a recipe is a scenario (which classes come when) with a method (how they are learned).

The config of a run is built from layers; what comes later overrides what came before:

1. the defaults of the schema (`config.py`);
2. the base of the method, transformer or resnet (`bases/*.yaml`);
3. the method's own `preset`, on its class;
4. the variant of the method, if one is named, as dytox-plus (`methods/*.yaml`);
5. the scenario (`scenarios/*.yaml` or a user's file), after those that it `extends`;
6. what the method always has, whatever the scenario says (`always`; a method without a memory: size 0);
7. `--encoder`, and what a pretrained encoder asks for: size and scaling of its images (`encoders.py`);
8. `--set`, in the order given.

Bases, methods and variants have general values (`config`), then those for the scenario's `scale`, then, where
the scenario says `large: true` or `tuned: true`, those under that name. `dytox show RECIPE --origin` prints
which layer each value comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from dytox import upgrade
from dytox.errors import UserError, unknown
from dytox.importing import confirm
from dytox.methods import registry
from dytox.recipes import encoders, reading
from dytox.recipes.reading import VARIANTS, override

if TYPE_CHECKING:  # the schema is slow to import, and a list of names does not need it
    from dytox.config import Config, Preset

__all__ = ["Layer", "compose", "layers", "methods", "origins", "override", "paper_name", "scenarios"]


class Layer(NamedTuple):
    """Values of a config, nested as there, and where they come from."""

    name: str
    values: Mapping[str, Any]


def scenarios() -> dict[str, str]:
    """The scenarios of the package, each with its description."""
    return {name: reading.about("scenarios", name) for name in reading.names("scenarios")}


def methods() -> dict[str, str]:
    """The methods that `compose` knows by name; variants with their description, others with none."""
    variants = {name: reading.about("methods", name) for name in reading.names("methods")}
    return dict(sorted({**dict.fromkeys(registry.places(), ""), **variants}.items()))


def paper_name(method: str) -> str:
    """The name of a variant in the paper, which `compose` accepts too: dytox++ is dytox-plus-plus."""
    return method.replace("-plus", "+")


def compose(
    recipe: str,
    *,
    method: str = "dytox",
    encoder: str | None = None,
    frozen: bool | None = None,
    overrides: Iterable[str] = (),
    values: Mapping[str, Any] | None = None,
) -> Config:
    """The config of a recipe with a method, then `key=value` overrides, then nested values.

    `encoder` is a pretrained one: a name, `hf:REPO`, a folder or a file; "none" is none. It stays as it is
    unless `frozen` is false.
    """
    from dytox.checking import merge, validate
    from dytox.config import Config

    merged: dict[str, Any] = Config().model_dump()
    for layer in layers(
        recipe, method=method, encoder=encoder, frozen=frozen, overrides=overrides, values=values
    ):
        merged = merge(merged, layer.values)
    return validate(Config, merged)


def layers(
    recipe: str,
    *,
    method: str = "dytox",
    encoder: str | None = None,
    frozen: bool | None = None,
    overrides: Iterable[str] = (),
    values: Mapping[str, Any] | None = None,
) -> list[Layer]:
    """The layers above the schema's defaults, in the order in which `compose` merges them."""
    chain = reading.scenarios(recipe)
    switches: dict[str, Any] = {}
    for _, scenario in chain:
        switches |= {key: scenario[key] for key in ("scale", *VARIANTS) if key in scenario}
    name, presets = _presets(method)
    found = [Layer("recipe", {"recipe": chain[-1][0]}), Layer("--method", {"method": {"name": name}})]
    for origin, preset in presets:
        found += _of_preset(origin, preset, switches)
    _refuse_untuned(chain[-1][0], method, presets, switches)
    found += [Layer(f"recipe {each}", scenario.get("config", {})) for each, scenario in chain]
    found += [Layer(f"{origin} (always)", preset.always) for origin, preset in presets]
    given = [Layer("--set", override(each)) for each in overrides] + [
        Layer("values", upgrade.keys(values or {}))
    ]
    _refuse_other_code(recipe, name, found, given)
    found += _of_encoder(encoder, frozen, found, given)
    return [layer for layer in found + given if layer.values]


def _of_encoder(
    encoder: str | None, frozen: bool | None, found: list[Layer], given: list[Layer]
) -> list[Layer]:
    """What the encoder asks for: that of `--encoder`, or one that these layers name and that is pretrained."""
    from dytox.checking import merge

    said: dict[str, Any] = {}
    for layer in [*found, *given]:
        said = merge(said, layer.values)
    if encoder in (None, encoders.NONE):
        name, values = encoders.chosen(said)
    else:
        name, size = str(encoder), said.get("data", {}).get("image_size")
        values = encoders.find(name).values(size, frozen=frozen is not False)
    if frozen is False and values:
        values = merge(values, {"model": {"frozen": False}})
    return [Layer(f"encoder {name}", values)]


def origins(found: Iterable[Layer]) -> dict[str, str]:
    """Which layer each value comes from, by full key; a key that is not there has the schema's default."""
    from dytox.checking import flat

    known: dict[str, str] = {}
    for layer in found:
        for key in flat(layer.values):
            within = [each for each in known if each.startswith(f"{key}.") or key.startswith(f"{each}.")]
            for each in within:  # a section that was switched off or on again
                del known[each]
            known[key] = layer.name
    return known


def _presets(method: str) -> tuple[str, list[tuple[str, Preset]]]:
    """The method's name in a config, and its presets: its base, its class, and its variants."""
    from dytox.checking import validate
    from dytox.config import Preset

    name, base, variants = method.replace("+", "-plus"), "", list[tuple[str, Preset]]()  # see paper_name
    while name in reading.names("methods"):
        content = dict(reading.preset("methods", name))
        del content["about"]
        above = content.pop("extends")
        variants.insert(0, (f"method {name}", validate(Preset, content)))
        name, base = above, base or content.get("base", "")
    own = registry.find(name)
    base = base or own.preset.base
    if base not in reading.names("bases"):
        raise unknown(f"base of the method {name}", base, reading.names("bases"))
    first = (f"base {base}", validate(Preset, reading.preset("bases", base)))
    return name, [first, (f"method {name}", own.defaults()), *variants]


def _of_preset(origin: str, preset: Preset, switches: Mapping[str, Any]) -> Iterator[Layer]:
    """The general values of a preset, those of the scale, and those of the switches that are on."""
    scale = switches["scale"]
    if preset.scales and origin.startswith("base") and str(scale) not in preset.scales:
        raise unknown("scale", scale, preset.scales)
    yield Layer(origin, preset.config)
    yield Layer(f"{origin} (scale {scale})", preset.scales.get(scale, {}))
    for switch in VARIANTS:
        if switches.get(switch):
            yield Layer(f"{origin} ({switch})", getattr(preset, switch))


def _refuse_untuned(
    recipe: str, method: str, presets: list[tuple[str, Preset]], switches: Mapping[str, Any]
) -> None:
    if switches.get("tuned") and not any(preset.tuned for _, preset in presets):
        other = recipe.replace("-tuned", "-short")
        instead = other if other in reading.names("scenarios") else "a recipe without `tuned: true`"
        raise UserError(
            f"The recipe {recipe} asks for tuned values, and the method {method} has none: take {instead}."
        )


def _refuse_other_code(recipe: str, name: str, found: list[Layer], given: list[Layer]) -> None:
    """The method is chosen by `--method` alone, and only the user names code to load a dataset with."""
    for layer in found + given:
        section = layer.values.get("method")
        other = section.get("name", name) if isinstance(section, Mapping) else name
        if other != name:
            raise UserError(
                f"{layer.name} sets method.name to {other!r}: choose a method with --method, which brings "
                "its presets too."
            )
    chosen = {"found": None, "given": None}
    for kind, several in (("found", found), ("given", given)):
        for layer in several:
            section = layer.values.get("data")
            if isinstance(section, Mapping) and isinstance(section.get("dataset"), str):
                chosen[kind] = section["dataset"]
    if chosen["given"] is None and chosen["found"] is not None:
        confirm(chosen["found"], (), where=f"The recipe {recipe}", option="--dataset")
