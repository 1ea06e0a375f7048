"""One feature vector for a class."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from dytox.data.samples import Samples
from dytox.engine.evaluate import features
from dytox.engine.lesson import Lesson


def prototypes(lesson: Lesson, samples: Samples, *, mirrored: bool = False) -> Tensor:
    """The mean of the normalised features of each class of these images, normalised: (classes, dim), CPU.

    With `mirrored`, each image counts again from left to right.
    """
    views = (False, True) if mirrored else (False,)
    found = normalize(torch.cat([features(lesson, samples, mirrored=view) for view in views]).double())
    labels = samples.labels.repeat(len(views))
    return normalize(torch.stack([found[labels == label].mean(dim=0) for label in labels.unique()]))
