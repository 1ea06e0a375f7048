"""What every encoder and every network of the package gives and takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from dytox.errors import UserError

MOST_OUTPUTS = 1_000_000  # of a network, forgotten ones included


class Constant(nn.Parameter):
    """A parameter that is loaded, saved and counted, and that no phase trains."""

    def __new__(cls, data: Tensor, requires_grad: bool = False) -> Constant:
        return super().__new__(cls, data, False)


class Encoding(NamedTuple):
    """What an encoder makes of a batch of images."""

    tokens: Tensor  # (batch, tokens, dim)
    maps: tuple[Tensor, ...] = ()  # (batch, channels, height, width) of each stage, if it is convolutional
    summary: Tensor | None = None  # (batch, dim), if the encoder has its own, such as a ViT's class token

    @staticmethod
    def of_maps(maps: Sequence[Tensor]) -> Encoding:
        """The encoding of a convolutional encoder: each place of the last map is a token."""
        return Encoding(maps[-1].flatten(2).transpose(1, 2), tuple(maps))

    @property
    def features(self) -> Tensor:
        """One vector for each image, (batch, dim): the summary, or else the mean over all places."""
        if self.summary is not None:
            return self.summary
        return self.maps[-1].mean(dim=(2, 3)) if self.maps else self.tokens.mean(dim=1)


class Encoder(nn.Module):
    """From normalised images (batch, 3, height, width) to an `Encoding`.

    `forward(images, keep)`: DropPath's `keep` is (batch, depth, 2), one number for each branch of each of
    the `depth` blocks; encoders without such blocks ignore it.
    """

    dim: int  # the length of a token
    depth = 0  # blocks whose branches DropPath may drop
    frozen = False
    side: int | None = None  # images are brought to this side first; None: taken as they are

    def __call__(self, images: Tensor, keep: Tensor | None = None) -> Encoding:
        """The encoding of images; tokens (batch, tokens, dim), encoded before, are taken as they are."""
        if images.ndim == 3:
            return Encoding(images)
        if self.side is not None and images.shape[-1] != self.side:
            images = interpolate(images, size=(self.side, self.side), mode="bicubic")
        found: Encoding = super().__call__(images, keep)
        return found

    def freeze(self) -> None:
        """From now on no phase trains it, and it is always in eval mode."""
        self.frozen = True
        constants: dict[int, Constant] = {}  # a parameter shared by two modules stays shared
        for part in self.modules():
            for name, parameter in list(part.named_parameters(recurse=False)):
                constants.setdefault(id(parameter), Constant(parameter.detach()))
                setattr(part, name, constants[id(parameter)])
        self.eval()

    def train(self, mode: bool = True) -> Encoder:
        """As torch's, but a frozen encoder stays in eval mode."""
        super().train(mode and not self.frozen)
        return self


@dataclass(frozen=True)
class Output:
    """The result of one forward pass of a network."""

    logits: Tensor  # (batch, classes)
    embeddings: Tensor  # (batch, tasks, dim): what the heads see, and what herding selects by
    divergence: Tensor | None = None  # (batch, 1 + new classes), while there is a divergence head
    maps: tuple[Tensor, ...] = ()  # (batch, channels, height, width) at the end of each convolutional stage

    def ordinary(self) -> Output:
        """A copy of an output computed in inference mode, which autograd accepts."""
        divergence = None if self.divergence is None else self.divergence.clone()
        maps = tuple(each.clone() for each in self.maps)
        return Output(self.logits.clone(), self.embeddings.clone(), divergence, maps)


class ContinualModel(nn.Module):
    """A network that grows by one task at a time, and that can forget classes.

    A subclass implements `forward` and `grow`, and `erase` if it can forget. Forgetting a class sets its
    weights to zero and takes its place out of the index of live outputs. Shapes are kept because products of
    another shape would round differently; this way the other logits do not change at all.
    """

    live: Tensor  # the places of the live classes among all outputs; empty if all outputs are live

    def __init__(self) -> None:
        super().__init__()
        self.increments: list[int] = []  # live classes of each task; a task without any is left out
        self.sizes: list[int] = []  # outputs of each expansion, those of forgotten classes included
        self.forgotten: list[int] = []  # places of forgotten classes among all outputs
        self.register_buffer("live", torch.empty(0, dtype=torch.int64), persistent=False)

    # What a subclass implements

    def grow(self, classes: int) -> None:
        """Add what a task of `classes` new classes needs."""
        raise TypeError(f"{type(self).__name__} cannot grow")

    def erase(self, outputs: Collection[int]) -> None:
        """Set the weights of these outputs to zero; `outputs` are all those forgotten so far."""
        raise UserError(f"The network {type(self).__name__} cannot forget a class.")

    def newest(self) -> Iterable[nn.Module | nn.Parameter]:
        """The parts that a new task trains: all but what belongs to older tasks alone."""
        return [self]

    def block_weights(self, block: int) -> Iterable[Tensor]:
        """The weights that only the classes of one expansion use."""
        return []

    def encoder_parts(self) -> list[nn.Module]:
        """The parts that turn images into features."""
        return []

    def put_encoder(self, encoder: Encoder) -> None:
        """Replace the encoder by a user's own module."""
        raise UserError(f"The network {type(self).__name__} has no place for an encoder of your own.")

    def has_frozen_encoder(self) -> bool:
        """Whether the network has one encoder, which is pretrained and never learns."""
        parts = self.encoder_parts()
        return len(parts) == 1 and isinstance(parts[0], Encoder) and parts[0].frozen

    def encode(self, images: Tensor) -> Tensor:
        """The output of the encoder, (batch, tokens, dim), which `forward` takes in the place of images."""
        raise TypeError(f"{type(self).__name__} has no encoder whose output could be cached")

    def draw(self, generator: torch.Generator, batch: int) -> dict[str, Tensor]:
        """The random numbers of a training pass; the first dimension of each tensor is the batch."""
        return {}

    def constant_parts(self) -> list[nn.Module]:
        """The parts that no task changes: they are compiled once."""
        return []

    # What it knows about its classes

    @property
    def classes(self) -> int:
        """The number of live classes."""
        return sum(self.increments)

    @property
    def old(self) -> int:
        """The number of live classes of all tasks but the last."""
        return sum(self.increments[:-1])

    def select(self, outputs: Tensor, dim: int = 1) -> Tensor:
        """Those of all outputs that are live, along a dimension."""
        return outputs.index_select(dim, self.live) if len(self.live) else outputs

    def expand(self, classes: int) -> None:
        """Add a task of `classes` new classes; no old logit changes."""
        like = next(self.parameters(), torch.empty(0))
        self.grow(classes)
        self.sizes.append(classes)
        self.increments.append(classes)
        self._index()
        self.to(device=like.device, dtype=like.dtype)

    def forget(self, places: Collection[int]) -> None:
        """Forget classes, by their places among the live ones; the other logits do not change."""
        live, ends = self._live(), list(accumulate(self.increments))
        left = [
            size - sum(end - size <= place < end for place in {*places})
            for end, size in zip(ends, self.increments, strict=True)
        ]
        forgotten = sorted({*self.forgotten, *(live[place] for place in places)})
        self.erase(forgotten)
        self.forgotten = forgotten
        self.increments = [size for size in left if size]
        self._index()

    def own_weights(self, task: int) -> list[Tensor]:
        """The weights that only the classes of this task use; none if tasks have no weights of their own."""
        filled = [block for block, rows in enumerate(self.live_rows()) if rows]
        return list(self.block_weights(filled[task])) if len(filled) == len(self.increments) else []

    def live_rows(self) -> list[list[int]]:
        """The live outputs of each expansion, counted from its first."""
        gone, firsts = {*self.forgotten}, [0, *accumulate(self.sizes)]
        return [
            [row for row in range(size) if first + row not in gone]
            for first, size in zip(firsts, self.sizes, strict=False)
        ]

    def _live(self) -> list[int]:
        gone = {*self.forgotten}
        return [place for place in range(sum(self.sizes or self.increments)) if place not in gone]

    def _index(self) -> None:
        live = self._live() if self.forgotten else []
        self.live = torch.tensor(live, dtype=torch.int64, device=self.live.device)

    # Saving

    def structure(self) -> dict[str, Any]:
        """What must be known to build an equal network before its weights are loaded, as JSON."""
        found: dict[str, Any] = {"increments": list(self.increments)}
        if self.sizes and self.sizes != self.increments:
            found |= {"sizes": list(self.sizes), "forgotten": list(self.forgotten)}
        return found

    def rebuild(self, structure: Mapping[str, Any]) -> None:
        """Grow a new network to this structure; its weights are loaded afterwards."""
        sizes = outputs_of(structure)
        for classes in sizes:
            self.expand(classes)
        self.restore_tasks(structure)

    def restore_tasks(self, structure: Mapping[str, Any]) -> None:
        """Take over the tasks and the forgotten classes of a structure."""
        self.sizes, self.increments = outputs_of(structure), [*structure["increments"]]
        self.forgotten = list(structure.get("forgotten", []))
        self._index()

    def count_parameters(self) -> int:
        """The number of parameters needed to predict."""
        return sum(parameter.numel() for parameter in self.parameters())


def outputs_of(structure: Mapping[str, Any]) -> list[int]:
    """The outputs of each expansion in a saved structure, refused where its parts do not fit each other."""
    increments, forgotten = list(structure["increments"]), list(structure.get("forgotten", []))
    sizes = list(structure.get("sizes", increments))
    counts = all(type(size) is int and size > 0 for size in (*increments, *sizes))
    if not counts or sum(sizes) > MOST_OUTPUTS:
        raise ValueError("its tasks are not numbers of classes")
    inside = all(type(place) is int and 0 <= place < sum(sizes) for place in forgotten)
    if not inside or forgotten != sorted({*forgotten}) or sum(sizes) - len(forgotten) != sum(increments):
        raise ValueError("its forgotten classes do not fit its tasks")
    return sizes


def zero_rows(layers: Sequence[nn.Linear], outputs: Collection[int]) -> list[int]:
    """Set these outputs of layers, counted over all of them, to zero; return the layers without any other."""
    gone, first, empty = {*outputs}, 0, []
    with torch.no_grad():
        for place, layer in enumerate(layers):
            rows = [row for row in range(layer.out_features) if first + row in gone]
            first += layer.out_features
            for weight in layer.parameters():
                weight[rows] = 0
            if len(rows) == layer.out_features:
                empty.append(place)
    return empty
