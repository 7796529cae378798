"""Runs tests on a memory with shards: what asks for a database of either engine gets one of three schemas.

    python -m tests.distributed.on_shards [arguments of pytest]

Without arguments for pytest it runs the suites of contracts and of what lies above the storage, and the rewinding of 60
random scripts. Some tests look behind the memory at the one engine that others have; they are left out by name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
ONE_ENGINE = (
    "TestPuttingOff or test_a_reader_with_a_description or (test_history and test_from_a_url)"
    " or test_an_import_into_a_memory_with_a_template_is_the_roots"
)
"""They run an operation on the engine, compare databases, or adopt a thread of another shard."""
ON_THEM = ["--shards", "-k", f"shards and not ({ONE_ENGINE})"]
ABOVE = ("stores", "conversations", "checkpoints", "facts", "layers", "upkeep", "compaction")
SUITES = {
    "contracts": ["tests/contracts", *ON_THEM],
    "rewinding": ["tests/rewinding/test_any_run.py", "-k", "at_every_checkpoint and shards"],
    "all above": [*(f"tests/{name}" for name in ABOVE), "tests/test_scopes.py", *ON_THEM],
}
"""Arguments of pytest, by what they test."""


def run(arguments: Sequence[str]) -> int:
    """Run pytest, and give its exit code."""
    command = [sys.executable, "-m", "pytest", "-o", "timeout=0", *arguments]
    return subprocess.run(command, env={"AGENTMEM_EXAMPLES": "60"} | os.environ, cwd=ROOT, check=False).returncode


def main() -> int:
    """Run pytest."""
    return max(run(each) for each in ([sys.argv[1:]] if sys.argv[1:] else SUITES.values()))


if __name__ == "__main__":
    sys.exit(main())
