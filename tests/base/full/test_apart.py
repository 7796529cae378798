"""What is awaited leaves the event loop to others: every method, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.forking import ENVIRONMENT

ROOT = Path(__file__).parents[3]


@pytest.mark.slow("in every form")
def test_no_method_works_through_a_large_value_or_imports_anything_on_the_loop(url, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.awaited", url, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=ENVIRONMENT,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["", ""], done.stdout
