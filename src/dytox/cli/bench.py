"""`bench`: the speed of this implementation, compared with the paper's plain formulation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dytox.cli.options import FIRST, MEASURE, JsonOption, beginning
from dytox.cli.output import console, printable_json, say
from dytox.cli.speed import show_speed
from dytox.errors import UserError, unknown

if TYPE_CHECKING:
    from dytox.bench.timing import Settings
    from dytox.config import Config

QUIET = {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # silences torch's profiler
BENCH_PARTS = ("model", "growth", "parts", "convolutions", "augmentation", "herding", "loading", "task")

PartArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help=f"What to measure, any of {', '.join(BENCH_PARTS)}; default: all of them.",
        metavar="PART",
        autocompletion=beginning(BENCH_PARTS),
    ),
]
TasksOption = Annotated[
    str,
    typer.Option(
        help="Measure the model with these numbers of tasks, in rising order.",
        metavar="1,10",
        rich_help_panel=MEASURE,
    ),
]
BatchOption = Annotated[
    int,
    typer.Option(min=2, help="The batch size of the full-size model, in images.", rich_help_panel=MEASURE),
]
RepeatsOption = Annotated[
    int, typer.Option(min=2, help="Repeat each measurement this many times.", rich_help_panel=MEASURE)
]
DeviceOption = Annotated[
    str,
    typer.Option(
        help="The device: auto, cpu, cuda, cuda:0 or mps.", metavar="DEVICE", rich_help_panel=MEASURE
    ),
]
CompileOption = Annotated[
    bool, typer.Option("--compile", help="Compile our form with torch.compile.", rich_help_panel=MEASURE)
]
QuickOption = Annotated[
    bool,
    typer.Option("--quick", help="Measure a tiny model, to try whether it runs.", rich_help_panel=FIRST),
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
    """Measure speed and memory of the plain formulation and of ours, in turn, in one process.

    Example: dytox bench model --tasks 1,10
    """
    wanted, numbers = _known(part or BENCH_PARTS), _numbers(tasks)
    for name, level in QUIET.items():
        os.environ.setdefault(name, level)

    from dytox.bench import timing  # torch is slow to import
    from dytox.learner.classifier import device as found_device
    from dytox.runs import environment

    full, short = _configs(quick, compiled, device)
    settings = timing.Settings(numbers, batch, repeats, found_device(full))
    found: dict[str, Any] = {
        "format": 1,
        "environment": environment.describe_environment(),
        "device": str(settings.device),
        "settings": {"tasks": list(numbers), "batch": batch, "repeats": repeats, "compile": compiled},
    }
    for name, measure in _measures(full, short, settings, quick).items():
        if name in wanted:
            found[name] = measure()
    if as_json:
        typer.echo(printable_json(found, indent=2))
    else:
        show_speed(found)


def _measures(
    full: Config, short: Config, settings: Settings, quick: bool
) -> dict[str, Callable[[], dict[str, Any]]]:
    """The functions that measure each part."""
    from dytox.bench import loading, suite
    from dytox.bench.convolutions import of_convolutions
    from dytox.bench.parts import of_parts
    from dytox.bench.task import of_task

    progress = console(stderr=True)

    def tell(sentence: str) -> None:
        say(progress, sentence, style="dim")

    few = {"classes": 2, "images": 30, "dim": 8} if quick else {}
    small: dict[str, Any] = {"images": 8, "width": 60, "height": 48, "size": 16} if quick else {}
    return {
        "model": lambda: suite.of_model(full, settings, tell),
        "growth": lambda: suite.of_growth(full, settings, tell),
        "parts": lambda: of_parts(full, settings, tell),
        "convolutions": lambda: of_convolutions(_fast(quick, full), settings, tell),
        "augmentation": lambda: loading.of_augmentation(short, settings, tell),
        "herding": lambda: suite.of_herding(settings, tell, **few),
        "loading": lambda: loading.of_loading(settings.repeats, tell, **small),
        "task": lambda: of_task(short, settings, tell, each=20 if quick else 500),
    }


def _known(parts: Sequence[str]) -> Sequence[str]:
    for each in parts:
        if each not in BENCH_PARTS:
            raise unknown("part of the benchmark", each, BENCH_PARTS)
    return parts


def _numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(each) for each in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1 or max(numbers) > 100 or list(numbers) != sorted(set(numbers)):
        raise UserError(f"--tasks {text!r} must be rising numbers from 1 to 100, separated by commas.")
    return numbers


def _fast(quick: bool, full: Config) -> Config:
    """The config of the fast recipe, or of its smallest encoder, on the same device."""
    from dytox import recipes

    values = {"runtime": full.runtime.model_dump()}
    small = {"data": {"image_size": 8}, "model": {"encoder": "conv-tiny"}} if quick else {}
    return recipes.compose("cifar100-10-fast", values={**values, **small})


def _configs(quick: bool, compiled: bool, device: str) -> tuple[Config, Config]:
    """The configs of the full-size CIFAR model and of the short run, or of tiny ones."""
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
