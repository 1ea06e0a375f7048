"""What a folder would do to a model, before it is done."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dytox import recipes
from dytox.checking import merge, validate
from dytox.config import Config, PhaseConfig
from dytox.data.datasets import hold_out
from dytox.data.folder import default_size
from dytox.data.samples import Samples
from dytox.engine.schedule import stretched
from dytox.errors import UserError
from dytox.growing import source
from dytox.growing.source import ImageFolder
from dytox.learner import ContinualLearner
from dytox.learner.classifier import placed
from dytox.methods import registry
from dytox.recipes.encoders import DEFAULT, NONE
from dytox.runs import files

RECIPE = "own-images"
SHORT = "cifar20-5-short"  # of the same scale, with as many epochs as methods have their schedules for
PASSES = 20_000  # images looked at while a first folder is learned, where nobody says otherwise
FEWEST, MOST = 20, 100  # epochs
FEW = 10  # images a class, below which the nearest mean is as good as ridge regression
FIXED = ("model", "method", "data", "loss")  # what a model cannot change once it has learned


@dataclass(frozen=True)
class Plan:
    """A learner as it is now, and what it is to learn."""

    path: Path
    learner: ContinualLearner
    learned: Samples
    held: Samples  # of these images, held out
    new: list[str]
    known: list[str]
    skipped: list[str]
    kept: int  # images that it keeps already, and that are left out
    fingerprint: str
    state: str | None  # of the model directory
    reason: str = ""  # why the encoder and the method are what they are, where nobody chose them

    @property
    def is_first(self) -> bool:
        """Whether there is no model yet."""
        return not self.learner.class_names

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to learn: the last lesson had the same images, or none of these is new."""
        history = self.learner.history
        same = bool(history) and history[-1].get("fingerprint") == self.fingerprint
        return same or not len(self.learned)


def make(
    path: Path,
    folder: Path,
    *,
    recipe: str | None = None,
    method: str | None = None,
    overrides: Sequence[str] = (),
    held_out: float = 0.2,
    encoder: str | None = None,
    frozen: bool = True,
) -> Plan:
    """What learning this folder would do; `encoder` is a pretrained one for a new model, or "none"."""
    found, state = source.find_classes(folder), model_state(path)
    reason = ""
    if state is None:
        if method is None:
            encoder, method, reason = default(found, held_out, recipe, encoder, frozen=frozen)
        learner = ContinualLearner(choose(found, recipe, method, overrides, encoder, frozen=frozen))
    elif recipe is not None or encoder is not None:
        raise UserError(f"{path} is a model already: recipe and encoder are for a new one.")
    else:
        learner = changed(ContinualLearner.load(path, method=method), overrides)
        if method not in (None, learner.config.method.name):
            raise UserError(f"{path} is a model of {learner.config.method.name}: its method cannot change.")
    pictures = source.read_pictures(found, learner.size, learner.config.data.resize)
    samples, new = learner.sorted_in(pictures.images, pictures.names)
    fresh = learner.fresh(samples, new, list(map(str, pictures.paths)))
    learned, held = hold_out(fresh, held_out, learner.held_out)
    old = learned.between(0, len(learner.class_names))
    if len(fresh):
        learner.refuse(new, old)
    return Plan(
        path=path,
        learner=learner,
        learned=learned,
        held=held,
        new=new,
        known=[learner.class_names[label] for label in old.labels.unique().tolist()],
        skipped=pictures.skipped,
        kept=len(samples) - len(fresh),
        fingerprint=pictures.fingerprint(),
        state=state,
        reason=reason,
    )


def default(
    found: ImageFolder, held_out: float, recipe: str | None, encoder: str | None, *, frozen: bool
) -> tuple[str | None, str, str]:
    """The encoder and the method of a new model if the user chose no method, and a sentence that says why.

    On photos a pretrained encoder with a computed classifier is more accurate than training from scratch.
    Below ten images a class the nearest class mean is as accurate as ridge regression, and simpler.
    """
    if encoder == NONE or not frozen or (recipe is not None and encoder is None):
        return encoder, "dytox", ""
    each = found.images * (1 - held_out) / len(found.classes)
    method, what = ("ncm", "nearest class mean") if each < FEW else ("ranpac", "ridge regression")
    few = f"{'fewer' if each < FEW else 'no fewer'} than {FEW} images a class to learn from"
    name = encoder or DEFAULT
    reason = f"Encoder {name}, pretrained and frozen, with {what} ({method}): {few}."
    return name, method, reason if encoder else f"{reason} --encoder none learns from scratch."


def model_state(path: Path) -> str | None:
    """A checksum that differs for every state of a model directory; None if there is no model."""
    config = path / "config.json"
    return hashlib.sha256(files.read(config)).hexdigest() if config.exists() else None


def choose(
    found: ImageFolder,
    recipe: str | None,
    method: str,
    overrides: Iterable[str],
    encoder: str | None = None,
    *,
    frozen: bool = True,
) -> Config:
    """The config of a new model: a recipe's, or one for so many images of such a size and such an encoder."""
    overrides = list(overrides)
    sizes = [each for each in overrides if each.startswith(("model.", "data."))]
    composed = recipes.compose(
        recipe or RECIPE, method=method, encoder=encoder, frozen=frozen or None, overrides=sizes
    )
    values: dict[str, Any] = composed.model_dump()
    wanted: dict[str, Any] = {}
    for override in map(recipes.override, overrides):
        wanted = merge(wanted, override)
    if recipe is None:
        epochs = min(MOST, max(FEWEST, round(PASSES / found.images)))
        values = merge(values, {"training": {"epochs": epochs}})
        values = merge(values, schedules(merge(values, wanted), method))
    if values["data"]["image_size"] is None:
        values = merge(values, {"data": {"image_size": default_size(found.classes)}})
    return validate(Config, merge(values, wanted))


def schedules(values: Mapping[str, Any], method: str) -> dict[str, Any]:
    """The method's schedules, stretched to the epochs of these values."""
    short, found = recipes.compose(SHORT, method=method), dict[str, Any]()
    for name, phase in (("training", short.training), ("finetuning", short.finetuning)):
        if isinstance(values[name], Mapping):  # else it is refused with the whole
            epochs = validate(PhaseConfig, values[name], f"{name}.").epochs
            found[name] = {"schedule": stretched(phase, epochs).model_dump()}
    return found


def changed(learner: ContinualLearner, overrides: Sequence[str]) -> ContinualLearner:
    """The learner with other values in its config, from now on."""
    values = learner.config.model_dump()
    for override in map(recipes.override, overrides):
        values = merge(values, override)
    config = registry.complete(validate(Config, values))
    for section in FIXED:
        if getattr(config, section) != getattr(learner.config, section):
            raise UserError(
                f"The section {section} of a model's config cannot change any more: make a new model."
            )
    learner.config = learner.method.config = config
    learner.method = placed(learner.method, config)  # as when an interrupted lesson is resumed
    return learner
