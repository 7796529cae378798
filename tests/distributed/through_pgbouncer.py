"""Runs the tests through PgBouncer: memories are opened through it, and raw access goes to the server.

    python -m tests.distributed.through_pgbouncer [--pool-mode transaction] [--pool-size 50] [arguments of pytest]

Without arguments for pytest all tests run that ask for a database of PostgreSQL. PgBouncer replaces its connections to
the server every few seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .poolers import pgbouncer
from .servers import HOST, postgres

ROOT = Path(__file__).parents[2]
FORGETFUL = {"autovacuum": "off", "synchronous_commit": "off"}
"""What the server of the tests has, too; see the fixture `postgres_server`, whose server is the carried one, too."""

ALL = ["-n", "auto", "--dist", "worksteal", "--full"]
OURS = {"new_database", "postgres_databases", "postgres_server"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what asks for no database of PostgreSQL: this module is a plugin of the tests that it runs."""
    left_out = {item for item in items if "sqlite" in item.name or not OURS.intersection(item.fixturenames)}
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def main() -> int:
    """Start a server and a pooler, and run pytest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool-mode", choices=("transaction", "session", "statement"), default="transaction")
    parser.add_argument("--pool-size", type=int, default=50, help="connections to the server for each database")
    options, arguments = parser.parse_known_args()
    pool = {"pool_mode": options.pool_mode, "default_pool_size": options.pool_size, "server_idle_timeout": "10"}
    with postgres(carried=True, max_connections="1000", **FORGETFUL) as server, pgbouncer(server, **pool) as pooler:
        names = {"AGENTMEM_TEST_POSTGRES": server.url(), "AGENTMEM_TEST_POOLER": f"{HOST}:{pooler.port}"}
        command = [sys.executable, "-m", "pytest", "-p", __spec__.name, *(arguments or ALL)]
        with pooler.reconnecting(5.0):
            return subprocess.run(command, env=os.environ | names, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
