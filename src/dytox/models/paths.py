"""A network of levels with parallel modules, through which paths lead (RPSNet, Rajasegaran et al. 2019)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from dytox.models.base import Constant, ContinualModel, Output, outputs_of
from dytox.models.batchnorm import BatchNorm2d
from dytox.models.linear_heads import LinearHead

POOLED = (5, 7)  # levels whose map is halved
POOLED_LARGE = (3, 5, 7)  # with the stem for large images


def _convolution(inputs: int, outputs: int, *, size: int = 3, stride: int = 1) -> list[nn.Module]:
    """With a bias, as in the authors' code and the published counts, which is not trained.

    BatchNorm follows and takes it away again: its gradient is rounding, which Adam would turn into drift.
    """
    layer = nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2)
    assert layer.bias is not None
    layer.bias = Constant(layer.bias.detach())
    return [layer, BatchNorm2d(outputs)]


class Level(nn.Module):
    """y = relu(Σ modules(x) + shortcut(x)), over all modules that any path of the network uses."""

    def __init__(self, inputs: int, outputs: int, *, large_stem: bool = False, pooled: bool = False) -> None:
        super().__init__()
        self.inputs, self.outputs, self.large_stem, self.pooled = inputs, outputs, large_stem, pooled
        self.used = nn.ModuleDict()
        wider = inputs != outputs and inputs != 3
        self.shortcut = nn.Sequential(*_convolution(inputs, outputs), nn.ReLU()) if wider else None

    def add(self, place: int) -> None:
        """A new module at this place."""
        if self.inputs == 3:
            size, stride = (7, 2) if self.large_stem else (3, 1)
            layers = [*_convolution(3, self.outputs, size=size, stride=stride), nn.ReLU()]
        else:
            first = _convolution(self.inputs, self.outputs)
            layers = [*first, nn.ReLU(), *_convolution(self.outputs, self.outputs)]
        self.used[str(place)] = nn.Sequential(*layers)

    def free(self, places: int) -> list[int]:
        """The places that no path uses yet; one more than there are, if all are used."""
        return [each for each in range(places) if str(each) not in self.used] or [len(self.used)]

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width), with the level's channels out."""
        y = torch.stack([module(x) for module in self.used.values()]).sum(dim=0)
        if self.shortcut is not None:
            y = y + self.shortcut(x)
        elif self.inputs == self.outputs:
            y = y + x
        return max_pool2d(relu(y), 2) if self.pooled else relu(y)


class PathNet(ContinualModel):
    """Nine levels of parallel modules; a path is one module a level, and all paths so far are used together.

    Every `tasks_per_path` tasks a new path is drawn among the `places` of each level that are still free; a
    level without a free place gets another one. Only modules of a path are there: others would be idle.
    """

    def __init__(self, width: int, *, places: int, tasks_per_path: int, large_stem: bool = False) -> None:
        super().__init__()
        self.places, self.tasks_per_path, self.dim = places, tasks_per_path, 8 * width
        pooled = POOLED_LARGE if large_stem else POOLED
        channels = [3, width, width, width, *(factor * width for factor in (2, 2, 4, 4, 8, 8))]
        self.levels = nn.ModuleList(
            Level(inputs, outputs, large_stem=large_stem, pooled=number in pooled)
            for number, (inputs, outputs) in enumerate(pairwise(channels), start=1)
        )
        self.head = LinearHead(self.dim)
        self.paths: list[list[int]] = []  # the place of its module in each level
        self.tasks_on_path = 0  # that the last path has learned
        self._add_path([0] * len(self.levels))

    def _add_path(self, path: list[int]) -> None:
        for level, place in zip(self._levels(), path, strict=True):
            level.add(place)
        self.paths.append(path)
        self.tasks_on_path = 0

    def _levels(self) -> list[Level]:
        return list(self.levels)  # type: ignore[arg-type]  # a ModuleList of Levels

    @property
    def tasks(self) -> int:
        """How many it has learned, or is learning."""
        return (len(self.paths) - 1) * self.tasks_per_path + self.tasks_on_path

    def grow(self, classes: int) -> None:
        """Add rows to the head and, if the last path has had its tasks, a new path."""
        if self.tasks_on_path == self.tasks_per_path:
            free = [level.free(self.places) for level in self._levels()]
            self._add_path([each[int(torch.randint(len(each), (), device="cpu"))] for each in free])
        self.tasks_on_path += 1
        self.head.expand(classes)

    def newest(self) -> Iterable[nn.Module]:
        """The last path, the shortcuts and the head; earlier paths are left as they are."""
        for level, place in zip(self._levels(), self.paths[-1], strict=True):
            yield level.used[str(place)]
            if level.shortcut is not None:
                yield level.shortcut
        yield self.head

    def erase(self, outputs: Collection[int]) -> None:
        """The paths stay, as all classes use all of them."""
        self.head.forget(outputs)

    def block_weights(self, block: int) -> Iterable[Tensor]:
        return self.head.tasks[block].parameters()

    def forward(self, images: Tensor, draws: Mapping[str, Tensor] | None = None) -> Output:
        """Images (batch, 3, height, width) as an output; `draws` are for networks that have any."""
        x = images
        for level in self.levels:
            x = level(x)
        features = x.mean(dim=(2, 3))
        return Output(self.select(self.head(features)), features[:, None])

    def structure(self) -> dict[str, Any]:
        """The tasks and the paths."""
        paths = [list(path) for path in self.paths]
        return {**super().structure(), "paths": paths, "tasks_on_path": self.tasks_on_path}

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        like = next(self.parameters())
        paths, on_last = structure["paths"], structure["tasks_on_path"]
        numbers = all(type(each) is int and each >= 0 for each in (on_last, *chain(*paths)))
        long = all(len(path) == len(self.levels) for path in paths)
        apart = all(len({*places}) == len(paths) for places in zip(*paths, strict=False))
        if not (numbers and long and apart and paths[:1] == self.paths and on_last <= self.tasks_per_path):
            raise ValueError("its paths do not fit its network")
        for path in paths[1:]:
            self._add_path(list(path))
        self.tasks_on_path = on_last
        for classes in outputs_of(structure):
            self.head.expand(classes)
        self.restore_tasks(structure)
        self.to(device=like.device, dtype=like.dtype)
