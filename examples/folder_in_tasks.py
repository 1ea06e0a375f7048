"""A folder in three tasks: each month brings a folder of new classes, and the old images are gone."""

import random
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw

from dytox import ContinualLearner

SMALL = {"data": {"image_size": 16}, "model": {"patch_size": 4, "dim": 32, "heads": 2, "depth": 1}}
QUICK = {"training": {"epochs": 20, "batch": 16, "lr": 2e-3}, "augment": {"randaugment": None}}
MONTHS = (["red disc", "blue disc"], ["red box", "blue box"], ["red bar", "blue bar"])


def paint(path: Path, colour: str, shape: str) -> None:
    """A photograph, somewhere in it the shape."""
    image = Image.new("RGB", (40, 30), (random.randrange(120),) * 3)
    x, y = random.randrange(8, 18), random.randrange(4, 10)
    drawn = ImageDraw.Draw(image)
    draw = drawn.ellipse if shape == "disc" else drawn.rectangle
    draw((x, y, x + (4 if shape == "bar" else 14), y + 14), fill=colour)
    path.parent.mkdir(exist_ok=True)
    image.save(path)


random.seed(0)
learner = ContinualLearner.create("own-images", config=SMALL | QUICK)
for names in MONTHS:
    with tempfile.TemporaryDirectory() as folder:  # a folder for each class in it
        for place in range(50):
            name = names[place % 2]
            paint(Path(folder, name, f"{place}.png"), *name.split())
        learner.learn(folder, held_out=0.2)
    accuracy = learner.assess(learner.held_out).top1 / 100
    print(f"{len(learner.classes_)} classes: {accuracy:.0%} of the held-out images right")
