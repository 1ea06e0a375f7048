"""Write the tables of measured figures from the metrics in results/, so that no figure is copied by hand.

    python tools/results.py [--check]

A page asks for one by a comment, `<!-- results/RECIPE: METHOD, METHOD -->`; the table stands between that and
`<!-- end -->`. With --check nothing is written, and an old table is an error.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "results" / "README.md", ROOT / "docs" / "reproduction.md"]
HEAD = [
    "| method | seeds | after each task | Avg | Last | Forgetting |",
    "|---|--:|---|--:|--:|--:|",
]
_ASKED = re.compile(r"(<!-- results/([\w.-]+): ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def seeds(recipe: str) -> dict[str, list[dict[str, Any]]]:
    """Read the metrics of every recorded seed, by method."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((ROOT / "results" / recipe).glob("*-seed-*.json")):
        method = path.stem.rpartition("-seed-")[0]
        found.setdefault(method, []).append(json.loads(path.read_text(encoding="utf-8")))
    return found


def figure(values: list[float]) -> str:
    """Return the mean and, of several values, the standard deviation (n - 1)."""
    mean = f"{statistics.mean(values):.1f}"
    if len(values) == 1:
        return mean
    deviation = statistics.stdev(values)
    return f"{mean} ± {deviation:.{1 if deviation >= 0.1 else 2}f}"  # ± 0.05, not ± 0.0


def row(method: str, runs: list[dict[str, Any]]) -> str:
    """Return a line of the table; the accuracies after each task are means over the seeds."""
    last = figure([run["last_top1"] for run in runs])
    if len(runs[0]["steps"]) == 1:
        return f"| `{method}`, all at once | {len(runs)} | | | {last} | |"
    steps = zip(*([step["top1"] for step in run["steps"]] for run in runs), strict=True)
    curve = ", ".join(f"{statistics.mean(values):.1f}" for values in steps)
    average, forgetting = (figure([run[key] for run in runs]) for key in ("avg_top1", "forgetting"))
    return f"| `{method}` | {len(runs)} | {curve} | {average} | {last} | {forgetting} |"


def table(recipe: str, methods: list[str]) -> str:
    """Return the rows of these methods, in the given order."""
    found = seeds(recipe)
    return "\n".join([*HEAD, *(row(method, found[method]) for method in methods)]) + "\n"


def main() -> None:
    """Fill in the tables of all pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a table is out of date")
    check = parser.parse_args().check
    for path in PAGES:
        old = path.read_text(encoding="utf-8")
        new = _ASKED.sub(lambda found: found[1] + table(found[2], found[3].split(", ")) + found[4], old)
        if not check:
            path.write_text(new, encoding="utf-8")
        elif new != old:
            sys.exit(f"{path.relative_to(ROOT)} has another table than results/: run `make docs`.")


if __name__ == "__main__":
    main()
