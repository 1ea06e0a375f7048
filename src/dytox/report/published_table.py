"""A run beside what was published for its setting, and in words why these figures."""

from __future__ import annotations

from html import escape

from dytox.published.comparable import Comparison, memory_setting
from dytox.published.figures import PublishedResult
from dytox.report import page
from dytox.report.record import Record
from dytox.report.text import mean_std, percent


def published_table(record: Record, comparison: Comparison) -> str:
    """The run first, then its method as published, then the other methods; last, what is not comparable."""
    notes = list(comparison.sentences)
    if comparison.steps and len(record.steps) < comparison.steps:
        notes.append(f"Only {len(record.steps)} of {comparison.steps} steps are learned: not comparable yet.")
    text = "".join(f"<p class='note'>{escape(each)}</p>" for each in notes)
    if not (comparison.own or comparison.alongside or comparison.apart):
        return text
    found, last = record.metrics or {}, record.steps[-1]
    top5 = any(row.top5_last is not None for row in comparison.alongside)
    head = ["Method", "Memory", "#P in M", "Avg", "Last", *(["top-5 Avg", "top-5 Last"] if top5 else [])]
    mine = [f"{record.method}, this run", memory_setting(record.config), f"{last['parameters'] / 1e6:.2f}"]
    keys = ["avg_top1", "last_top1", *(["avg_top5", "last_top5"] if top5 else [])]
    rows, classes = [[*mine, *(percent(found[key], 2) for key in keys)]], ["own"]
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
    shown = page.table(head, rows, classes=classes, words=[1])
    return f"<h3>Beside the published figures</h3>{text}{gap}{shown}"


def _gap(record: Record, comparison: Comparison) -> str:
    own, found = comparison.own, record.metrics or {}
    if own is None or comparison.steps != len(record.steps):
        return ""
    pairs = [("Avg", found["avg_top1"], own.avg), ("Last", found["last_top1"], own.last)]
    parts = [
        f"{name} {ours - theirs:+.2f} points" for name, ours, theirs in pairs if None not in (ours, theirs)
    ]
    return f"<p>Against the published {escape(own.method)} ({own.memory} memory): {', '.join(parts)}.</p>"


def _cells(row: PublishedResult, top5: bool, word: str) -> list[str]:
    name = f"{row.method}, {word}" if word else row.method
    cells = [name, row.memory, percent(row.params_m, 2), mean_std(row.avg, row.avg_std, 2)]
    cells.append(mean_std(row.last, row.last_std, 2))
    return cells + ([percent(row.top5_avg, 2), percent(row.top5_last, 2)] if top5 else [])
