"""Runs tiny benchmarks in one process of several; used by test_processes.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

HERE = str(Path(__file__).parent)


def main(rank: int, size: int, port: int, variants: dict[str, list[str]], folder: str) -> None:
    """All variants, one after the other, in a world of `size`."""
    sys.path.insert(0, HERE)
    address = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in address.items()}, MASTER_ADDR="127.0.0.1")
    import torch

    from dytox.engine.distributed import connected
    from dytox.errors import UserError
    from dytox.experiments.train import Watcher, train
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
