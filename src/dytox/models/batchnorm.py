"""BatchNorm over the global batch, on every backend."""

from __future__ import annotations

import warnings

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce


def total(values: Tensor) -> Tensor:
    """The sum over all processes, through which gradients flow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # its newer name is not in torch 2.6
        return all_reduce(values)


class BatchNorm2d(nn.BatchNorm2d):
    """As torch's, with the statistics of all processes' rows together.

    Torch's own SyncBatchNorm refuses CPUs. The sums are reduced differentiably, so the gradient is that of
    one process with the whole batch.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width), and the same out."""
        if not self.training or not dist.is_initialized() or dist.get_world_size() == 1:
            return super().forward(x)
        values = x.to(self.weight.dtype)  # half precision would not even count the pixels right
        pixels = values.new_tensor([x.numel() // x.shape[1]])
        sums = total(torch.cat([values.sum(dim=(0, 2, 3)), pixels]))
        count = sums[-1]
        mean = sums[:-1] / count
        centred = values - mean.view(1, -1, 1, 1)
        variance = total(centred.square().sum(dim=(0, 2, 3))) / count
        self._track(mean.detach(), (variance * count / (count - 1)).detach())
        scaled = centred / (variance + self.eps).sqrt().view(1, -1, 1, 1)
        return (scaled * self.weight.view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)).to(x.dtype)

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked += 1
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance, self.momentum)
