"""`bench`: how fast, side by side with the paper's formulation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dytox.cli.options import FIRST, MEASURE, JsonOption, beginning
from dytox.cli.output import console, say, table
from dytox.errors import UserError, unknown

if TYPE_CHECKING:
    from dytox.bench.suite import Settings
    from dytox.config import Config

QUIET = {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # torch's profiler talks to itself
PARTS = ("model", "augmentation", "herding", "loading", "task")

PartArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help=f"Any of {', '.join(PARTS)}; without it, all of them.",
        metavar="PART",
        autocompletion=beginning(PARTS),
    ),
]
TasksOption = Annotated[
    str,
    typer.Option(
        help="The numbers of tasks, rising, with commas between.", metavar="1,10", rich_help_panel=MEASURE
    ),
]
BatchOption = Annotated[
    int, typer.Option(min=2, help="Images in a batch of the full-size model.", rich_help_panel=MEASURE)
]
RepeatsOption = Annotated[int, typer.Option(min=2, help="Of each measurement.", rich_help_panel=MEASURE)]
DeviceOption = Annotated[
    str, typer.Option(help="auto, cpu, cuda, cuda:0 or mps.", metavar="DEVICE", rich_help_panel=MEASURE)
]
CompileOption = Annotated[
    bool, typer.Option("--compile", help="Ours with torch.compile.", rich_help_panel=MEASURE)
]
QuickOption = Annotated[
    bool,
    typer.Option("--quick", help="A tiny model and few repetitions: does it run?", rich_help_panel=FIRST),
]


def bench(
    part: PartArgument = None,
    tasks: TasksOption = "1,10,20,50",
    batch: BatchOption = 64,
    repeats: RepeatsOption = 5,
    device: DeviceOption = "auto",
    compiled: CompileOption = False,
    quick: QuickOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure speed and memory, plain formulation and ours in turn, in one process.

    Example: dytox bench model --tasks 1,10
    """
    wanted = part or list(PARTS)
    for each in wanted:
        if each not in PARTS:
            raise unknown("part of the benchmark", each, PARTS)
    numbers = _numbers(tasks)
    for name, level in QUIET.items():
        os.environ.setdefault(name, level)

    from dytox.bench import suite  # torch is slow to import
    from dytox.learner.classifier import device as found_device
    from dytox.runs import environment

    full, short = _configs(quick, compiled, device)
    settings = suite.Settings(numbers, batch, repeats, found_device(full))
    found: dict[str, Any] = {
        "format": 1,
        "environment": environment.describe(),
        "device": str(settings.device),
        "settings": {"tasks": list(numbers), "batch": batch, "repeats": repeats, "compile": compiled},
        **{
            name: measure()
            for name, measure in _measures(full, short, settings, quick).items()
            if name in wanted
        },
    }
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        show(found)


def _measures(
    full: Config, short: Config, settings: Settings, quick: bool
) -> dict[str, Callable[[], dict[str, Any]]]:
    """How each part is measured."""
    from dytox.bench import loading, suite
    from dytox.bench.task import of_task

    progress = console(stderr=True)

    def tell(sentence: str) -> None:
        say(progress, sentence, style="dim")

    few = {"classes": 2, "images": 30, "dim": 8} if quick else {}
    small: dict[str, Any] = {"images": 8, "width": 60, "height": 48, "size": 16} if quick else {}
    return {
        "model": lambda: suite.of_model(full, settings, tell),
        "augmentation": lambda: suite.of_augmentation(short, settings, tell),
        "herding": lambda: suite.of_herding(settings, tell, **few),
        "loading": lambda: loading.of_loading(settings.repeats, tell, **small),
        "task": lambda: of_task(short, settings, tell, each=20 if quick else 500),
    }


def show(found: dict[str, Any]) -> None:
    """The figures for people: medians, and the quarters around them as a share."""
    to = console()
    if "model" in found:
        _show_model(found["model"])
    if "augmentation" in found:
        each = found["augmentation"]
        say(to, _beside("Augmentation", "images/s", each))
        say(
            to,
            f"  It is {each['augmentation_of_step']:.1%} of a training step of cifar100-10-short, "
            f"with loading and all draws {each['making_a_batch_of_step']:.1%}.",
        )
    if "herding" in found:
        each = found["herding"]
        say(to, _beside(f"Herding {each['kept']} of {each['images']:,} images", "classes/s", each))
    if "loading" in found:
        each = found["loading"]
        say(to, f"Photographs of {each['width']} x {each['height']} pixels to {each['size']}, images/s:")
        ours = [(f"{count} of our workers", each["ours"][count]) for count in each["ours"]]
        ways = [("decoding alone", each["decoding"]), ("Pillow", each["plain"]), *ours]
        table(to, ["By", "images/s"], [(by, f"{speed['per_second']:,.0f}") for by, speed in ways])
    if "task" in found:
        each = found["task"]
        say(to, f"A task of cifar100-10-short: {each['seconds']:.0f} s, {each['computing']:.1%} computing")
        table(to, ["Part", "share"], [(part, f"{share:.1%}") for part, share in each["parts"].items()])
        table(to, ["Phase", "share"], [(phase, f"{share:.1%}") for phase, share in each["phases"].items()])


def _show_model(model: dict[str, Any]) -> None:
    to = console()
    columns = ["Tasks", "plain img/s", "ours img/s", "ratio"]
    say(to, "Evaluation, ± half the spread of the middle half of the times", style="bold")
    rows = [[*_row(row, "evaluation"), f"{row['share_of_products']:.0%}"] for row in model["rows"]]
    table(to, [*columns, "of the products' speed"], rows)
    say(to, "Training step with teacher, and the memory it takes", style="bold")
    rows = [[*_row(row, "training"), *_megabytes(row)] for row in model["rows"]]
    table(to, [*columns, "plain MB", "ours MB"], rows)
    say(to, f"Products of the model's shapes: {model['products_per_second'] / 1e9:.1f} GFLOP/s, fp32.")
    if "evaluation_cost_of_a_task" in model:
        cost, left = model["evaluation_cost_of_a_task"], model["evaluation_at_most_of_at_fewest"]
        say(to, f"A task more costs {cost:.2%} of evaluation; at the most tasks it is {left:.2f} as fast.")


def _row(row: dict[str, Any], key: str) -> list[str]:
    cells = [str(row["tasks"])]
    for form in ("plain", "ours"):
        each = row[key][form]
        spread = (each["high"] - each["low"]) / 2 / each["median"]
        cells.append(f"{each['per_second']:.1f} ±{spread:.0%}")
    return [*cells, f"{row[key]['speedup']:.2f}"]


def _megabytes(row: dict[str, Any]) -> list[str]:
    return [f"{row['training_memory'][form] / 1e6:,.0f}" for form in ("plain", "ours")]


def _beside(what: str, unit: str, each: dict[str, Any]) -> str:
    plain, ours = each["plain"]["per_second"], each["ours"]["per_second"]
    return f"{what}: {ours:,.0f} {unit}, plainly {plain:,.0f}: {each['speedup']:.1f} times."


def _numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(each) for each in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1 or max(numbers) > 100 or list(numbers) != sorted(set(numbers)):
        raise UserError(f"--tasks {text!r} should be rising numbers from 1 to 100 with commas between.")
    return numbers


def _configs(quick: bool, compiled: bool, device: str) -> tuple[Config, Config]:
    """The full-size CIFAR model, and the short run; or tiny ones."""
    from dytox import recipes

    runtime = {"runtime": {"compile": compiled, "device": device}}
    if not quick:
        return recipes.compose("cifar100-10", values=runtime), recipes.compose(
            "cifar100-10-short", values=runtime
        )
    tiny = {
        "data": {"image_size": 8},
        "model": {"patch_size": 4, "dim": 12, "heads": 3, "depth": 1},
        "training": {"batch": 16},
        "finetuning": {"batch": 16},
        "memory": {"size": 40},
        **runtime,
    }
    config = recipes.compose("cifar100-10-short", values=tiny)
    return config, config
