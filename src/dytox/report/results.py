"""Results in the form of the paper's tables: a row a method, and its figures in each scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dytox.published.comparable import compare, memory_setting
from dytox.published.figures import PublishedResult
from dytox.report import groups
from dytox.report.groups import Group, Spread

SETTINGS = 6  # so many differing keys have columns of their own

TOP1 = {"parameters_m": "#P", "avg_top1": "Avg", "last_top1": "Last", "forgetting": "Forgetting"}
TOP5 = {
    "parameters_m": "#P",
    "avg_top1": "top-1 Avg",
    "last_top1": "top-1 Last",
    "avg_top5": "top-5 Avg",
    "last_top5": "top-5 Last",
    "forgetting": "Forgetting",
}


@dataclass(frozen=True)
class Line:
    """A method's figures, by scenario and key."""

    label: str
    memory: str
    published: bool = False
    settings: list[str] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    figures: dict[str, dict[str, Spread]] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """A table: `columns` of each scenario, `settings` that differ between the runs of one method."""

    scenarios: list[str]
    columns: dict[str, str]  # key -> name
    settings: list[str]
    lines: list[Line]
    notes: list[str]

    @property
    def heads(self) -> list[str]:
        """The settings without their sections, where that leaves no doubt."""
        short = [key.rpartition(".")[2].replace("_", " ") for key in self.settings]
        return short if len(set(short)) == len(short) else self.settings


def results(found: Sequence[Group]) -> Results:
    """The table of these groups, followed by the published rows that may stand beside them."""
    scenarios = list(dict.fromkeys(each.scenario for each in found))
    settings = _settings(found)
    lines: dict[tuple[str, str], Line] = {}
    for each in found:
        record = each.records[0]
        shown = [_shown(groups.value(record, key)) for key in settings]
        line = Line(each.label, memory_setting(record.config), settings=shown)
        line = lines.setdefault((each.label, line.memory), line)
        line.runs[each.scenario] = len(each.records)
        line.figures[each.scenario] = _figures(each)
    published = _published(found)
    wide = any("top5" in key for line in published for each in line.figures.values() for key in each)
    return Results(scenarios, TOP5 if wide else TOP1, settings, [*lines.values(), *published], _notes(found))


def _settings(found: Sequence[Group]) -> list[str]:
    """The keys in which runs of one method differ; none where methods differ, or too much does."""
    records = [each.records[0] for each in found]
    if (
        len({record.config.method.name for record in records}) > 1
        or len({each.scenario for each in found}) > 1
    ):
        return []
    keys = groups.differing(records)
    return keys if len(keys) <= SETTINGS else []


def _figures(each: Group) -> dict[str, Spread]:
    found = {"parameters_m": groups.spread([step.steps[-1]["parameters"] / 1e6 for step in each.records])}
    found |= {key: each.spread(key) for key in TOP5 if key != "parameters_m"}
    return {
        key: (value[0], None) if key == "parameters_m" else value for key, value in found.items() if value
    }


def _published(found: Sequence[Group]) -> list[Line]:
    """The rows that belong beside any of the groups."""
    lines: dict[tuple[str, str], Line] = {}
    for each in found:
        comparison = compare(each.records[0].config)
        for row in [*([comparison.own] if comparison.own else []), *comparison.alongside]:
            line = lines.setdefault((row.method, row.memory), Line(row.method, row.memory, published=True))
            if row is comparison.own or each.scenario not in line.figures:
                line.figures[each.scenario] = _row_figures(row)
    order = {"all": 0, "global": 1}
    return sorted(lines.values(), key=lambda line: order.get(line.memory, 2))


def _notes(found: Sequence[Group]) -> list[str]:
    """Why these published figures, and whose figures are of fewer tasks."""
    labels: dict[str, list[str]] = {}
    notes = []
    for each in found:
        comparison = compare(each.records[0].config)
        for sentence in comparison.sentences if comparison.steps else []:
            labels.setdefault(sentence, []).append(each.label)
        most = max(len(other.seen) for other in found if other.scenario == each.scenario)
        if len(each.seen) < most:
            notes.append(
                f"{each.label} has learned {len(each.seen)} of {most} tasks, so its figures are not final."
            )
        notes += [
            f"{record.name} has learned {len(record.steps)} tasks and does not count."
            for record in each.behind
        ]
    return [
        sentence if names[0] in sentence else f"{'; '.join(names)}: {sentence}"
        for sentence, names in labels.items()
    ] + notes


def _row_figures(row: PublishedResult) -> dict[str, Spread]:
    values = {
        "parameters_m": (row.params_m, None),
        "avg_top1": (row.avg, row.avg_std),
        "last_top1": (row.last, row.last_std),
        "avg_top5": (row.top5_avg, None),
        "last_top5": (row.top5_last, None),
    }
    return {key: (mean, std) for key, (mean, std) in values.items() if mean is not None}


def _shown(value: object) -> str:
    """A setting in a cell: a tick for what is on, as in the paper's ablation."""
    return {True: "✓", False: ""}.get(value, str(value)) if isinstance(value, bool) else str(value)
