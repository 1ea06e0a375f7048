"""Killed at random moments and resumed, a run ends as one left in peace, bit by bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TORTURE = Path(__file__).parents[2] / "tools" / "torture.py"


def test_killed_runs_end_as_if_left_in_peace():
    """`make torture` kills hundreds of times; here it is a few, in processes of their own."""
    command = [sys.executable, str(TORTURE), "--kills", "5", "--seed", "3"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert "5 kills" in done.stdout
