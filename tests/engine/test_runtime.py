"""What the config's runtime sets for the whole process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from dytox.config import RuntimeConfig
from dytox.engine.runtime import set_up


@pytest.fixture(autouse=True)
def ordinary_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # so that it is undone, whatever is set
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    yield
    set_up(RuntimeConfig())


def test_deterministic_algorithms_come_with_the_workspace_that_cublas_needs() -> None:
    set_up(RuntimeConfig())
    assert not torch.are_deterministic_algorithms_enabled()
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    set_up(RuntimeConfig(deterministic=True))
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_a_workspace_of_ones_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    set_up(RuntimeConfig(deterministic=True))
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
