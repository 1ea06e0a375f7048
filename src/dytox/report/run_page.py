"""The page of one run, and its plots as files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from dytox.published.comparable import compare
from dytox.published.figures import CLASS_COUNTS, DATASETS
from dytox.report import charts, heatmaps, learning, page, sections, style, token_maps
from dytox.report.record import Record
from dytox.runs import files
from dytox.runs.run_directory import to_yaml
from dytox.text import millions, number_text, plural, short_duration


def write_run_page(record: Record, path: Path, *, running: bool = False) -> None:
    """Write the page of a run to a file."""
    files.write(path, [render_run(record, running=running).encode()])


def render_run(record: Record, *, running: bool = False) -> str:
    """Return the page as HTML; `running` says that the run itself writes it and is not over."""
    parts = [_head(record, running)]
    if record.metrics:
        parts += [_headline(record), sections.accuracy_section(record, compare(record.config))]
        parts.append(page.pair(sections.matrix_section(record), sections.forgetting_section(record)))
    else:
        note = "Results appear here after the first task."
        parts.append(page.section("No task has been learned yet", note=note))
    parts.append(sections.losses_section(record))
    if record.metrics:
        parts.append(page.pair(sections.confusion_section(record), sections.mistakes_section(record)))
        parts.append(sections.attention_section(record))
        parts.append(page.pair(sections.distances_section(record), sections.cost_section(record)))
        parts.append(_steps(record))
    parts.append(_provenance(record))
    return page.document(f"{record.name}: {record.method} on {_dataset(record)}", *parts)


def _head(record: Record, running: bool) -> str:
    config, order = record.config, record.config.scenario.order
    state = ("done", "finished") if record.finished else ("open", "running" if running else "not finished")
    resume = f"; continue it with <code>dytox resume {escape(str(record.path))}</code>"
    facts = [
        f"recipe {config.recipe}",
        f"seed {config.seed}",
        f"class order {order if isinstance(order, int | str) else 'given in the config'}",
    ]
    if config.evaluation.flip:
        facts.append("scores averaged over each image and its mirror image")
    if record.steps:
        learned = f"{plural(record.seen[-1], 'class')} in {plural(len(record.steps), 'task')}"
        facts.insert(0, learned if record.finished else f"{learned} so far")
    return (
        f"<header><h1>{escape(record.method)} on {escape(_dataset(record))}</h1>"
        f'<p class="lead"><span class="state {state[0]}">{state[1]}</span><b>{escape(record.name)}</b>: '
        f"{escape(', '.join(facts))}{'' if record.finished or running else resume}</p></header>"
    )


def _dataset(record: Record) -> str:
    return DATASETS.get(record.config.data.dataset, record.config.data.dataset)


def _headline(record: Record) -> str:
    """The most important figures, as tiles."""
    found, last = record.metrics or {}, record.steps[-1]
    tiles = [
        (
            "Avg top-1",
            f"{number_text(found['avg_top1'])} %",
            f"mean over {plural(len(record.steps), 'step')}",
        ),
        ("Last top-1", f"{number_text(found['last_top1'])} %", f"over {last['classes_seen']:,} classes"),
    ]
    if found.get("last_top5") is not None:
        tiles.append(
            ("Last top-5", f"{number_text(found['last_top5'])} %", f"Avg {number_text(found['avg_top5'])} %")
        )
    if found.get("forgetting") is not None:
        tiles.append(("Forgetting", number_text(found["forgetting"]), "points, mean over old tasks"))
    memory = f"{plural(last['memory_images'], 'image')} in memory" if last["memory_images"] else "no memory"
    tiles.append(("Parameters", millions(last["parameters"]), memory))
    tiles.append(("Time", short_duration(found["seconds"]), f"for {plural(len(record.steps), 'task')}"))
    return page.tiles(tiles)


def _steps(record: Record) -> str:
    """All measured figures as a table, and the classes of each task."""
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
            *(number_text(step.get(key)) for key in ("top1", "top5", "task_aware_top1", "calibration_error")),
            f"{step['parameters']:,}",
            f"{step['memory_images']:,}",
            short_duration(step["seconds"]),
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
        page.details("After each task", page.html_table(head, rows), opened=len(rows) <= charts.FEW_TASKS),
        page.details("Classes of each task", f'<ul class="classes">{classes}</ul>'),
    )


def _provenance(record: Record) -> str:
    """The commands that make the run and this page again, the config and the environment."""
    commands = [record.command, shlex.join(["dytox", "report", str(record.path)])]
    note = "The first command repeats the run; the second writes this page again from the run directory."
    config = page.preformatted(to_yaml(record.config.model_dump()).decode())
    return page.section(
        "How it was made",
        page.preformatted("\n".join(commands)),
        page.details("Resolved config", config),
        *_environments(record),
        note=note,
    )


def _environments(record: Record) -> list[str]:
    """Versions and machine at the start and at each resumption."""
    first = {key: value for key, value in record.environment.items() if key != "resumed"}
    named = [
        ("Environment at the start,", first),
        *(("Resumed", each) for each in record.environment.get("resumed", [])),
    ]
    return [page.details(f"{name} {each.get('started', '')}", _rows(each)) for name, each in named if each]


def _rows(values: dict[str, Any]) -> str:
    rows = [
        [key, " ".join(map(str, value)) if isinstance(value, list) else str(value)]
        for key, value in values.items()
    ]
    return page.html_table(["What", "Value"], rows, words=[0, 1])


WIDTH = 760  # of the wide plots, in pixels


def save_plots(record: Record, folder: Path) -> None:
    """Write every plot for which the run has figures, as PNG and SVG with a title."""
    files.make_folder(folder, member=True)
    for name, title, drawn in _plots(record):
        style.entitle(drawn, f"{record.method}: {title}")
        files.write(folder / f"{name}.png", [style.png(drawn)], member=True)
        files.write(folder / f"{name}.svg", [style.svg(drawn)], member=True)


def _plots(record: Record) -> Iterator[tuple[str, str, Figure]]:
    """Name, title and figure of each plot."""
    if record.log:
        yield "learning", "losses and learning rate", learning.learning_chart(record.log, WIDTH)
    if not record.metrics:
        return
    comparison = compare(record.config)
    classes = CLASS_COUNTS.get(record.config.data.dataset) if comparison.steps else None
    yield (
        "accuracy",
        "accuracy after each task",
        charts.accuracy_chart(record, comparison.own, classes, WIDTH),
    )
    if len(record.steps) > 1:
        yield "accuracy-matrix", "accuracy on each task", heatmaps.accuracy_map(record)
        yield "forgetting", "forgetting of each task", charts.forgetting_chart(record)
    if len(record.steps) > 1 and "confusion" in record.evaluation:
        yield "confusion", "confusion between tasks", heatmaps.confusion_map(record)
    if record.tokens > 1:
        yield "token-distances", "distances between tokens", heatmaps.token_distance_map(record)
    images = token_maps.attention_images(record)
    if images:
        yield "attention", "where the task tokens look", token_maps.attention_sheet(images)
    yield "parameters", "parameters", charts.parameters_chart(record)
    yield "time", "time of each task", charts.time_chart(record)
