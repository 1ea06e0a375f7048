"""torch.compile for the parts of a network that no task changes."""

from __future__ import annotations

from torch import nn

from dytox.engine.method import Method

BACKEND = "inductor"


def compile_parts(method: Method) -> None:
    """Compile these parts of the model and its teacher, each once; the number of tasks is a dynamic size."""
    for model in (method.model, method.teacher):
        for part in [] if model is None else model.constant_parts():
            if not is_compiled(part):
                part.compile(backend=BACKEND, dynamic=True)


def is_compiled(part: nn.Module) -> bool:
    """Whether calls of this module run compiled code; those of a copy of it do not."""
    return part._compiled_call_impl is not None
