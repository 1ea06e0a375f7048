"""The speed of loading is measured on made photographs."""

from __future__ import annotations

import json

import pytest

from dytox.bench.loading import of_loading


def test_loading_beside_pillow() -> None:
    said: list[str] = []
    found = of_loading(2, said.append, images=20, width=60, height=48, size=16, workers=(1,))
    assert said == ["loading large images: Pillow and ours in turn"]
    assert (found["images"], found["width"], found["height"], found["size"]) == (20, 60, 48, 16)
    for each in (found["decoding"], found["plain"], found["ours"]["1"]):
        assert 0 < each["low"] <= each["median"] <= each["high"]
    ratio = found["ours"]["1"]["per_second"] / found["decoding"]["per_second"]
    assert found["share_of_decoding"]["1"] == pytest.approx(ratio)
    assert 0.5 < found["kilobytes"] < 10
    json.dumps(found)
