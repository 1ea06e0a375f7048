"""The figures of `bench` for people: medians, ± half the spread of the middle half of the times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dytox.cli.output import console, say, table


def show(found: dict[str, Any]) -> None:
    """A table or a sentence for each part that was measured."""
    for name, shown in SHOWN.items():
        if name in found:
            shown(found[name])


def _model(model: dict[str, Any]) -> None:
    to = console()
    columns = ["Tasks", "plain img/s", "ours img/s", "ratio"]
    say(to, "Evaluation, ± half the spread of the middle half of the times", style="bold")
    rows = [[*_row(row, "evaluation"), f"{row['share_of_products']:.0%}"] for row in model["rows"]]
    table(to, [*columns, "of the products' speed"], rows)
    say(to, "Training step with teacher, and the memory it takes", style="bold")
    rows = [[*_row(row, "training"), *_megabytes(row)] for row in model["rows"]]
    table(to, [*columns, "plain MB", "ours MB"], rows)
    say(to, f"Products of the model's shapes: {model['products_per_second'] / 1e9:.1f} GFLOP/s, fp32.")
    if "evaluation_cost_of_a_task" in model:
        cost, left = model["evaluation_cost_of_a_task"], model["evaluation_at_most_of_at_fewest"]
        say(to, f"A task more costs {cost:.2%} of evaluation; at the most tasks it is {left:.2f} as fast.")


def _row(row: dict[str, Any], key: str) -> list[str]:
    speeds = [_speed(row[key][form]) for form in ("plain", "ours")]
    return [str(row["tasks"]), *speeds, f"{row[key]['speedup']:.2f}"]


def _megabytes(row: dict[str, Any]) -> list[str]:
    return [f"{row['training_memory'][form] / 1e6:,.0f}" for form in ("plain", "ours")]


def _growth(growth: dict[str, Any]) -> None:
    to = console()
    say(to, "The time of an image in evaluation at one task, beside the model as it is", style="bold")
    rows = [
        [
            row["changed"],
            str(row["patches"]),
            _speed(row["evaluation"]),
            f"{row['measured']:.2f}",
            f"{row['on_paper']:.2f}",
        ]
        for row in growth["rows"]
    ]
    table(to, ["With", "patches", "img/s", "measured", "on paper"], rows)


def _parts(parts: dict[str, Any]) -> None:
    to = console()
    say(to, f"An evaluation pass at one task, {_speed(parts['evaluation'])} img/s", style="bold")
    rows = [
        [
            row["part"],
            f"{row['share']:.1%} ±{row['spread']:.0%}",
            row["bounded_by"],
            f"{row['of_bound']:.0%}",
        ]
        for row in parts["rows"]
    ]
    rest = ["what is left", f"{parts['rest']:.1%}", "", ""]
    table(to, ["Part", "of the pass", "Bounded by", "speed of that bound reached"], [*rows, rest])
    products, copying = parts["products_per_second"] / 1e9, parts["bytes_per_second"] / 1e9
    say(to, f"Bounds: products at {products:.1f} GFLOP/s, copying at {copying:.1f} GB/s read and written.")


def _augmentation(each: dict[str, Any]) -> None:
    say(console(), _beside("Augmentation", "images/s", each))
    say(
        console(),
        f"  It is {each['augmentation_of_step']:.1%} of a training step of cifar100-10-short, "
        f"with loading and all draws {each['making_a_batch_of_step']:.1%}.",
    )


def _herding(each: dict[str, Any]) -> None:
    say(console(), _beside(f"Herding {each['kept']} of {each['images']:,} images", "classes/s", each))


def _loading(each: dict[str, Any]) -> None:
    to = console()
    say(to, f"Photographs of {each['width']} x {each['height']} pixels to {each['size']}, images/s:")
    rows = [("decoding alone", _speed(each["decoding"]), ""), ("Pillow", _speed(each["plain"]), "")]
    for count, speed in each["ours"].items():
        rows.append((f"{count} of our workers", _speed(speed), f"{each['share_of_decoding'][count]:.0%}"))
    table(to, ["By", "images/s", "each worker, of decoding alone"], rows)


def _task(each: dict[str, Any]) -> None:
    to = console()
    say(to, f"A task of cifar100-10-short: {each['seconds']:.0f} s, {each['computing']:.1%} computing")
    say(to, "  One epoch of each phase was measured, once, and counted as often as there are.")
    table(to, ["Part", "share"], [(part, f"{share:.1%}") for part, share in each["parts"].items()])
    table(to, ["Phase", "share"], [(phase, f"{share:.1%}") for phase, share in each["phases"].items()])


def _speed(each: dict[str, Any]) -> str:
    digits = 0 if each["per_second"] >= 1000 else 1
    return f"{each['per_second']:,.{digits}f} ±{each['spread']:.0%}"


def _beside(what: str, unit: str, each: dict[str, Any]) -> str:
    plain, ours = _speed(each["plain"]), _speed(each["ours"])
    return f"{what}: {ours} {unit}, plainly {plain}: {each['speedup']:.1f} times."


SHOWN: dict[str, Callable[[dict[str, Any]], None]] = {
    "model": _model,
    "growth": _growth,
    "parts": _parts,
    "augmentation": _augmentation,
    "herding": _herding,
    "loading": _loading,
    "task": _task,
}
