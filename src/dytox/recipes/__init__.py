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

__all__ = ["PresetLayer", "compose", "layers", "methods", "origins", "override", "paper_name", "scenarios"]


class PresetLayer(NamedTuple):
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

    `encoder` is a pretrained one: a name, `hf:REPO`, a folder or a file; None or "none" leaves the recipe's
    encoder. A pretrained encoder is frozen unless `frozen` is false.
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
) -> list[PresetLayer]:
    """The layers above the schema's defaults, in the order in which `compose` merges them."""
    chain = reading.scenario_chain(recipe)
    switches: dict[str, Any] = {}
    for _, scenario in chain:
        switches |= {key: scenario[key] for key in ("scale", *VARIANTS) if key in scenario}
    name, presets = _presets(method)
    base = presets[0][1]
    if str(switches["scale"]) not in base.scales:
        raise unknown("scale", switches["scale"], base.scales)
    found = [
        PresetLayer("recipe", {"recipe": chain[-1][0]}),
        PresetLayer("--method", {"method": {"name": name}}),
    ]
    for origin, preset in presets:
        found += _of_preset(origin, preset, switches)
    _refuse_untuned(chain[-1][0], method, presets, switches)
    found += [PresetLayer(f"recipe {each}", scenario.get("config", {})) for each, scenario in chain]
    found += [PresetLayer(f"{origin} (always)", preset.always) for origin, preset in presets]
    given = [PresetLayer("--set", override(each)) for each in overrides] + [
        PresetLayer("values", upgrade.keys(values or {}))
    ]
    _refuse_other_code(recipe, name, found, given)
    found += _of_encoder(encoder, frozen, found, given)
    return [layer for layer in found + given if layer.values]


def _of_encoder(
    encoder: str | None, frozen: bool | None, found: list[PresetLayer], given: list[PresetLayer]
) -> list[PresetLayer]:
    """The values of the encoder: of `--encoder`, or of a pretrained one that these layers name."""
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
    return [PresetLayer(f"encoder {name}", values)]


def origins(found: Iterable[PresetLayer]) -> dict[str, str]:
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
    own = registry.find_method(name)
    base = base or own.preset.base
    if base not in reading.names("bases"):
        raise unknown(f"base of the method {name}", base, reading.names("bases"))
    first = (f"base {base}", validate(Preset, reading.preset("bases", base)))
    return name, [first, (f"method {name}", own.defaults()), *variants]


def _of_preset(origin: str, preset: Preset, switches: Mapping[str, Any]) -> Iterator[PresetLayer]:
    """The general values of a preset, those of the scale, and those of the switches that are on."""
    scale = switches["scale"]
    yield PresetLayer(origin, preset.config)
    yield PresetLayer(f"{origin} (scale {scale})", preset.scales.get(scale, {}))
    for switch in VARIANTS:
        if switches.get(switch):
            yield PresetLayer(f"{origin} ({switch})", getattr(preset, switch))


def _refuse_untuned(
    recipe: str, method: str, presets: list[tuple[str, Preset]], switches: Mapping[str, Any]
) -> None:
    if switches.get("tuned") and not any(preset.tuned for _, preset in presets):
        other = recipe.replace("-tuned", "-short")
        instead = other if other in reading.names("scenarios") else "a recipe without `tuned: true`"
        raise UserError(
            f"The recipe {recipe} asks for tuned values, and the method {method} has none: take {instead}."
        )


def _refuse_other_code(recipe: str, name: str, found: list[PresetLayer], given: list[PresetLayer]) -> None:
    """The method is chosen by `--method` alone, and only the user names code to load a dataset with."""
    for layer in found + given:
        section = layer.values.get("method")
        other = section.get("name", name) if isinstance(section, Mapping) else name
        if other != name:
            raise UserError(
                f"{layer.name} sets method.name to {other!r}: choose a method with --method, which brings "
                "its presets too."
            )
    if not _datasets(given):
        for dataset in _datasets(found)[-1:]:
            confirm(dataset, (), where=f"The recipe {recipe}", option="--dataset")


def _datasets(several: Iterable[PresetLayer]) -> list[str]:
    """The datasets that layers name, in their order."""
    sections = [layer.values.get("data") for layer in several]
    named = [section.get("dataset") for section in sections if isinstance(section, Mapping)]
    return [dataset for dataset in named if isinstance(dataset, str)]
