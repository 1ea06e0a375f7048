"""The training step of the fast recipes beside the bare convolutions of their encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from dytox.bench.steps import Ours, grown, some_batch, training_step
from dytox.bench.timing import Settings, interleaved
from dytox.config import Config


def of_convolutions(config: Config, settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure a training step with teacher, and the convolutions that student and teacher do in it alone."""
    say("training step of a fast recipe and bare convolutions, in turn")
    method = grown(Ours, config, 1, settings.device)
    batch = some_batch(method, settings.batch)
    bare = bare_convolutions(method.model.encoder, batch.images)
    with training_step(method, batch) as step:
        found = interleaved({"step": step, "convolutions": bare}, settings.repeats, settings.device)
    return {
        "encoder": config.model.encoder,
        "step": found["step"].rate(settings.batch),
        "convolutions": found["convolutions"].rate(settings.batch),
        "share": found["convolutions"].median / found["step"].median,
    }


def bare_convolutions(encoder: nn.Module, images: Tensor) -> Callable[[], None]:
    """Return a function that computes each convolution of an encoder as a step with teacher does.

    The student's pass and its gradients, then the teacher's pass, of inputs of the same shapes and layout.
    """
    seen = list[tuple[nn.Conv2d, Tensor, Tensor]]()

    def note(layer: nn.Conv2d, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen.append((layer, inputs[0].clone(), torch.ones_like(output)))

    layers = [layer for layer in encoder.modules() if isinstance(layer, nn.Conv2d)]
    handles = [layer.register_forward_hook(note) for layer in layers]
    with torch.no_grad():
        encoder(images)
    for handle in handles:
        handle.remove()

    @torch.no_grad()
    def compute() -> None:
        for place, (layer, inputs, gradient) in enumerate(seen):
            layer(inputs)
            shape = (None, layer.stride, layer.padding, layer.dilation, False, (0, 0), layer.groups)
            wanted = (place > 0, True, False)  # of inputs (not of images), weights and no bias
            torch.ops.aten.convolution_backward(gradient, inputs, layer.weight, *shape, wanted)
            layer(inputs)

    return compute
