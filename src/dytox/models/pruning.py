"""Taking inner channels out of residual blocks: out of a first convolution, its BatchNorm and the second one.

The sums of blocks and shortcuts keep all channels, so every stage, and the features, keep their width.
Channel masks learn which channels a network needs (HAT, Serrà et al. 2018; DER, Yan et al. 2021).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dytox.models.resnet import Block

STEEPEST = 50.0  # of s·e in the compensation, as HAT has it: beyond, cosh leaves the range of float32
FURTHEST = 6.0  # of e, as HAT has it: beyond, a channel could hardly come back


def steepness(step: int, steps: int, steepest: float) -> float:
    """s of a step of an epoch: from 1 / s_max at its first to s_max at its last, in equal parts."""
    done = step / (steps - 1) if steps > 1 else 1.0
    return 1 / steepest + (steepest - 1 / steepest) * done


def compensation(e: Tensor, s: float) -> Tensor:
    """σ'(e) / (s σ'(se)) = (cosh(se) + 1) / (s (cosh(e) + 1)): what steep masks take from a gradient."""
    return ((s * e).clamp(-STEEPEST, STEEPEST).cosh() + 1) / (s * (e.cosh() + 1))


class ChannelMask(nn.Module):
    """m = σ(s·e), a factor a channel; in eval mode 1 or 0."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.e = nn.Parameter(torch.randn(channels))  # as HAT's: half of the channels open
        self.s = 1.0  # set before each step

    def forward(self) -> Tensor:
        """The factors, (channels,)."""
        if self.training:
            z = self.s * self.e
            return torch.where(z > 0, 1 - (-z).sigmoid(), z.sigmoid())  # σ(z): 1 - σ keeps its last digits
        return self.kept().to(self.e)

    def kept(self) -> Tensor:
        """Which channels stay, (channels,): where σ(s_max·e) is above one half; the strongest if none is."""
        return (self.e > 0) | (torch.arange(len(self.e), device=self.e.device) == self.e.argmax())

    @torch.no_grad()
    def compensate(self) -> None:
        """Gives the gradient back what the steepness took."""
        if self.e.grad is not None:
            self.e.grad *= compensation(self.e, self.s)

    @torch.no_grad()
    def clamp(self) -> None:
        """Keeps e within reach."""
        self.e.clamp_(-FURTHEST, FURTHEST)


class MaskedNorm(nn.Module):
    """A BatchNorm and then a mask, which it could not shift away from zero; relu(m·x) = m·relu(x)."""

    def __init__(self, norm: nn.Module, mask: ChannelMask) -> None:
        super().__init__()
        self.norm, self.mask = norm, mask

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width), and the same out."""
        return self.norm(x) * self.mask()[:, None, None]


def blocks(network: nn.Module) -> list[Block]:
    """Its residual blocks, first to last."""
    return [module for module in network.modules() if isinstance(module, Block)]


def widths(network: nn.Module) -> list[int]:
    """The inner channels of each block."""
    return [block.conv1.out_channels for block in blocks(network)]


def mask(network: nn.Module) -> None:
    """A mask for the inner channels of each block."""
    for block in blocks(network):
        gates = ChannelMask(block.conv1.out_channels)
        block.bn1 = MaskedNorm(block.bn1, gates)  # type: ignore[assignment]  # in the place of a norm


def masks(network: nn.Module) -> list[ChannelMask]:
    """The masks of its blocks; none where it has none any more."""
    return [module for module in network.modules() if isinstance(module, ChannelMask)]


def masked_layers(network: nn.Module) -> list[tuple[int, Tensor, Tensor]]:
    """Kernel and the masks of inputs and outputs of every convolution beside a mask."""
    layers = []
    for block, each in zip(blocks(network), masks(network), strict=True):
        inner, kernel = each(), block.conv1.kernel_size[0]
        before, after = inner.new_ones(block.conv1.in_channels), inner.new_ones(block.conv2.out_channels)
        layers += [(kernel, before, inner), (kernel, inner, after)]
    return layers


def prune_masked(network: nn.Module) -> None:
    """Takes out the channels that the masks close, and the masks."""
    for block in blocks(network):
        masked = block.bn1
        assert isinstance(masked, MaskedNorm)
        block.bn1 = masked.norm  # type: ignore[assignment]  # the norm again
        keep(block, masked.mask.kept().nonzero().flatten().tolist())


def prune_weak(network: nn.Module) -> None:
    """Takes out, of each layer, the filters whose L1 norm is below the layer's mean: no number to choose."""
    for block in blocks(network):
        norms = block.conv1.weight.detach().abs().sum(dim=(1, 2, 3))
        keep(block, (norms >= norms.mean()).nonzero().flatten().tolist())


def shrink(network: nn.Module, to: Sequence[int]) -> None:
    """To so many inner channels in each block, whichever: the weights are loaded afterwards."""
    found = widths(network)
    if len(to) != len(found) or not all(0 < few <= many for few, many in zip(to, found, strict=True)):
        raise ValueError("its pruned channels do not fit its network")
    for block, few, many in zip(blocks(network), to, found, strict=True):
        if few < many:
            keep(block, range(few))


@torch.no_grad()
def keep(block: Block, channels: Sequence[int]) -> None:
    """Only these of its inner channels."""
    places = torch.tensor(list(channels), device=block.conv1.weight.device)
    norm = block.bn1
    block.conv1.weight = nn.Parameter(block.conv1.weight[places])
    block.conv2.weight = nn.Parameter(block.conv2.weight[:, places])
    norm.weight, norm.bias = nn.Parameter(norm.weight[places]), nn.Parameter(norm.bias[places])
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.running_mean, norm.running_var = norm.running_mean[places], norm.running_var[places]
    block.conv1.out_channels = block.conv2.in_channels = norm.num_features = len(places)


@torch.no_grad()
def inherit(network: nn.Module, older: nn.Module) -> None:
    """Starts from another's weights; of a pruned one's channels, whose order is no matter, the first."""
    found = older.state_dict()
    for name, tensor in network.state_dict().items():
        tensor[tuple(slice(size) for size in found[name].shape)] = found[name]
