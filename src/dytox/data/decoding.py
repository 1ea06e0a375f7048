"""Decoding of image files, batch by batch, in worker processes that work ahead.

A worker opens the file, decodes it at the smallest sufficient size and resizes the requested window;
everything else is done for the whole batch on the device. A request holds all random numbers, so the pixels
do not depend on which worker decodes an image, or when.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from dytox.data import images
from dytox.data.augment import windows
from dytox.data.encoded import Encoded, file_name, read_encoded
from dytox.errors import UserError
from dytox.machine import cores

Pixels: TypeAlias = Generator[Tensor, None, None]  # of one batch after the other, uint8 (n, 3, size, size)

CHUNK = 16  # images that a worker decodes at a time


@dataclass(frozen=True)
class Request:
    """Images to decode: random windows by the numbers in `crops` (n, attempts, 4), or else the middle."""

    encoded: Encoded
    crops: Tensor | None = None
    area: Sequence[float] = (1.0, 1.0)

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, part: slice) -> Request:
        crops = None if self.crops is None else self.crops[part]
        return replace(self, encoded=self.encoded[part], crops=crops)

    def split(self) -> list[Chunk]:
        """Chunks of `CHUNK` images, which can be sent to a worker."""
        return [self[start : start + CHUNK].whole() for start in range(0, len(self), CHUNK)]

    def whole(self) -> Chunk:
        """The request as one chunk."""
        return Chunk(
            sources=[each if isinstance(each, str) else read_encoded(each) for each in self.encoded.sources],
            names=[file_name(each) for each in self.encoded.sources],
            size=self.encoded.size,
            resize=self.encoded.resize,
            crops=None if self.crops is None else self.crops.contiguous().numpy(),
            area=self.area,
        )


@dataclass(frozen=True)
class Chunk:
    """Some images of a request, with everything that a worker needs."""

    sources: list[str | bytes]
    names: list[str]
    size: int
    resize: int
    crops: NDArray[np.float64] | None
    area: Sequence[float]


class Decoder:
    """Decodes requests in `workers` processes, or in threads of this process if there are none.

    The workers live until the decoder is closed or garbage-collected.
    """

    def __init__(self, workers: int, batch: int) -> None:
        """Decode about `batch` images ahead; there is at most one worker a core."""
        workers = min(workers, cores())
        self._chunks = _Chunks()
        self._last: Pixels | None = None
        self._loader: DataLoader[bytearray | UserError] | None = None
        if workers:
            self._loader = DataLoader(
                _Decoding(),
                batch_size=None,
                sampler=self._chunks,
                collate_fn=_as_it_is,
                num_workers=workers,
                prefetch_factor=max(2, -(-batch // (CHUNK * workers))),
                persistent_workers=True,
                worker_init_fn=_leave_interrupts_to_the_main_process,
                generator=torch.Generator(),  # else the loader draws from the global generator
            )

    def close(self) -> None:
        """End the last stream and the workers."""
        if self._last is not None:
            self._last.close()
        self._loader = self._last = None

    def stream(self, requests: Iterable[Request]) -> Pixels:
        """The pixels (n, 3, size, size) of each request in order; requests are consumed when needed."""
        decode = self._in_threads if self._loader is None else self._in_processes
        self._last = decode(requests)
        return self._last

    def _in_threads(self, requests: Iterable[Request]) -> Pixels:
        for request in requests:
            # One pool per request: the pool of an abandoned stream would be shut down by the garbage
            # collector, possibly while another thread starts, and both would wait for ever.
            with images.quiet(), ThreadPoolExecutor(min(8, cores())) as pool:
                parts = list(pool.map(decode_chunk, request.split()))
            yield torch.cat(parts)

    def _in_processes(self, requests: Iterable[Request]) -> Pixels:
        assert self._loader is not None
        waiting: deque[tuple[int, int]] = deque()  # chunks and image size of each request under way

        def chunks() -> Iterator[Chunk]:
            for request in requests:
                parts = request.split()
                waiting.append((len(parts), request.encoded.size))
                yield from parts

        self._chunks.source = mine = chunks()
        parts: list[Tensor] = []
        try:
            for part in self._loader:
                if isinstance(part, UserError):
                    raise UserError(str(part))  # a new one: this frame and its traceback would be a cycle
                parts.append(torch.frombuffer(part, dtype=torch.uint8))
                if len(parts) == waiting[0][0]:
                    _, size = waiting.popleft()
                    yield torch.cat(parts).view(-1, 3, size, size)
                    parts = []
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise UserError(
                "A process that decodes images has died, probably because memory ran out: give it more, or "
                "set runtime.workers=0."
            ) from error
        except OSError as error:
            raise UserError(
                f"Processes that decode images cannot be started ({error.strerror}): set runtime.workers=0."
            ) from error
        finally:
            if self._chunks.source is mine:
                self._chunks.source = iter(
                    ()
                )  # breaks a reference cycle, so that workers end with their decoder


class _Decoding(Dataset[bytearray | UserError]):
    """The work of a worker, as a dataset for torch's loader; an error is a result like any other.

    The result is bytes, which come through a pipe. A tensor would come through shared memory, of which a
    container has 64 MB by default; where that is full, torch waits for ever.
    """

    def __getitem__(self, chunk: Chunk) -> bytearray | UserError:
        try:
            with images.quiet():
                return bytearray(decode_chunk(chunk).numpy())
        except UserError as error:
            return error


class _Chunks(Sampler[Chunk]):
    """Gives the chunks of the present stream to torch's loader."""

    def __init__(self) -> None:
        self.source: Iterator[Chunk] = iter(())

    def __iter__(self) -> Iterator[Chunk]:
        return self.source


def decode_chunk(chunk: Chunk) -> Tensor:
    """Decode a chunk into (n, 3, size, size)."""
    decoded = torch.empty((len(chunk.sources), 3, chunk.size, chunk.size), dtype=torch.uint8)
    window = images.centre(chunk.size, chunk.resize)
    for place, (source, name) in enumerate(zip(chunk.sources, chunk.names, strict=True)):
        if chunk.crops is not None:
            window = _random(torch.from_numpy(chunk.crops[place]), chunk.area)
        decoded[place] = images.decode_aloud(source, chunk.size, window, name=name)
    return decoded


def in_parts(wanted: Tensor | Request, parts: Sequence[slice], workers: int) -> Pixels:
    """The pixels of each part of the images, one after the other."""
    if isinstance(wanted, Tensor):
        return (wanted[part] for part in parts)
    largest = max((len(range(len(wanted))[part]) for part in parts), default=0)
    return Decoder(min(workers, len(wanted) // CHUNK), largest).stream(wanted[part] for part in parts)


def pixels(encoded: Encoded) -> Tensor:
    """Decode all images in this process, at once."""
    if not len(encoded):
        return torch.empty((0, 3, encoded.size, encoded.size), dtype=torch.uint8)
    return next(Decoder(0, len(encoded)).stream([Request(encoded)]))


def _random(crops: Tensor, area: Sequence[float]) -> images.Window:
    def window(width: int, height: int) -> images.Box:
        top, left, h, w = map(int, windows(crops[None], height, width, area=area)[0].tolist())
        return left, top, left + w, top + h

    return window


def _as_it_is(part: Any) -> Any:
    return part


def _leave_interrupts_to_the_main_process(worker: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
