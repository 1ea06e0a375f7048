"""Mixed precision: weights and optimiser in fp32, matrix products in bf16 or fp16."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from dytox.engine.method import Method

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(method: Method) -> torch.autocast:
    """A context in which matrix products run in the precision of the method's config."""
    precision = method.config.runtime.precision
    return torch.autocast(method.device.type, HALF.get(precision), enabled=precision in HALF)


class Scaler:
    """Loss scaling for fp16; it does nothing for the other precisions."""

    def __init__(self, method: Method) -> None:
        self.scaler = torch.amp.GradScaler(
            method.device.type, enabled=method.config.runtime.precision == "fp16"
        )

    def scale(self, loss: Tensor) -> Tensor:
        """The scaled loss, on which `backward` is called."""
        return self.scaler.scale(loss)

    def unscale_between(self, parameters: Iterable[nn.Parameter]) -> None:
        """Unscale gradients in place between the two passes of a sharpness-aware step."""
        scale = self.scaler.get_scale()
        if scale != 1.0:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad.div_(scale)

    def unscale(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """Unscale the gradients in place, before anything else reads them."""
        for optimizer in optimizers:
            self.scaler.unscale_(optimizer)

    def step(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """Make the step of each optimiser, unless fp16 overflowed."""
        for optimizer in optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()

    def state(self) -> dict[str, Tensor]:
        """The scale and the number of steps since it last changed, as tensors."""
        return {name: torch.tensor(value) for name, value in self.scaler.state_dict().items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""
        if state:
            self.scaler.load_state_dict({name: value.item() for name, value in state.items()})
