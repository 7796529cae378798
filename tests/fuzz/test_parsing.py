"""Whatever readers are given, they return or raise an error of ours, in bounded time and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.forking import ENVIRONMENT

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_no_reader_fails_hangs_or_fills_the_memory():
    """The same inputs each time; `python -m tests.fuzz.parsing --seconds 300` looks for others."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.parsing", "--seed", "7", "--inputs", "20"],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
