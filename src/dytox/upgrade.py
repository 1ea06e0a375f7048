"""What older versions saved is read for ever: the format number, and a step from each format to the next.

One number, `current()`, stands in every model directory, checkpoint and run directory. When they are read,
these go step by step from their own format to the current one, before anything else uses them:

- configs, of models and of runs; keys of recipes and of `--set`;
- the description, the structure and the weights of a model;
- the state and the tensors of a checkpoint.

A model's memory and history, and the log and the metrics of a run, have never changed their format. Nothing
on the disk changes until it is saved again. CONTRIBUTING.md says how to add a step.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dytox import __version__
from dytox.errors import UserError

if TYPE_CHECKING:  # recipes come through here too, and they do without torch
    from torch import Tensor

Values = dict[str, Any]  # nested, as JSON and YAML hold them
Tensors = dict[str, "Tensor"]
MISSING = object()
_METHOD = "method."  # how the tensors of the method begin in a checkpoint


class NewerFormat(UserError):
    """A newer version of the package wrote this."""


def _keep_keys(values: Values) -> None:
    pass


def _keep_network(config: Values, structure: Values, tensors: Tensors) -> tuple[Values, Tensors]:
    return structure, tensors


def _keep_state(state: Values, tensors: Tensors) -> tuple[Values, Tensors]:
    return state, tensors


@dataclass(frozen=True)
class FormatStep:
    """How one format becomes the next; what a step does not mention stays as it is.

    keys: renames and removes config keys in place, with `take` and `put`. It is also given recipes and
        `--set`, which hold a few keys only, of the old or of the new format: it leaves the new ones alone.
    added: config keys, by their full names, that are new and whose default is not what the old code did,
        with the value that reproduces the old behaviour. Not used for recipes.
    network: (config of the old format, structure, tensors of the method) -> structure and tensors.
    description: changes the rest of a model's description in place.
    checkpoint: (state, tensors) -> state and tensors, of the rest of a checkpoint. Its tensors are named
        `method.*`, `memory.*` and `optimizer.*`.
    """

    keys: Callable[[Values], None] = _keep_keys
    added: Mapping[str, Any] = field(default_factory=dict)
    network: Callable[[Values, Values, Tensors], tuple[Values, Tensors]] = _keep_network
    description: Callable[[Values], None] = _keep_keys
    checkpoint: Callable[[Values, Tensors], tuple[Values, Tensors]] = _keep_state


def take(values: Values, key: str) -> Any:
    """Remove and return the value of a full key such as `model.network`; `MISSING` where there is none."""
    *sections, name = key.split(".")
    for section in sections:
        inner = values.get(section)
        if not isinstance(inner, dict):
            return MISSING
        values = inner
    return values.pop(name, MISSING)


def put(values: Values, key: str, value: Any) -> None:
    """Set a full key where it has no value yet."""
    *sections, name = key.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            return  # refused, with its name, when the config is validated
    values.setdefault(name, value)


# The steps


def _name_optimizer_parts(state: Values, tensors: Tensors) -> tuple[Values, Tensors]:
    """Format 1 kept the states of the loss scaler and of LookSAM under the places -1 and -2."""
    renamed = {}
    for name, tensor in tensors.items():
        for old, new in (("optimizer.-1.", "optimizer.scaler."), ("optimizer.-2.", "optimizer.looksam.")):
            if name.startswith(old):
                name = new + name.removeprefix(old)
        renamed[name] = tensor
    return state, renamed


def _encoder_of_every_network(values: Values) -> None:
    """`model.network`, of format 1, becomes `model.encoder` and `model.decoder`.

    - transformer: both keep their values.
    - a ResNet: it is the encoder, and the decoder is pool.
    """
    network = take(values, "model.network")
    if network is not MISSING and network != "transformer":
        values["model"] |= {"encoder": network, "decoder": "pool"}


def _live_outputs(config: Values, structure: Values, tensors: Tensors) -> tuple[Values, Tensors]:
    """Translate the networks of a method, model and teacher, from format 1.

    - `slots`, the places of forgotten classes, is removed. Format 1 had removed their rows already, so that
      every task has as many outputs as classes.
    - The weights `backbone.*` of a network with pooled features become `encoder.*`.
    """
    for network in filter(None, (structure["model"], structure["teacher"])):
        network.pop("slots", None)
    renamed = {}
    for name, tensor in tensors.items():
        for whose in ("model", "teacher"):
            if name.startswith(f"{whose}.backbone."):
                name = name.replace("backbone", "encoder", 1)
        renamed[name] = tensor
    return structure, renamed


def _tasks_of_the_network(description: Values) -> None:
    """Give the network the tasks that the description lists.

    - Most networks of format 1 list the same tasks.
    - The network of `joint`, built anew at each task, lists all classes as one task.
    """
    _group(description["structure"]["model"], description["increments"])


def _tasks_of_a_run(state: Values, tensors: Tensors) -> tuple[Values, Tensors]:
    """Translate a checkpoint from format 1.

    - The network of `joint` gets its tasks from the classes seen in each finished step of the run.
    - The optimiser's parts get their names.
    """
    network = state["structure"]["model"]
    seen = [0, *(step["classes_seen"] for step in state.get("steps", [])), sum(network["increments"])]
    tasks = [after - before for before, after in pairwise(seen) if after > before]
    if len(network["increments"]) == 1:
        _group(network, tasks)
    return _name_optimizer_parts(state, tensors)


def _group(network: Values, tasks: list[int]) -> None:
    """Divide the outputs of a network into these tasks."""
    if network["increments"] != tasks:
        network |= {"sizes": network["increments"], "forgotten": [], "increments": tasks}


STEPS: list[FormatStep] = [
    FormatStep(  # from format 1 to 2
        keys=_encoder_of_every_network,
        network=_live_outputs,
        description=_tasks_of_the_network,
        checkpoint=_tasks_of_a_run,
    ),
]


# What is read goes through these


def current() -> int:
    """The format in which everything is saved now."""
    return 1 + len(STEPS)


def check_format(found: Any, package: Any, what: object) -> int:
    """The format found in `what`, refused where a newer version of the package wrote it."""
    if type(found) is not int or found < 1:
        raise UserError(f"{what} names no format that dytox ever had ({found!r}): restore it from a copy.")
    if found > current():
        writer = package if isinstance(package, str) else "of an unknown version"
        raise NewerFormat(
            f"{what} was written by dytox {writer} in format {found}, and this is dytox {__version__}, which "
            f"reads formats up to {current()}: update dytox."
        )
    return found


def config(values: Mapping[str, Any], found: int) -> Values:
    """A whole config of format `found` as one of the current format."""
    upgraded = copy.deepcopy(dict(values))
    for _, step in _from(found):
        _step_config(step, upgraded)
    return upgraded


def keys(values: Mapping[str, Any]) -> Values:
    """A part of a config, of a recipe or `--set`, which may have keys of any format."""
    upgraded = copy.deepcopy(dict(values))
    for step in STEPS:
        step.keys(upgraded)
    return upgraded


def model(
    description: Mapping[str, Any], tensors: Mapping[str, Tensor], found: int
) -> tuple[Values, Tensors]:
    """A saved model's description (with `config` and `structure`) and tensors."""
    about, weights = copy.deepcopy(dict(description)), dict(tensors)
    for number, step in _from(found):
        with _explained(number):
            old = copy.deepcopy(about["config"])
            about["structure"], weights = step.network(old, about["structure"], weights)
            _step_config(step, about["config"])
            step.description(about)
    return about, weights


def checkpoint(
    content: Mapping[str, Any], tensors: Mapping[str, Tensor], found: int
) -> tuple[Values, Tensors]:
    """A checkpoint's state (with `structure` and the config in `origin`) and tensors."""
    state, kept = copy.deepcopy(dict(content)), dict(tensors)
    for number, step in _from(found):
        with _explained(number):
            old = copy.deepcopy(state["origin"]["config"])
            own = {name[len(_METHOD) :]: each for name, each in kept.items() if name.startswith(_METHOD)}
            others = {name: each for name, each in kept.items() if not name.startswith(_METHOD)}
            state["structure"], own = step.network(old, state["structure"], own)
            kept = {**others, **{_METHOD + name: each for name, each in own.items()}}
            _step_config(step, state["origin"]["config"])
            state, kept = step.checkpoint(state, kept)
    return state, kept


def _from(found: int) -> Iterable[tuple[int, FormatStep]]:
    """The steps that are left, each with the format that it starts from."""
    return list(enumerate(STEPS, start=1))[found - 1 :]


@contextmanager
def _explained(number: int) -> Iterator[None]:
    """A file may hold anything: what a step cannot use is a ValueError that says so."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"its parts do not fit each other as those of format {number}, {error!r}") from error


def _step_config(step: FormatStep, values: Values) -> None:
    step.keys(values)
    for key, value in step.added.items():
        put(values, key, copy.deepcopy(value))
