"""Fuzzing of the public interface and the parsers: only documented errors, and a valid database."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.forking import ENVIRONMENT

ROOT = Path(__file__).parents[2]
CALLS = {"sqlite": 1_600, "postgres": 400}


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, cwd=ROOT)


@pytest.mark.slow("in every form")
@pytest.mark.bare
def test_random_calls_raise_only_documented_errors(url):
    """The same calls each time, so that a change is what is tested; `python -m tests.fuzz` makes others each time."""
    kind = "postgres" if url.startswith("postgresql://") else "sqlite"
    given = ["--url", url] if kind == "postgres" else []
    done = ran("-m", "tests.fuzz", "--seed", "7", "--calls", str(CALLS[kind]), *given)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_hostile_arguments_raise_documented_errors_and_write_nothing():
    """`tests/test_wrong_arguments.py` gives a few of these values in the quick ring."""
    done = ran("-m", "tests.fuzz", "--seed", "7", "--sweep")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.slow
def test_parsers_never_crash_hang_or_exhaust_memory():
    """The same inputs each time; `python -m tests.fuzz.parsing --inputs 5000` looks for others."""
    done = ran("-m", "tests.fuzz.parsing", "--seed", "7", "--inputs", "20")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


FENCED = """
import os, socket, sqlite3, sys
from pathlib import Path
from tests.fuzz.fence import OutsideError, raise_fence

inside, outside = Path(sys.argv[1]), Path(sys.argv[2])
raise_fence(inside)
(inside / "a.txt").write_text("inside")
os.chdir(inside)
for attempt in (
    lambda: (outside / "b.txt").write_text("outside"),
    lambda: Path("../outside/b.txt").write_text("outside"),
    lambda: os.open(outside / "b.txt", os.O_CREAT | os.O_RDWR),
    lambda: os.rename("a.txt", outside / "b.txt"),
    lambda: os.symlink(outside, "link"),
    lambda: os.mkdir(outside / "folder"),
    lambda: os.chmod(outside, 0o700),
    lambda: os.remove(outside / "there.txt"),
    lambda: sqlite3.connect(outside / "b.db"),
    lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
    lambda: os.system("true"),
):
    try:
        attempt()
    except OutsideError:
        continue
    raise SystemExit("it was let through")
print(os.listdir(), os.listdir(outside))
"""


def test_fence_blocks_outside_writes_and_network_access(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "there.txt").touch()
    done = ran("-c", FENCED, str(inside), str(outside))
    assert done.stdout == "['a.txt'] ['there.txt']\n", done.stdout + done.stderr
