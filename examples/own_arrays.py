"""Your own arrays: three tasks of NumPy images, one after the other, and what is remembered at the end."""

import numpy as np

from dytox import ContinualLearner

SMALL = {"memory": {"size": 30}, "model": {"patch_size": 4, "depth": 1}, "training": {"epochs": 20}}
SLOPES = {"down": (1, 0), "right": (0, 1), "up": (-1, 0), "left": (0, -1), "fall": (1, 1), "rise": (-1, 1)}


def images_of(name: str, random: np.random.Generator, number: int = 40) -> np.ndarray:
    """Grey slopes of 8×8 pixels, rising in the direction that the name says, with noise."""
    down, right = SLOPES[name]
    steps = np.linspace(-1, 1, 8)
    slope = 128 + 50 * (down * steps[:, None] + right * steps[None, :])  # (8, 8)
    noisy = slope[None, :, :, None] + random.normal(0, 25, (number, 8, 8, 3))
    return noisy.clip(0, 255).astype(np.uint8)  # (number, 8, 8, 3)


random = np.random.default_rng(0)
learner = ContinualLearner.create("digits", config=SMALL)
for names in (["down", "right"], ["up", "left"], ["fall", "rise"]):
    learner.learn(np.concatenate([images_of(name, random) for name in names]), np.repeat(names, 40))
    seen = learner.classes_
    accuracy = learner.score(np.concatenate([images_of(name, random) for name in seen]), np.repeat(seen, 40))
    print(f"{len(seen)} classes, {len(learner.memory)} images kept: {accuracy:.0%} right")
