"""Copying tensors to the device without waiting."""

from __future__ import annotations

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Copy the tensor to the device; for a GPU from pinned memory and asynchronously."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, dtype, non_blocking=True)
    return tensor.to(device, dtype)
