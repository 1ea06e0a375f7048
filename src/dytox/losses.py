"""The losses with their equations. A loss is a sum and a count; the engine divides by the global count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Activation = Literal["sigmoid", "softmax"]


@dataclass(frozen=True)
class Term:
    """One term of the total loss: weight · sum / (count over all processes)."""

    sum: Tensor
    count: int
    weight: float = 1.0

    def weighted(self, weight: float) -> Term:
        """A copy of the term with another weight."""
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
    """The probabilities that the loss assumes: independent for each class, or a distribution over them."""
    return logits.sigmoid() if activation == "sigmoid" else logits.softmax(dim=1)


def pod_spatial(maps: Sequence[Tensor], teacher_maps: Sequence[Tensor]) -> Term:
    """PODNet's L_POD-spatial: ‖p(h) - p(h_teacher)‖ of each image, a mean over the maps (batch, c, h, w).

    p squares a map, pools it over its width and over its height, and normalises both sums together.
    """
    distances = [
        (_pooled(mine) - _pooled(theirs)).norm(dim=1) for mine, theirs in zip(maps, teacher_maps, strict=True)
    ]
    return Term(torch.stack(distances).mean(dim=0).sum(), len(maps[0]))


def _pooled(features: Tensor) -> Tensor:
    squares = features.square()
    sums = torch.cat([squares.sum(dim=3), squares.sum(dim=2)], dim=2)  # (batch, channels, height + width)
    return functional.normalize(sums.flatten(1), dim=1)


def cosine_distance(features: Tensor, teacher_features: Tensor) -> Term:
    """1 - cos(f, f_teacher) of each image: PODNet's L_POD-flat, UCIR's less-forget constraint."""
    cosines = functional.cosine_similarity(features, teacher_features, dim=1)
    return Term((1 - cosines).sum(), len(features))


def nca(logits: Tensor, labels: Tensor) -> Tensor:
    """PODNet's L_LSC of each image, in its authors' form: m - z_y + log(1 + Σ_{i≠y} exp(z_i - m)), m = max z.

    It equals the cross-entropy where the correct class has the largest logit, else it is slightly larger.
    """
    largest = logits.max(dim=1, keepdim=True).values
    below = logits - largest
    own = functional.one_hot(labels, logits.shape[1]).bool()
    return below.masked_fill(own, 0.0).logsumexp(dim=1) - below.gather(1, labels[:, None])[:, 0]


def sparsity(layers: Sequence[tuple[int, Tensor, Tensor]]) -> Term:
    """DER's L_S = Σ K_l ‖m_{l-1}‖₁ ‖m_l‖₁ / Σ K_l c_{l-1} c_l, for layers (K, mask of inputs, of outputs)."""
    kept = torch.stack([kernel * before.sum() * after.sum() for kernel, before, after in layers]).sum()
    return Term(kept / sum(kernel * len(before) * len(after) for kernel, before, after in layers), 1)


def distillation_by_image(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Term:
    """KL(softmax(teacher / τ) ‖ softmax(student / τ)), per image; no factor τ²."""
    return replace(distillation(logits, teacher_logits, temperature), count=len(logits))


def soft_cross_entropy(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Term:
    """-Σ softmax(teacher / τ) log softmax(student / τ), per image; at least the teacher's entropy."""
    targets = (teacher_logits / temperature).softmax(dim=1)
    return classification(logits / temperature, targets, "softmax")


def margin_ranking(cosines: Tensor, labels: Tensor, *, old: int, margin: float, hardest: int) -> Term:
    """Σ max(0, m - cos_y + cos_k) over the hardest new classes k of each image of an old class y."""
    mine = (labels < old).nonzero()[:, 0]  # waits for the GPU, because the term needs their number
    cosines, labels = cosines[mine], labels[mine]
    hard = cosines[:, old:].topk(min(hardest, cosines.shape[1] - old)).values  # (old images, hardest)
    right = cosines.gather(1, labels[:, None])
    return Term((margin - right + hard).relu().sum(), hard.numel())
