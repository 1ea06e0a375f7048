"""The losses, each with its equation. A loss is a sum and a count; the engine divides by the global count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Activation = Literal["sigmoid", "softmax"]


@dataclass(frozen=True)
class Term:
    """One named part of the total: weight · sum / (count over all processes)."""

    sum: Tensor
    count: int
    weight: float = 1.0

    def weighted(self, weight: float) -> Term:
        """The same term with another weight."""
        return replace(self, weight=weight)


def classification(logits: Tensor, targets: Tensor, activation: Activation) -> Term:
    """L_clf for soft targets (batch, classes): BCE over batch × classes, or cross-entropy over the batch.

    sigmoid: -Σ [y log σ(z) + (1 - y) log(1 - σ(z))];  softmax: -Σ y log softmax(z).
    """
    if activation == "sigmoid":
        loss = functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
        return Term(loss, targets.numel())
    return Term(functional.cross_entropy(logits, targets, reduction="sum"), len(targets))


def distillation(logits: Tensor, teacher_logits: Tensor, temperature: float = 1.0) -> Term:
    """L_kd = KL(softmax(teacher / τ) ‖ softmax(student / τ)) over the old logits, per batch × old classes."""
    student = (logits / temperature).log_softmax(dim=1)
    teacher = (teacher_logits / temperature).log_softmax(dim=1)
    divergence = functional.kl_div(student, teacher, reduction="sum", log_target=True)
    return Term(divergence, teacher_logits.numel())


def divergence_targets(targets: Tensor, old: int) -> Tensor:
    """Soft targets of the divergence head: 0 = any old class (their mass summed), 1…n = the new classes."""
    return torch.cat([targets[:, :old].sum(dim=1, keepdim=True), targets[:, old:]], dim=1)


def probabilities(logits: Tensor, activation: Activation) -> Tensor:
    """What the loss takes the logits for: a probability for each class, or a distribution over them."""
    return logits.sigmoid() if activation == "sigmoid" else logits.softmax(dim=1)
