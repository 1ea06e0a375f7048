"""The page of one run."""

from __future__ import annotations

from html import escape
from pathlib import Path

from dytox.published.comparable import compare
from dytox.published.figures import DATASETS
from dytox.report import charts, page, provenance, sections
from dytox.report.record import Record
from dytox.report.text import duration, millions, percent, plural
from dytox.runs import files


def write(record: Record, path: Path, *, running: bool = False) -> None:
    """The page as a file."""
    files.write(path, [render(record, running=running).encode()])


def render(record: Record, *, running: bool = False) -> str:
    """The page; `running`: written by the run itself, which goes on."""
    parts = [head(record, running)]
    if record.metrics:
        parts += [headline(record), sections.accuracy(record, compare(record.config))]
        parts.append(page.pair(sections.matrix(record), sections.forgetting(record)))
    else:
        note = "What was measured appears after the first task."
        parts.append(page.section("No task is learned yet", note=note))
    parts.append(sections.losses(record))
    if record.metrics:
        parts.append(page.pair(sections.confusion(record), sections.mixed_up(record)))
        parts.append(sections.looks(record))
        parts.append(page.pair(sections.tokens(record), sections.cost(record)))
        parts.append(steps(record))
    parts.append(provenance.made(record))
    return page.document(f"{record.name}: {record.method} on {dataset(record)}", *parts)


def head(record: Record, running: bool) -> str:
    """What was run, and how far it came."""
    config, order = record.config, record.config.scenario.order
    state = ("done", "finished") if record.finished else ("open", "running" if running else "not finished")
    resume = f"; <code>dytox resume {escape(str(record.path))}</code> goes on with it"
    facts = [
        f"recipe {config.recipe}",
        f"seed {config.seed}",
        f"class order {order if isinstance(order, int | str) else 'of its own'}",
    ]
    if record.steps:
        learned = f"{plural(record.seen[-1], 'class')} in {plural(len(record.steps), 'task')}"
        facts.insert(0, learned if record.finished else f"{learned} so far")
    return (
        f"<header><h1>{escape(record.method)} on {escape(dataset(record))}</h1>"
        f'<p class="lead"><span class="state {state[0]}">{state[1]}</span><b>{escape(record.name)}</b>: '
        f"{escape(', '.join(facts))}{'' if record.finished or running else resume}</p></header>"
    )


def dataset(record: Record) -> str:
    """The dataset's name, as people write it."""
    return DATASETS.get(record.config.data.dataset, record.config.data.dataset)


def headline(record: Record) -> str:
    """The figures to take away."""
    found, last = record.metrics or {}, record.steps[-1]
    tiles = [
        ("Avg top-1", f"{percent(found['avg_top1'])} %", f"mean over {plural(len(record.steps), 'step')}"),
        ("Last top-1", f"{percent(found['last_top1'])} %", f"over {last['classes_seen']:,} classes"),
    ]
    if found.get("last_top5") is not None:
        tiles.append(
            ("Last top-5", f"{percent(found['last_top5'])} %", f"Avg {percent(found['avg_top5'])} %")
        )
    if found.get("forgetting") is not None:
        tiles.append(("Forgetting", percent(found["forgetting"]), "points, mean over old tasks"))
    memory = f"{plural(last['memory_images'], 'image')} in memory" if last["memory_images"] else "no memory"
    tiles.append(("Parameters", millions(last["parameters"]), memory))
    tiles.append(("Time", duration(found["seconds"]), f"for {plural(len(record.steps), 'task')}"))
    return page.tiles(tiles)


def steps(record: Record) -> str:
    """Everything that was measured, in numbers, and the classes of each task."""
    head = [
        "Task",
        "Classes",
        "Top-1",
        "Top-5",
        "Task told",
        "Calibration error",
        "Parameters",
        "Memory",
        "Time",
    ]
    rows = [
        [
            str(step["task"] + 1),
            str(step["classes_seen"]),
            *(percent(step.get(key)) for key in ("top1", "top5", "task_aware_top1", "calibration_error")),
            f"{step['parameters']:,}",
            f"{step['memory_images']:,}",
            duration(step["seconds"]),
        ]
        for step in record.steps
    ]
    starts = [0, *record.seen]
    classes = "".join(
        f"<li><b>Task {task + 1}</b>{escape(', '.join(map(record.class_name, range(start, seen))))}</li>"
        for task, (start, seen) in enumerate(zip(starts, record.seen, strict=False))
    )
    return page.section(
        "In numbers",
        page.details("After each task", page.table(head, rows), opened=len(rows) <= charts.FEW),
        page.details("Classes of each task", f'<ul class="classes">{classes}</ul>'),
    )
