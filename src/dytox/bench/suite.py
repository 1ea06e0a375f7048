"""What is measured, and what it comes to: dictionaries for programs, of which `cli/speed.py` makes tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from dytox.bench import pillow, products
from dytox.bench.steps import Ours, Plain, evaluating, grown, some_batch, training
from dytox.bench.timing import Timing, interleaved, peak_memory
from dytox.config import Config
from dytox.data.augment import Augmentation
from dytox.data.loader import Loader
from dytox.data.samples import Samples
from dytox.memory.herding import herd
from dytox.randomness import Position, generator

CPU = torch.device("cpu")
FORMS = {"plain": Plain, "ours": Ours}


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    tasks: tuple[int, ...] = (1, 10, 20, 50)
    batch: int = 64
    repeats: int = 5
    device: torch.device = CPU


def of_model(config: Config, settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Evaluation, training step and memory of both forms at each number of tasks; the share of the peak."""
    say("evaluation: plain and ours in turn")
    with ExitStack() as stack:
        seen = _each(Plain, config, settings, stack) | _each(Ours, config, settings, stack)
        multiply, amount = products.peak(config, settings.batch, settings.device, torch.float32)
        found = interleaved({**seen, "products": multiply}, settings.repeats, settings.device)
    speed = amount / found["products"].median
    trained, memory = dict[str, Timing](), dict[str, int]()
    for tasks in settings.tasks:  # one number at a time: a training has the memory to itself
        say(f"training step with teacher, tasks: {tasks}; plain and ours in turn, then memory")
        with ExitStack() as stack:
            steps = {}
            for name, kind in FORMS.items():
                method = grown(kind, config, tasks, settings.device)
                batch = some_batch(method, settings.batch)
                steps[f"{name} {tasks}"] = stack.enter_context(training(method, batch))
            trained |= interleaved(steps, settings.repeats, settings.device)
            memory |= {name: peak_memory(step, settings.device) for name, step in steps.items()}
    rows = []
    for tasks in settings.tasks:
        share = products.operations(config, tasks) * settings.batch / found[f"ours {tasks}"].median / speed
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
    """What a task more costs of our pass with the fewest, on average up to the most."""
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
    """Noise, uint8: how images look changes no time."""
    side = config.data.image_size
    assert side is not None
    source = generator(0, Position(), "bench images")
    return torch.randint(256, (count, 3, side, side), generator=source, dtype=torch.uint8)


def some_samples(config: Config, classes: int, each: int, first: int = 0) -> Samples:
    """So many images of each class from `first` on."""
    labels = torch.arange(first, first + classes).repeat_interleave(each)
    return Samples(some_images(config, len(labels)), labels)


def of_augmentation(config: Config, settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """A training batch of a short run: ours, Pillow's, and beside the step that it is made for."""
    say("augmentation: Pillow and ours in turn")
    batch, device = config.training.batch, settings.device
    samples, images = some_samples(config, 10, 2 * batch // 10 + 1), some_images(config, batch)
    data, augmentation = config.data, Augmentation(config.augment, mean=config.data.mean, std=config.data.std)
    loader = Loader(samples, config.training, augmentation, seed=0, mixup=config.augment.mixup, device=device)
    method = grown(Ours, config, 2, device)
    places = loader.epoch(Position())[0]
    draws = augmentation.draw(generator(0, Position(), "augment"), batch, samples.size)
    moved = images.to(device)

    def theirs() -> Tensor:
        return pillow.augment(images, draws, pad=config.augment.pad, mean=data.mean, std=data.std).to(device)

    with training(method, some_batch(method, batch)) as step:
        found = interleaved(
            {
                "pillow": theirs,
                "ours": lambda: augmentation(moved, draws),
                "batch": lambda: loader.batch(places, Position(), "train", method.model.draw),
                "step": step,
            },
            3 * settings.repeats,
            device,
        )
    whole = found["batch"].median + found["step"].median
    return {
        "batch": batch,
        "plain": found["pillow"].rate(batch),
        "ours": found["ours"].rate(batch),
        "speedup": found["pillow"].median / found["ours"].median,
        "step": asdict(found["step"]),
        "making_a_batch": asdict(found["batch"]),
        "augmentation_of_step": found["ours"].median / whole,
        "making_a_batch_of_step": found["batch"].median / whole,
    }


def of_herding(
    settings: Settings, say: Callable[[str], None], *, classes: int = 20, images: int = 1300, dim: int = 384
) -> dict[str, Any]:
    """20 of 1,300 images of each class: ours, and a class, a turn and a distance at a time."""
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
    """As iCaRL's paper writes it: whichever image brings the mean of the chosen closest to that of all."""
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
