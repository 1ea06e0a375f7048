"""The overheads and effects that the paper's text names, measured on finished runs of DyTox."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import torch

from dytox.config import Config
from dytox.experiments.reproduce import Finished, FinishedRun, mean_figure
from dytox.methods import registry
from dytox.published.figures import facts
from dytox.published.layout import Cell, PaperTable, Table
from dytox.runs.run_directory import RunDirectory

IMAGES, PASSES = 32, 7  # images of a timed forward pass, and number of passes


def effects_table(table: PaperTable, found: Finished) -> Table | None:
    """Return the figures that the text names, beside the published; None where a run is missing."""
    runs = [found.get((place, 0), ()) for place in range(len(table.rows))]
    if not all(runs):
        return None
    whole, without_divergence, without_heads = runs
    config = RunDirectory(whole[0].path).read_config()
    tasks, token = len(whole[0].metrics["steps"]), config.model.dim
    total, paper = whole[0].last["parameters"], facts()["overheads"]
    added = added_parameters(whole[0])
    rows: list[list[Cell]] = [
        ["parameters of a task token", f"{token:,}", f"{paper['task_token_parameters']:,}"],
        ["… in percent of the model", f"{100 * token / total:.4f}", f"{paper['memory_per_task_percent']:g}"],
        ["parameters that the last task added, its classes' rows included", f"{added:,}", None],
        ["… in percent of the model", f"{100 * added / total:.4f}", None],
        [
            "forward time of an added task (%)",
            f"{forward_time(config, tasks):.2f}",
            f"{paper['forward_time_per_task_percent']:g}",
        ],
        [
            "least token distance, with divergence (%)",
            relative_change("Distance", without_divergence, whole),
            f"{paper['divergence_min_token_distance_percent']:+g}",
        ],
        [
            "forgetting, with independent heads (%)",
            relative_change("Forgetting", without_heads, whole),
            f"{paper['independent_classifiers_forgetting_percent']:+g}",
        ],
    ]
    notes = [
        "Forward time is measured here and now, all task tokens in one pass; the paper's in a pass each."
    ]
    return Table("effects", "Overheads and effects", ["What", "Here", "Paper"], rows, notes)


def ablation_sentences(found: Finished) -> list[str]:
    """Describe both effects between rows of the ablation: divergence from 4 to 5, heads from 5 to 6."""
    four, five, six = (found.get((place, 0), ()) for place in (3, 4, 5))
    paper, sentences = facts()["overheads"], []
    if four and five:
        sentences.append(
            f"The least token distance changes by {relative_change('Distance', four, five)} % with the "
            f"divergence head (the paper: {paper['divergence_min_token_distance_percent']:+} %)."
        )
    if five and six:
        sentences.append(
            f"Forgetting changes by {relative_change('Forgetting', five, six)} % with independent heads "
            f"(the paper: {paper['independent_classifiers_forgetting_percent']:+} %)."
        )
    return sentences


def relative_change(name: str, before: Sequence[FinishedRun], after: Sequence[FinishedRun]) -> str:
    """Return how much a figure's mean changes, in percent of what it was."""
    old, new = mean_figure(name, before), mean_figure(name, after)
    return "–" if not old or new is None else f"{100 * (new - old) / abs(old):+.1f}"


def added_parameters(run: FinishedRun) -> int:
    """Return the number of parameters that the last task added to the model."""
    sizes = [step["parameters"] for step in run.metrics["steps"]]
    return int(sizes[-1] - sizes[-2]) if len(sizes) > 1 else 0


def forward_time(config: Config, tasks: int) -> float:
    """Return how much longer a forward pass takes per task after the first, in percent of one task's."""
    if tasks < 2:
        return 0.0
    one, many = (_seconds(config, number) for number in (1, tasks))
    return 100 * (many / one - 1) / (tasks - 1)


@torch.no_grad()
def _seconds(config: Config, tasks: int) -> float:
    model = registry.find_method(config.method.name)(config).model.eval()
    for _ in range(tasks):
        model.expand(2)
    assert config.data.image_size is not None
    images = torch.zeros(IMAGES, 3, config.data.image_size, config.data.image_size)
    times = []
    for _ in range(PASSES + 1):
        began = time.perf_counter()
        model(images)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])
