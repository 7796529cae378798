"""Every example runs as a reader would run it, and prints what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"

PRINTS = {
    "edit_and_regenerate.py": [
        "agent> this memory:     ['My sister Ana lives in Lisbon.']",
        (
            "agent> this memory:     ['My sister Ana lives in Porto.']\n"
            "  LangGraph store: ['My sister Ana lives in Lisbon.', 'My sister Ana lives in Porto.']"
        ),
        "shows what was known there: ['My sister Ana lives in Lisbon.']",
    ],
    "long_chat.py": [
        "the thread holds 120 messages",
        "human: Day 1: I planted a medlar tree",
        "human: This is a record of",
        "of 119 messages.",
        "Day 12: I planted a walnut tree at the wall, and wrote its name on slate number 84.",
    ],
    "quickstart.py": ["You told me: My sister Ana lives in Lisbon", "recalled from 'monday'", "because of ana +"],
}


def test_every_example_has_its_promise():
    assert {path.name for path in EXAMPLES.glob("*.py")} == PRINTS.keys()


@pytest.mark.parametrize("name", sorted(PRINTS))
def test_an_example_keeps_its_promise(name, tmp_path):
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    for promised in PRINTS[name]:
        assert promised in run.stdout
    assert list(tmp_path.iterdir()) == []
