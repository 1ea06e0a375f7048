"""Times of several functions, taken in turn so that whatever disturbs the machine disturbs all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Timing:
    """Seconds: the median of so many repetitions, and the quarters below and above it."""

    median: float
    low: float
    high: float
    repeats: int

    @staticmethod
    def of(seconds: list[float]) -> Timing:
        """What a list of times comes to."""
        low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
        return Timing(median, low, high, len(seconds))

    @property
    def spread(self) -> float:
        """Half the distance of the quarters, as a share of the median."""
        return (self.high - self.low) / 2 / self.median

    def rate(self, count: int) -> dict[str, Any]:
        """The timing with how many of something it makes a second, and its spread."""
        return {"per_second": count / self.median, "spread": self.spread, **asdict(self)}


def interleaved(
    functions: Mapping[str, Callable[[], object]], repeats: int, device: torch.device
) -> dict[str, Timing]:
    """Each function called once to warm up, then all of them in turn, `repeats` times (at least twice)."""
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
    """Until a GPU has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def peak_memory(function: Callable[[], object], device: torch.device) -> int:
    """The most bytes that one call holds beyond what was held before it."""
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
