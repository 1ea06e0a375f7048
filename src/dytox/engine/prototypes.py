"""One feature vector for a class."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from dytox.data.samples import Samples
from dytox.engine.evaluate import features
from dytox.engine.lesson import Lesson


def prototypes(lesson: Lesson, samples: Samples) -> Tensor:
    """The mean of the normalised features of each class of these images, normalised: (classes, dim), CPU."""
    found = normalize(features(lesson, samples).double())
    means = [found[samples.labels == label].mean(dim=0) for label in samples.labels.unique()]
    return normalize(torch.stack(means))


def mirrored(samples: Samples) -> Samples:
    """These images, and each of them again from left to right."""
    return Samples.concatenate([samples, Samples(samples.images.flip(-1), samples.labels)])
