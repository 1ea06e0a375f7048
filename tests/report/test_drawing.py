"""Curves, heat maps, labels and attention: the numbers behind the pictures."""

from __future__ import annotations

import io
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from made import make_run
from PIL import Image

from dytox.report import charts, heatmaps, learning, run_page, style, token_maps
from dytox.report.record import read_record


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [style.LIGHT, style.DARK])
def test_colours_can_be_told_from_their_surface(theme: dict[str, str]) -> None:
    for name in style.SERIES:
        assert contrast(theme[name], theme["surface"]) >= 3, name
    for name in ("ink", "muted"):
        assert min(contrast(theme[name], theme[each]) for each in ("surface", "page")) >= 4.5, name
    assert len(set(theme.values())) == len(theme)  # each value stands for one name


def test_labels_are_pushed_apart_and_stay_inside() -> None:
    with style.styled():
        axes = style.figure(400, 300).add_subplot()
        charts.percent_axis(axes)
        style.label_ends(
            axes,
            [(99, "a", "#000000"), (98, "b", "#000000"), (97, "c", "#000000"), (10, "d", "#000000")],
            0.1,
        )
    places = {text.get_text(): text.xy[1] for text in axes.texts}  # type: ignore[attr-defined]
    assert places["d"] == pytest.approx(0.1)
    assert places["a"] == pytest.approx(1.0)
    assert places["a"] - places["b"] == pytest.approx(0.1)
    assert places["b"] - places["c"] == pytest.approx(0.1)


def test_the_log_becomes_curves_with_gaps_between_phases() -> None:
    log = [
        {"task": 0, "phase_index": 1, "epoch": 0, "losses": {"clf": 4.0}},
        {"task": 0, "phase_index": 1, "epoch": 1, "losses": {"clf": 2.0}},
        {"task": 1, "phase_index": 2, "epoch": 0, "losses": {"clf": None, "kd": 1.0}},
    ]
    parts = learning.split_phases(log)
    assert [(part.task, part.start, part.end) for part in parts] == [(0, 1, 2), (1, 3, 3)]
    x, y = learning.curve(parts, lambda line: line["losses"]["clf"])
    assert x == [1, 2, 2, 3, 3]
    assert y[:2] == [4.0, 2.0]
    assert all(math.isnan(value) for value in y[2:])


def test_many_epochs_become_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "POINTS", 2)
    log = [
        {"task": 0, "phase_index": 0, "epoch": epoch, "losses": {"clf": float(epoch)}} for epoch in range(4)
    ]
    x, y = learning.curve(learning.split_phases(log), lambda line: line["losses"]["clf"])
    assert (x[:2], y[:2]) == ([1.5, 3.5], [0.5, 2.5])


def test_the_total_is_left_out_where_it_is_the_only_term() -> None:
    assert learning.terms([{"losses": {"clf": 1, "total": 1}}]) == ["clf"]
    assert learning.terms([{"losses": {"clf": 1, "total": 1}}, {"losses": {"kd": 1}}]) == [
        "clf",
        "kd",
        "total",
    ]


def test_confusion_between_tasks() -> None:
    counts = np.array([[3, 1, 0, 0], [0, 2, 0, 2], [1, 0, 0, 0], [0, 0, 0, 3]], dtype=float)
    assert heatmaps.between_tasks(counts, [2, 4]).tolist() == [[75.0, 25.0], [25.0, 75.0]]


def test_more_tasks_than_pixels_become_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heatmaps, "FINEST", 2)
    values = np.array([[1.0, np.nan, np.nan], [2.0, 3.0, np.nan], [4.0, 6.0, 8.0]])
    assert heatmaps.coarse(values)[0, 0] == 2.0  # of 1, 2 and 3
    assert np.isnan(heatmaps.coarse(values)[0, 1])
    assert heatmaps.coarse(values)[1].tolist() == [5.0, 8.0]


def test_attention_is_bright_where_a_token_looks() -> None:
    alpha = np.asarray(token_maps.shade(np.array([[1.0, 0.0], [0.5, np.nan]])).getchannel("A"))
    assert alpha[0, 0] == 0
    assert alpha[0, 1] == alpha[1, 1] == int(255 * token_maps.DARKEST)
    assert 0 < alpha[1, 0] < alpha[0, 1]


def test_shown_images_have_their_names_and_mistakes(five: Path) -> None:
    record = read_record(five)
    images = token_maps.attention_images(record)
    assert len(images) == 8
    assert images[0].name == "class 0"
    place = int(record.evaluation["image_places"][0])
    said = int(record.evaluation["top_classes"][place, 0])
    assert images[0].caption == ("class 0" if said == 0 else f"class 0, taken for class {said}")
    assert images[0].numbers == [1, 2, 3, 4, 5]
    assert images[0].maps.max() == 1


def test_of_very_many_tokens_some_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_maps, "TOKENS", 3)
    images = token_maps.attention_images(read_record(make_run(tmp_path / "run", tasks=10, classes=10)))
    assert images[0].numbers == [1, 5, 10]


def test_plots_are_png_and_svg(five: Path, tmp_path: Path) -> None:
    run_page.save_plots(read_record(five), tmp_path / "plots")
    names = {path.stem for path in (tmp_path / "plots").iterdir()}
    assert names == {
        *("accuracy", "accuracy-matrix", "attention", "confusion", "forgetting", "learning"),
        *("parameters", "time", "token-distances"),
    }
    for name in names:
        image = Image.open(io.BytesIO((tmp_path / "plots" / f"{name}.png").read_bytes()))
        assert min(image.size) > 300
        root = ElementTree.fromstring((tmp_path / "plots" / f"{name}.svg").read_bytes())
        assert "DyTox: " in "".join(root.itertext())
        assert style.LIGHT["surface"] in (tmp_path / "plots" / f"{name}.svg").read_text()


def test_a_run_without_a_task_has_only_its_losses(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", tasks=0, killed=True)
    assert [name for name, _, _ in run_page._plots(read_record(run))] == ["learning"]


def test_numbers_in_words_are_not_cut() -> None:
    with style.styled():
        drawn = style.figure(200, 200)
        drawn.text(0.5, 0.5, "0.00025 of $5 & <b>")
    text = style.inline(drawn, "x", 'a "picture"')
    assert "0.00025 of $5 &amp; &lt;b&gt;" in text
    assert 'aria-label="a &quot;picture&quot;"' in text
