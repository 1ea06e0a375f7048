"""The speed of loading is measured on made photographs."""

from __future__ import annotations

import json

import pytest

from dytox.bench.loading import measure


def test_loading_beside_pillow() -> None:
    found = measure(images=20, width=60, height=48, size=16, workers=(1,), repeats=2).to_json()
    assert (found["images"], found["width"], found["height"], found["size"]) == (20, 60, 48, 16)
    for speed in (found["pillow_decode"], found["pillow_crop"], found["ours"][1]):
        assert 0 < speed["least"] <= speed["median"] <= speed["most"]
    assert found["per_core"][1] == found["ours"][1]["median"]
    assert found["share_of_decoding"][1] == pytest.approx(
        found["per_core"][1] / found["pillow_decode"]["median"]
    )
    assert 0.5 < found["kilobytes"] < 10
    json.dumps(found)
