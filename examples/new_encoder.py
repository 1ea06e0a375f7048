"""An encoder of your own: a small convolutional network in the place of the transformer's blocks.

It may give one token an image (batch, dim), as here, several (batch, tokens, dim), or a map of features.
"""

import torch
from torch import nn

from dytox import ContinualLearner
from dytox.data import datasets

torch.manual_seed(0)
encoder = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.GELU(),
    nn.Conv2d(16, 32, 3, stride=2, padding=1),
    nn.GELU(),
    nn.Flatten(),
    nn.Linear(32 * 4 * 4, 64),
)
small = {"data": {"image_size": 8}, "training": {"epochs": 20}}
learner = ContinualLearner.create("digits", config=small, encoder=encoder, frozen=False)
digits = datasets.load(learner.config.data)
for first in (0, 2, 4):
    new, test = digits.train.between(first, first + 2), digits.test.between(0, first + 2)
    learner.learn(new.images, new.labels)
    accuracy = learner.score(test.images, test.labels)
    print(f"{len(learner.classes_)} digits: {accuracy:.0%} right")
