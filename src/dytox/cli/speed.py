"""The figures of `bench` as tables: medians, ± half the distance between the quartiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dytox.cli.output import console, say, table


def show_speed(found: dict[str, Any]) -> None:
    """Print a table or a sentence for each part that was measured."""
    for name, shown in _TABLES.items():
        if name in found:
            shown(found[name])


def _model(model: dict[str, Any]) -> None:
    to = console()
    columns = ["Tasks", "plain img/s", "ours img/s", "ratio"]
    say(to, "Evaluation, ± half the distance between the quartiles", style="bold")
    rows = [[*_row(row, "evaluation"), f"{row['share_of_products']:.0%}"] for row in model["rows"]]
    table(to, [*columns, "of matrix products' speed"], rows)
    say(to, "Training step with teacher, and its memory", style="bold")
    rows = [[*_row(row, "training"), *_megabytes(row)] for row in model["rows"]]
    table(to, [*columns, "plain MB", "ours MB"], rows)
    say(to, f"Matrix products of the model's shapes: {model['products_per_second'] / 1e9:.1f} GFLOP/s, fp32.")
    if "evaluation_cost_of_a_task" in model:
        cost, left = model["evaluation_cost_of_a_task"], model["evaluation_at_most_of_at_fewest"]
        say(
            to,
            f"One more task costs {cost:.2%} of evaluation; with most tasks it is {left:.2f} times as fast.",
        )


def _row(row: dict[str, Any], key: str) -> list[str]:
    speeds = [_speed(row[key][form]) for form in ("plain", "ours")]
    return [str(row["tasks"]), *speeds, f"{row[key]['speedup']:.2f}"]


def _megabytes(row: dict[str, Any]) -> list[str]:
    return [f"{row['training_memory'][form] / 1e6:,.0f}" for form in ("plain", "ours")]


def _growth(growth: dict[str, Any]) -> None:
    to = console()
    say(to, "Time per image in evaluation with one task, relative to the model as it is", style="bold")
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
    table(to, ["With", "patches", "img/s", "measured", "counted"], rows)


def _parts(parts: dict[str, Any]) -> None:
    to = console()
    say(to, f"An evaluation pass with one task, {_speed(parts['evaluation'])} img/s", style="bold")
    rows = [
        [
            row["part"],
            f"{row['share']:.1%} ±{row['spread']:.0%}",
            row["bounded_by"],
            f"{row['of_bound']:.0%}",
        ]
        for row in parts["rows"]
    ]
    rest = ["the rest", f"{parts['rest']:.1%}", "", ""]
    table(to, ["Part", "of the pass", "Bounded by", "speed of that bound reached"], [*rows, rest])
    products, copying = parts["products_per_second"] / 1e9, parts["bytes_per_second"] / 1e9
    say(to, f"Bounds: products at {products:.1f} GFLOP/s, copying at {copying:.1f} GB/s read and written.")


def _augmentation(each: dict[str, Any]) -> None:
    say(console(), _beside("Augmentation", "images/s", each))
    say(
        console(),
        f"  That is {each['augmentation_of_step']:.1%} of a training step of cifar100-10-short; "
        f"with loading and all random draws, {each['making_a_batch_of_step']:.1%}.",
    )


def _convolutions(found: dict[str, Any]) -> None:
    to = console()
    say(to, f"Training step with teacher, encoder {found['encoder']}", style="bold")
    row = [_speed(found["step"]), _speed(found["convolutions"]), f"{found['share']:.0%}"]
    table(to, ["img/s", "bare convolutions img/s", "of their speed"], [row])


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
    say(to, "  One epoch of each phase was measured and multiplied by the number of epochs.")
    table(to, ["Part", "share"], [(part, f"{share:.1%}") for part, share in each["parts"].items()])
    table(to, ["Phase", "share"], [(phase, f"{share:.1%}") for phase, share in each["phases"].items()])


def _speed(each: dict[str, Any]) -> str:
    digits = 0 if each["per_second"] >= 1000 else 1
    return f"{each['per_second']:,.{digits}f} ±{each['spread']:.0%}"


def _beside(what: str, unit: str, each: dict[str, Any]) -> str:
    plain, ours = _speed(each["plain"]), _speed(each["ours"])
    return f"{what}: {ours} {unit}, plain form {plain}: {each['speedup']:.1f} times as fast."


_TABLES: dict[str, Callable[[dict[str, Any]], None]] = {
    "model": _model,
    "growth": _growth,
    "parts": _parts,
    "augmentation": _augmentation,
    "convolutions": _convolutions,
    "herding": _herding,
    "loading": _loading,
    "task": _task,
}
