"""Class prototypes: one feature vector for each class."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from dytox.data.samples import Samples
from dytox.engine.evaluate import features
from dytox.engine.lesson import Lesson


def prototypes(lesson: Lesson, samples: Samples, *, mirrored: bool = False) -> Tensor:
    """The normalised mean of the normalised features of each class: (classes, dim), on the CPU.

    With `mirrored`, each image counts twice: as it is and flipped horizontally.
    """
    views = (False, True) if mirrored else (False,)
    found = normalize(torch.cat([features(lesson, samples, mirrored=view) for view in views]).double())
    labels = samples.labels.repeat(len(views))
    return normalize(torch.stack([found[labels == label].mean(dim=0) for label in labels.unique()]))
