"""Runs tiny benchmarks in several processes, forked from one that has imported all they need."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import socket
import sys
from pathlib import Path

import torch.multiprocessing as mp

HERE = str(Path(__file__).parent)
NEEDED = ["torch", "torch._dynamo", "dytox.experiments.train", "dytox.recipes"]  # seconds to import


def start(size: int, variants: dict[str, list[str]], folder: Path) -> mp.ProcessContext:
    """A world of `size` that runs all variants; `join` it."""
    multiprocessing.set_forkserver_preload(NEEDED)
    arguments = (size, free_port(), variants, str(folder))
    return mp.start_processes(main, args=arguments, nprocs=size, join=False, start_method="forkserver")


def free_port() -> int:
    """Below those that connections get by themselves: nothing else takes it before it is used."""
    for port in random.SystemRandom().sample(range(15000, 32000), 100):
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")


def main(rank: int, size: int, port: int, variants: dict[str, list[str]], folder: str) -> None:
    """All variants, one after the other, in a world of `size`."""
    sys.path.insert(0, HERE)
    address = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in address.items()}, MASTER_ADDR="127.0.0.1")
    import torch

    from dytox.engine.distributed import connected
    from dytox.errors import UserError
    from dytox.experiments.train import train
    from dytox.experiments.watchers import Watcher
    from dytox.recipes import compose

    torch.set_num_threads(1)
    with connected() as world:
        for name, overrides in variants.items():
            method = next((each[9:] for each in overrides if each.startswith("--method=")), "dytox")
            options = [each for each in overrides if not each.startswith("--")]
            out = Path(folder) / name
            try:
                train(compose("digits", method=method, overrides=options), out, Watcher(), world)
            except UserError as error:
                if world.main:
                    out.with_suffix(".error").write_text(json.dumps(str(error)))
