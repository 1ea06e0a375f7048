"""The processes of a run, and how they communicate. The result does not depend on their number.

Figures (counts, flags, metrics) travel as CPU tensors over gloo, so that no step waits for a GPU; gradients
are averaged by DistributedDataParallel, over gloo or nccl.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # not in its stub

from dytox.errors import Lost

TIMEOUT = timedelta(minutes=30)
LOST = ("gloo", "nccl", "connection", "peer")  # words in the errors of torch when another process has died


@dataclass(frozen=True)
class World:
    """Process `rank` of `size`; by default the only one."""

    rank: int = 0
    size: int = 1

    @property
    def main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def rows(self, count: int) -> slice:
        """This process's rows of a training batch: whole pairs, so that MixUp's partners stay together."""
        pairs = (count + 1) // 2
        first, last = pairs * self.rank // self.size, pairs * (self.rank + 1) // self.size
        return slice(2 * first, min(2 * last, count))

    def share(self, count: int, rank: int | None = None) -> slice:
        """The part of `count` images that a process (by default this one) evaluates."""
        rank = self.rank if rank is None else rank
        return slice(count * rank // self.size, count * (rank + 1) // self.size)

    def total(self, values: Sequence[float]) -> list[float]:
        """The sum of each value over all processes."""
        return self._reduced(values, dist.ReduceOp.SUM)

    def least(self, value: float) -> float:
        """The smallest value over all processes."""
        return self._reduced([value], dist.ReduceOp.MIN)[0]

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return self.total([float(flag)])[0] > 0

    def gather(self, part: Tensor, count: int) -> Tensor:
        """Concatenate the parts of all processes, divided as by `share`: (count, …), on the CPU, in each."""
        if self.size == 1:
            return part
        shares = [self.share(count, rank) for rank in range(self.size)]
        sizes = [each.stop - each.start for each in shares]
        padded = part.new_zeros(max(sizes), *part.shape[1:])
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([each[:size] for each, size in zip(parts, sizes, strict=True)])

    def from_main(self, tensor: Tensor) -> Tensor:
        """The tensor of the main process, in every process; the others give one of the same shape."""
        if self.size > 1:
            dist.broadcast(tensor, src=0)
        return tensor

    def agree(self, text: str) -> str:
        """The text of the main process, in every process."""
        if self.size == 1:
            return text
        data = torch.zeros(4096, dtype=torch.uint8)
        encoded = text.encode()
        data[: len(encoded)] = torch.tensor(list(encoded), dtype=torch.uint8)
        return bytes(self.from_main(data).tolist()).rstrip(b"\0").decode()

    def wait(self) -> None:
        """Wait until all processes have called this."""
        if self.size > 1:
            dist.barrier()

    def parallel(self, module: nn.Module) -> Callable[..., Any]:
        """The forward pass of a module, whose gradients are averaged over the processes."""
        if self.size == 1:
            return module
        from torch.nn.parallel import DistributedDataParallel  # slow to import

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # its newer name is not in torch 2.6
            return DistributedDataParallel(module, broadcast_buffers=False)

    def _reduced(self, values: Sequence[float], operation: dist.ReduceOp.RedOpType) -> list[float]:
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, operation)
        return tensor.tolist()


@contextmanager
def connected() -> Iterator[World]:
    """Connect the processes that torchrun started; without torchrun there is one process."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World()
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    rank = int(os.environ["RANK"])
    dist.init_process_group(backend, store=_store(), rank=rank, world_size=size, timeout=TIMEOUT)
    try:
        yield World(rank, size)
    except (RuntimeError, dist.DistBackendError) as error:
        if not any(word in str(error).lower() for word in LOST):
            raise
        raise Lost("Another process of this run has died; the last checkpoint is kept.") from error
    finally:
        dist.destroy_process_group()


def _store() -> PrefixStore:
    """The store by which processes connect; after a restart it must not hold entries of those that died."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    leads = not by_agent and os.environ["RANK"] == "0"
    store = TCPStore(address, port, is_master=leads, timeout=TIMEOUT)
    return PrefixStore(f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
