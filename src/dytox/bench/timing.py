"""How functions are timed, and how many operations the model needs, counted.

Functions are timed in turn, so that whatever disturbs the machine disturbs all of them alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from dytox.config import Config

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Settings:
    """Which numbers of tasks are measured, with which batch, how often and where."""

    tasks: tuple[int, ...] = (1, 10, 20, 50)
    batch: int = 64
    repeats: int = 5
    device: torch.device = CPU


@dataclass(frozen=True)
class Timing:
    """The median of repeated measurements in seconds, with the lower and the upper quartile."""

    median: float
    low: float
    high: float
    repeats: int

    @staticmethod
    def of(seconds: list[float]) -> Timing:
        """Summarise a list of times in seconds."""
        low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
        return Timing(median, low, high, len(seconds))

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        return (self.high - self.low) / 2 / self.median

    def rate(self, count: int) -> dict[str, Any]:
        """Return the timing as a dictionary, with the rate per second of `count` things each time."""
        return {"per_second": count / self.median, "spread": self.spread, **asdict(self)}


def interleaved(
    functions: Mapping[str, Callable[[], object]], repeats: int, device: torch.device
) -> dict[str, Timing]:
    """Call each function once to warm up, then time all of them in turn, `repeats` times (at least twice)."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(max(2, repeats)):
        for name, function in functions.items():
            wait(device)
            began = time.perf_counter()
            function()
            wait(device)
            times[name].append(time.perf_counter() - began)
    return {name: Timing.of(seconds) for name, seconds in times.items()}


def wait(device: torch.device) -> None:
    """Wait until the device has finished all of its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def peak_memory(function: Callable[[], object], device: torch.device) -> int:
    """Return the most bytes that one call allocates beyond what was allocated before."""
    if device.type == "cuda":
        wait(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        function()
        wait(device)
        return torch.cuda.max_memory_allocated(device) - before
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        function()
    assert profiler.profiler is not None
    assert profiler.profiler.kineto_results is not None
    events = [each for each in profiler.profiler.kineto_results.events() if each.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def patches(config: Config) -> int:
    """Return N, the number of patch tokens of an image."""
    assert config.data.image_size is not None
    return (config.data.image_size // config.model.patch_size) ** 2


def shapes(config: Config, batch: int) -> list[tuple[int, int, int]]:
    """Return (rows, inputs, outputs) of a SAB's linear layers: queries and keys, values, projection, MLP."""
    rows, dim = batch * patches(config), config.model.dim
    hidden = int(dim * config.model.mlp_ratio)
    return [
        (rows, dim, 2 * dim),
        (rows, dim, dim),
        (rows, dim, dim),
        (rows, dim, hidden),
        (rows, hidden, dim),
    ]


def peak(
    config: Config, batch: int, device: torch.device, dtype: torch.dtype
) -> tuple[Callable[[], None], float]:
    """Return a function that computes the matrix products of one SAB, and the number of their operations."""
    factors = [
        (
            torch.randn(rows, inner, device=device, dtype=dtype),
            torch.randn(inner, outer, device=device, dtype=dtype),
        )
        for rows, inner, outer in shapes(config, batch)
    ]
    results = [left @ right for left, right in factors]

    def multiply() -> None:
        for (left, right), result in zip(factors, results, strict=True):
            torch.mm(left, right, out=result)

    return multiply, float(sum(2 * rows * inner * outer for rows, inner, outer in shapes(config, batch)))


def operations(config: Config, tasks: int, classes: int = 100) -> float:
    """Return the floating-point operations of a forward pass for one image, matrix products only."""
    return sum(by_part(config, tasks, classes))


def by_part(config: Config, tasks: int, classes: int = 100) -> tuple[float, float, float]:
    """Return the operations of the tokenizer, of the SABs, and of TAB and heads.

    A SAB's linear layers are (4 + 2 r) N d² for the MLP's ratio r, its attentions 3 N² d; the TAB's keys and
    values 2 N d²; a task adds (1 + 2 r) d² + 2 N d, and a class d in its head.
    """
    n, d, ratio, depth = patches(config), config.model.dim, config.model.mlp_ratio, config.model.depth
    tokenizer = n * 3 * config.model.patch_size**2 * d
    encoder = depth * ((4 + 2 * ratio) * n * d**2 + 3 * n**2 * d)
    decoder = 2 * n * d**2 + tasks * ((1 + 2 * ratio) * d**2 + 2 * n * d)
    return 2.0 * tokenizer, 2.0 * encoder, 2.0 * (decoder + classes * d)
