"""An exponential moving average of the weights that learn."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class Average:
    """The average of weights and BatchNorm statistics over the steps of a phase.

    The decay rises to its value, as in n / (n + 9), so that the first weights are soon forgotten.
    """

    def __init__(self, method: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self.weights: list[Tensor] = [p.detach() for p in method.parameters() if p.requires_grad]
        for module in method.modules():
            if isinstance(module, _BatchNorm) and module.training and module.running_mean is not None:
                assert module.running_var is not None
                self.weights += [module.running_mean, module.running_var]
        self.means = [weight.clone() for weight in self.weights]

    @torch.no_grad()
    def add(self) -> None:
        """Take in the weights as they are now."""
        self.updates += 1
        decay = min(self.decay, self.updates / (self.updates + 9))
        for mean, weight in zip(self.means, self.weights, strict=True):
            mean.lerp_(weight, 1 - decay)

    @torch.no_grad()
    def replace_weights(self) -> None:
        """Put the averages in the place of the weights."""
        for mean, weight in zip(self.means, self.weights, strict=True):
            weight.copy_(mean)

    def state(self) -> dict[str, Tensor]:
        """The averages, and the number of updates in them."""
        means = {str(place): mean for place, mean in enumerate(self.means)}
        return {"updates": torch.tensor(self.updates), **means}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """What `state` returned; nothing at the start of a phase."""
        if state:
            self.updates = int(state["updates"])
            self.means = [state[str(place)].to(weight) for place, weight in enumerate(self.weights)]
