"""The UCI digits, which are part of the package (see `digits.LICENSE.md` for their source)."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
import torch

from dytox.config import DataConfig
from dytox.data.samples import Samples


def load(config: DataConfig) -> tuple[Samples, None, tuple[str, ...]]:
    """Load the 1,797 images of 8x8 pixels and the names of the ten classes; there is no test set."""
    resource = files("dytox.data") / "digits.npz"
    with as_file(resource) as path, np.load(path, allow_pickle=False) as arrays:
        levels = torch.from_numpy(arrays["images"])  # (1797, 8, 8), 0 to 16
        labels = torch.from_numpy(arrays["labels"]).long()
    grey = (levels.double() * 255 / 16).round().to(torch.uint8)
    images = grey.unsqueeze(1).repeat(1, 3, 1, 1)  # (1797, 3, 8, 8)
    return Samples(images, labels), None, tuple(str(digit) for digit in range(10))
