"""Made-up runs, and one Chromium for all tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import PROGRAM, Browser
from made import make_run


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Headless Chromium."""
    if PROGRAM is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def five(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of five tasks on digits."""
    return make_run(tmp_path_factory.mktemp("five") / "run")


@pytest.fixture(scope="session")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the paper's ten steps on CIFAR-100."""
    return make_run(tmp_path_factory.mktemp("ten") / "run", recipe="cifar100-10", tasks=10, classes=100)
