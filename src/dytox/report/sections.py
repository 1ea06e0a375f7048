"""What a page shows of a run, a section each; empty where the run has nothing of it."""

from __future__ import annotations

from statistics import fmean, median

import numpy as np

from dytox.published.comparable import Comparison
from dytox.published.figures import CLASSES
from dytox.report import attention, charts, heatmaps, learning, page
from dytox.report.published_table import published_table
from dytox.report.record import Record
from dytox.report.text import millions, plural

WIDE, NARROW = 980, 400  # pixels of a figure on a desk and on a telephone
MANY = 14  # tokens: most images are folded away
CONFUSED = 10  # pairs of classes that are named


def accuracy(record: Record, comparison: Comparison) -> str:
    """After each step, and what was published for the same setting."""
    classes = CLASSES.get(record.config.data.dataset) if comparison.steps else None
    wide, narrow = (charts.accuracy(record, comparison.own, classes, each) for each in (WIDE, NARROW))
    note = (
        "On test images of all classes seen. Task told: the best among the classes of the image's own task."
    )
    drawing = page.drawing("accuracy", "Accuracy after each task", wide, narrow)
    return page.section("Accuracy after each step", drawing, published_table(record, comparison), note=note)


def matrix(record: Record) -> str:
    """On each task after each task."""
    if len(record.steps) < 2:
        return ""
    drawing = page.drawing(
        "matrix", "Accuracy on each task after each task", heatmaps.accuracy_matrix(record)
    )
    return page.section(
        "Accuracy matrix", drawing, note="A column that fades from top to bottom is forgotten."
    )


def forgetting(record: Record) -> str:
    """Of each task but the last."""
    if len(record.steps) < 2:
        return page.section("Accuracy matrix, forgetting, confusion", note="From the second task on.")
    note = (
        "Best accuracy before the last task, minus the present one (Chaudhry 2018). "
        "The paper's forgetting comes from another formula and is not comparable."
    )
    drawing = page.drawing("forgetting", "Forgetting of each task", charts.forgetting(record))
    return page.section("Forgetting", drawing, note=note)


def losses(record: Record) -> str:
    """Losses and learning rate over time."""
    if not record.log:
        return ""
    wide, narrow = (learning.learning(record.log, each) for each in (WIDE, NARROW))
    notes = [f"{plural(len(record.log), 'epoch')} in all; shaded: phases after the first training of a task."]
    speeds = [line["images_per_second"] for line in record.log if line.get("images_per_second")]
    if speeds:
        notes.append(f"Median speed {median(speeds):,.0f} images a second.")
    lost = sum(1 for line in record.log if None in line.get("losses", {}).values())
    if lost:
        notes.append(f"In {plural(lost, 'epoch')} a loss was not a number: the curve has gaps there.")
    drawing = page.drawing("learning", "Losses and learning rate over the epochs", wide, narrow)
    return page.section("Losses and learning rate", drawing, note=" ".join(notes))


def confusion(record: Record) -> str:
    """Between tasks."""
    if "confusion" not in record.evaluation or len(record.steps) < 2:
        return ""
    drawing = page.drawing(
        "confusion", "For which task's classes images are taken", heatmaps.confusion(record)
    )
    note = "After the last task learned; off the diagonal is an image taken for a class of another task."
    return page.section("Confusion between tasks", drawing, note=note)


def mixed_up(record: Record) -> str:
    """The classes that are taken for another most often."""
    if "confusion" not in record.evaluation:
        return ""
    counts = record.evaluation["confusion"].double().numpy()
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    np.fill_diagonal(shares, 0)
    worst = np.argsort(-shares, axis=None, kind="stable")[:CONFUSED]
    pairs = [divmod(int(place), len(shares)) for place in worst if shares.flat[place] > 0]
    rows = [
        [record.class_name(true), record.class_name(said), f"{shares[true, said]:.0f} %"]
        for true, said in pairs
    ]
    if not rows:
        return page.section("Classes mixed up most", note="None: every test image was recognised.")
    return page.section(
        "Classes mixed up most", page.table(["Class", "taken for", "of its images"], rows, words=[0, 1])
    )


def tokens(record: Record) -> str:
    """The distances between task tokens."""
    if record.tokens < 2:
        return ""
    drawing = page.drawing("tokens", "Distances between task tokens", heatmaps.token_distances(record))
    return page.section(
        "Distances between task tokens", drawing, note="Euclidean, after the last task learned."
    )


def looks(record: Record) -> str:
    """Where the task tokens look."""
    images = attention.shown(record)
    if not images:
        return ""
    strips = [attention.strip(image, f"image-{number}") for number, image in enumerate(images)]
    many = len(images[0].maps) > MANY
    first, rest = (strips[:2], strips[2:]) if many else (strips, [])
    kind = "strips many" if many else "strips"
    parts = [f'<div class="{kind}">{"".join(first)}</div>']
    if rest:
        more = f'<div class="{kind}">{"".join(rest)}</div>'
        parts.append(page.details(f"{plural(len(rest), 'image')} more", more))
    note = "Test images, and again under the token of each task: bright where the token looks."
    return page.section("Where the task tokens look", *parts, note=note)


def cost(record: Record) -> str:
    """Parameters and time, in one section beside the tokens' or in two."""
    size = page.drawing("parameters", "Parameters after each task", charts.parameters(record))
    time = page.drawing("seconds", "Time of each task", charts.seconds(record))
    counts = [step["parameters"] for step in record.steps]
    mean = "" if len({*counts}) == 1 else f"Mean over the steps {millions(round(fmean(counts)))}. "
    note = f"{mean}The axis of the parameters does not begin at zero."
    if record.tokens < 2:
        return page.section("Parameters", size, note=note) + page.section("Time", time)
    return page.section("Parameters and time", size, time, note=note)
