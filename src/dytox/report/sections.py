"""The sections of a run's page; a section is empty where the run has nothing to show in it."""

from __future__ import annotations

from html import escape
from statistics import fmean, median

import numpy as np

from dytox.published.comparable import Comparison, memory_setting
from dytox.published.figures import CLASS_COUNTS, PublishedResult
from dytox.report import charts, heatmaps, learning, page, token_maps
from dytox.report.record import Record
from dytox.text import millions, number_text, plural, with_deviation

WIDE, NARROW = 980, 400  # width of a figure on a desktop and on a phone, in pixels
MANY = 14  # with more tokens than this, most images are folded away
CONFUSED = 10  # at most this many pairs of classes are listed


def accuracy_section(record: Record, comparison: Comparison) -> str:
    """Accuracy after each step, beside the published figures of the same setting."""
    classes = CLASS_COUNTS.get(record.config.data.dataset) if comparison.steps else None
    wide, narrow = (charts.accuracy_chart(record, comparison.own, classes, each) for each in (WIDE, NARROW))
    note = (
        "On the test images of all classes seen so far. Task told: the choice is only among the classes of "
        "the image's own task."
    )
    drawing = page.drawing("accuracy", "Accuracy after each task", wide, narrow)
    return page.section("Accuracy after each step", drawing, _published_table(record, comparison), note=note)


def matrix_section(record: Record) -> str:
    """Accuracy on each task after each task."""
    if len(record.steps) < 2:
        return ""
    drawing = page.drawing("matrix", "Accuracy on each task after each task", heatmaps.accuracy_map(record))
    return page.section(
        "Accuracy matrix", drawing, note="A task whose column fades from top to bottom is being forgotten."
    )


def forgetting_section(record: Record) -> str:
    """Forgetting of each task but the last."""
    if len(record.steps) < 2:
        return page.section("Accuracy matrix, forgetting, confusion", note="Shown from the second task on.")
    note = (
        "The best accuracy on a task before the last one, minus the present accuracy (Chaudhry 2018). "
        "The paper computed forgetting by another formula, so its figures cannot be compared."
    )
    drawing = page.drawing("forgetting", "Forgetting of each task", charts.forgetting_chart(record))
    return page.section("Forgetting", drawing, note=note)


def losses_section(record: Record) -> str:
    """Losses and learning rate over the epochs."""
    if not record.log:
        return ""
    wide, narrow = (learning.learning_chart(record.log, each) for each in (WIDE, NARROW))
    notes = [f"{plural(len(record.log), 'epoch')} in all. Shaded: phases after the first training of a task."]
    speeds = [line["images_per_second"] for line in record.log if line.get("images_per_second")]
    if speeds:
        notes.append(f"Median speed: {median(speeds):,.0f} images per second.")
    lost = sum(1 for line in record.log if None in line.get("losses", {}).values())
    if lost:
        notes.append(f"In {plural(lost, 'epoch')} a loss was not a finite number: the curve has gaps there.")
    drawing = page.drawing("learning", "Losses and learning rate over the epochs", wide, narrow)
    return page.section("Losses and learning rate", drawing, note=" ".join(notes))


def confusion_section(record: Record) -> str:
    """Confusion between tasks."""
    if "confusion" not in record.evaluation or len(record.steps) < 2:
        return ""
    drawing = page.drawing(
        "confusion",
        "Tasks for whose classes the images of each task are taken",
        heatmaps.confusion_map(record),
    )
    note = "After the last task. Off the diagonal: images that were taken for a class of another task."
    return page.section("Confusion between tasks", drawing, note=note)


def mistakes_section(record: Record) -> str:
    """The pairs of classes that are mistaken for each other most often."""
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
        return page.section("Most frequent mistakes", note="None: every test image was classified correctly.")
    return page.section(
        "Most frequent mistakes", page.html_table(["Class", "taken for", "of its images"], rows, words=[0, 1])
    )


def distances_section(record: Record) -> str:
    """Distances between task tokens."""
    if record.tokens < 2:
        return ""
    drawing = page.drawing("tokens", "Distances between task tokens", heatmaps.token_distance_map(record))
    return page.section(
        "Distances between task tokens", drawing, note="Euclidean distances after the last task."
    )


def attention_section(record: Record) -> str:
    """Where the task tokens look."""
    images = token_maps.attention_images(record)
    if not images:
        return ""
    strips = [token_maps.image_strip(image, f"image-{number}") for number, image in enumerate(images)]
    many = len(images[0].maps) > MANY
    first, rest = (strips[:2], strips[2:]) if many else (strips, [])
    kind = "strips many" if many else "strips"
    parts = [f'<div class="{kind}">{"".join(first)}</div>']
    if rest:
        more = f'<div class="{kind}">{"".join(rest)}</div>'
        parts.append(page.details(f"{plural(len(rest), 'image')} more", more))
    note = "Test images, and the same images as each task token sees them: bright where the token attends."
    return page.section("Where the task tokens look", *parts, note=note)


def cost_section(record: Record) -> str:
    """Parameters and time: one section beside that of the token distances, two sections without it."""
    size = page.drawing("parameters", "Parameters after each task", charts.parameters_chart(record))
    time = page.drawing("seconds", "Time of each task", charts.time_chart(record))
    counts = [step["parameters"] for step in record.steps]
    mean = "" if len({*counts}) == 1 else f"Mean over the steps: {millions(round(fmean(counts)))}. "
    note = f"{mean}The axis of the parameters does not start at zero."
    if record.tokens < 2:
        return page.section("Parameters", size, note=note) + page.section("Time", time)
    return page.section("Parameters and time", size, time, note=note)


def _published_table(record: Record, comparison: Comparison) -> str:
    """This run, its method as published, the other methods, and last the figures that are not comparable."""
    notes = list(comparison.sentences)
    if comparison.steps and len(record.steps) < comparison.steps:
        notes.append(
            f"Only {len(record.steps)} of {comparison.steps} steps have been learned: do not compare yet."
        )
    text = "".join(f"<p class='note'>{escape(each)}</p>" for each in notes)
    if not (comparison.own or comparison.alongside or comparison.apart):
        return text
    found, last = record.metrics or {}, record.steps[-1]
    top5 = any(row.top5_last is not None for row in comparison.alongside)
    head = ["Method", "Memory", "#P in M", "Avg", "Last", *(["top-5 Avg", "top-5 Last"] if top5 else [])]
    mine = [f"{record.method}, this run", memory_setting(record.config), f"{last['parameters'] / 1e6:.2f}"]
    keys = ["avg_top1", "last_top1", *(["avg_top5", "last_top5"] if top5 else [])]
    rows, classes = [[*mine, *(number_text(found[key], 2) for key in keys)]], ["own"]
    groups = [
        ([comparison.own] if comparison.own else [], "own"),
        (comparison.alongside, ""),
        (comparison.apart, "apart"),
    ]
    for group, kind in groups:
        for row in group:
            rows.append(_cells(row, top5, "published" if kind else ""))
            classes.append("" if kind == "own" else kind)
    gap = _gap(record, comparison)
    shown = page.html_table(head, rows, classes=classes, words=[1])
    return f"<h3>Compared with the published figures</h3>{text}{gap}{shown}"


def _gap(record: Record, comparison: Comparison) -> str:
    own, found = comparison.own, record.metrics or {}
    if own is None or comparison.steps != len(record.steps):
        return ""
    pairs = [("Avg", found["avg_top1"], own.avg), ("Last", found["last_top1"], own.last)]
    parts = [
        f"{name} {ours - theirs:+.2f} points" for name, ours, theirs in pairs if None not in (ours, theirs)
    ]
    return (
        f"<p>Difference to the published {escape(own.method)} ({own.memory} memory): {', '.join(parts)}.</p>"
    )


def _cells(row: PublishedResult, top5: bool, word: str) -> list[str]:
    name = f"{row.method}, {word}" if word else row.method
    cells = [name, row.memory, number_text(row.params_m, 2), with_deviation(row.avg, row.avg_std)]
    cells.append(with_deviation(row.last, row.last_std))
    return cells + ([number_text(row.top5_avg, 2), number_text(row.top5_last, 2)] if top5 else [])
