"""What is measured of the model at several numbers of tasks and sizes, and of herding.

Every measurement returns a dictionary for programs; `cli/speed.py` makes tables of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dytox.bench.steps import BENCH_CLASSES, Ours, Plain, evaluating, grown, some_batch, training_step
from dytox.bench.timing import CPU, Settings, Timing, interleaved, operations, patches, peak, peak_memory
from dytox.checking import merge
from dytox.config import Config
from dytox.data.samples import Samples
from dytox.memory import herd
from dytox.randomness import Position, generator

FORMS = {"plain": Plain, "ours": Ours}


def of_model(config: Config, settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure evaluation, training step and memory of both forms at each number of tasks."""
    say("evaluation: plain and ours in turn")
    with ExitStack() as stack:
        seen = _each(Plain, config, settings, stack) | _each(Ours, config, settings, stack)
        multiply, amount = peak(config, settings.batch, settings.device, torch.float32)
        found = interleaved({**seen, "products": multiply}, settings.repeats, settings.device)
    speed = amount / found["products"].median
    trained, memory = dict[str, Timing](), dict[str, int]()
    for tasks in settings.tasks:  # one at a time, so that each training has the memory to itself
        say(f"training step with teacher, tasks: {tasks}; plain and ours in turn, then memory")
        with ExitStack() as stack:
            steps = {}
            for name, kind in FORMS.items():
                method = grown(kind, config, tasks, settings.device)
                batch = some_batch(method, settings.batch)
                steps[f"{name} {tasks}"] = stack.enter_context(training_step(method, batch))
            trained |= interleaved(steps, settings.repeats, settings.device)
            memory |= {name: peak_memory(step, settings.device) for name, step in steps.items()}
    rows = []
    for tasks in settings.tasks:
        share = operations(config, tasks) * settings.batch / found[f"ours {tasks}"].median / speed
        row: dict[str, Any] = {
            "tasks": tasks,
            "evaluation": _side_by_side(found, tasks, settings.batch),
            "training": _side_by_side(trained, tasks, settings.batch),
            "training_memory": {form: memory[f"{form} {tasks}"] for form in FORMS},
            "share_of_products": share,
        }
        rows.append(row)
    return {"products_per_second": speed, "rows": rows, **_growth(found, trained, settings.tasks)}


def _each(
    kind: type[Ours], config: Config, settings: Settings, stack: ExitStack
) -> dict[str, Callable[[], object]]:
    name = "plain" if kind is Plain else "ours"
    found = {}
    for tasks in settings.tasks:
        method = grown(kind, config, tasks, settings.device)
        images = some_batch(method, settings.batch).images
        found[f"{name} {tasks}"] = stack.enter_context(evaluating(method, images))
    return found


def _side_by_side(times: dict[str, Timing], tasks: int, batch: int) -> dict[str, Any]:
    plain, ours = (times[f"{form} {tasks}"] for form in FORMS)
    return {"plain": plain.rate(batch), "ours": ours.rate(batch), "speedup": plain.median / ours.median}


def _growth(seen: dict[str, Timing], trained: dict[str, Timing], tasks: Sequence[int]) -> dict[str, Any]:
    """The mean cost of one more task in our form, as a share of the pass with the fewest tasks."""
    first, last = tasks[0], tasks[-1]
    if first == last:
        return {}

    def cost(times: dict[str, Timing]) -> float:
        return (times[f"ours {last}"].median / times[f"ours {first}"].median - 1) / (last - first)

    return {
        "evaluation_cost_of_a_task": cost(seen),
        "training_cost_of_a_task": cost(trained),
        "evaluation_at_most_of_at_fewest": seen[f"ours {first}"].median / seen[f"ours {last}"].median,
    }


def some_images(config: Config, count: int) -> Tensor:
    """Return uint8 noise: the content of images does not change the time."""
    side = config.data.image_size
    assert side is not None
    source = generator(0, Position(), "bench images")
    return torch.randint(256, (count, 3, side, side), generator=source, dtype=torch.uint8)


def some_samples(config: Config, classes: int, each: int, first: int = 0) -> Samples:
    """Return `each` images of each of the classes from `first` on."""
    labels = torch.arange(first, first + classes).repeat_interleave(each)
    return Samples(some_images(config, len(labels)), labels)


def of_herding(
    settings: Settings, say: Callable[[str], None], *, classes: int = 20, images: int = 1300, dim: int = 384
) -> dict[str, Any]:
    """Measure herding 20 of 1,300 images per class: ours, and the plain form, one class after the other."""
    say("herding: plain and ours in turn")
    source = generator(0, Position(), "bench features")
    features = list((torch.randn(classes, images, dim, generator=source) + 0.5).unbind())
    count = min(20, images)
    found = interleaved(
        {
            "plain": lambda: [plain_herding(each, count) for each in features],
            "ours": lambda: herd(features, count),
        },
        settings.repeats,
        CPU,
    )
    return {
        "classes": classes,
        "images": images,
        "kept": count,
        "plain": found["plain"].rate(classes),
        "ours": found["ours"].rate(classes),
        "speedup": found["plain"].median / found["ours"].median,
    }


def plain_herding(features: Tensor, count: int) -> list[int]:
    """Herd as in iCaRL's paper: take the image that brings the mean of the chosen closest to that of all."""
    normed = torch.nn.functional.normalize(features.double())
    mean, total, chosen = normed.mean(dim=0), torch.zeros_like(normed[0]), dict[int, None]()
    for turn in range(1, 10 * len(normed)):
        distances = (mean - (total + normed) / turn).square().sum(dim=1)
        best = int(distances.argmin())
        total += normed[best]
        chosen.setdefault(best)
        if len(chosen) == count:
            break
    return list(chosen)


class Variant(NamedTuple):
    """A model of one task, and the size of the batch that it sees."""

    config: Config
    batch: int
    classes: int = BENCH_CLASSES

    def operations(self) -> float:
        """Return the operations of a pass for one image, matrix products only."""
        return operations(self.config, 1, self.classes)


def size_variants(config: Config, batch: int) -> dict[str, Variant]:
    """Return the model of the config, then others that differ in one setting each."""
    side, patch = config.data.image_size, config.model.patch_size
    assert side is not None

    def changed(section: str, key: str, value: int) -> Variant:
        return Variant(Config.model_validate(merge(config.model_dump(), {section: {key: value}})), batch)

    return {
        "the model as it is": Variant(config, batch),
        **{f"{n:,} classes": Variant(config, batch, n) for n in (BENCH_CLASSES // 10, BENCH_CLASSES * 10)},
        **{f"patches of {n} px": changed("model", "patch_size", n) for n in (patch * 2, patch // 2)},
        **{f"images of {n} px": changed("data", "image_size", n) for n in (side // 2, side * 2)},
        **{f"batches of {n}": Variant(config, n) for n in (max(1, batch // 4), batch * 4, batch * 8)},
    }


def of_growth(config: Config, settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure evaluation of each variant in turn: the time per image, relative to that of the first."""
    say("evaluation with other classes, patches, image sizes and batches, in turn")
    every = size_variants(config, settings.batch)
    with ExitStack() as stack:
        passes = {}
        for name, variant in every.items():
            method = grown(Ours, variant.config, 1, settings.device, variant.classes)
            images = some_batch(method, variant.batch).images
            passes[name] = stack.enter_context(evaluating(method, images))
        times = interleaved(passes, settings.repeats, settings.device)
    name, first = next(iter(every.items()))
    alone = times[name].median / first.batch
    rows = [
        {
            "changed": name,
            "classes": variant.classes,
            "patches": patches(variant.config),
            "image_size": variant.config.data.image_size,
            "batch": variant.batch,
            "evaluation": times[name].rate(variant.batch),
            "measured": times[name].median / variant.batch / alone,
            "on_paper": variant.operations() / first.operations(),
        }
        for name, variant in every.items()
    ]
    return {"rows": rows}
