"""The UCI digits, which ship with the package (`digits.LICENSE.md` says whose they are)."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
import torch

from dytox.config import DataConfig
from dytox.data.samples import Samples


def load(config: DataConfig) -> tuple[Samples, None, tuple[str, ...]]:
    """All 1,797 images of 8x8 pixels, with no test set of their own, and the names of the ten classes."""
    resource = files("dytox.data") / "digits.npz"
    with as_file(resource) as path, np.load(path, allow_pickle=False) as arrays:
        levels = torch.from_numpy(arrays["images"])  # (1797, 8, 8), 0 to 16
        labels = torch.from_numpy(arrays["labels"]).long()
    grey = (levels.double() * 255 / 16).round().to(torch.uint8)
    images = grey.unsqueeze(1).repeat(1, 3, 1, 1)  # (1797, 3, 8, 8)
    return Samples(images, labels), None, tuple(str(digit) for digit in range(10))
