"""Runs tests on a Citus cluster, whose coordinator is their PostgreSQL server and distributes their schemas.

    python -m tests.distributed.on_citus [arguments of pytest]

A cluster is started by a command that the environment variable AGENTMEM_CITUS names; by default it is `cluster` in
`shared/citus` beside the project's folder. `cluster start FOLDER PORT` prints the coordinator's URL, and `cluster stop
FOLDER` ends it.

Without arguments for pytest it runs the suites of contracts, the rewinding of 60 random scripts, and a search that is
compared with SQLite's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

ROOT = Path(__file__).parents[2]
COMMAND = Path(os.environ.get("AGENTMEM_CITUS") or ROOT.parent / "shared" / "citus" / "cluster")
NODES = 3
SETTINGS = {"autovacuum": "off", "synchronous_commit": "off", "jit": "off"}
"""The settings of each node; see the fixture `postgres_server`, and `docs/postgresql.md` for the last."""
ON_IT = ["--every-engine", "-k", "postgres and not reads_use_the_key_index"]  # which looks at plans
SAVER = (
    "tests/checkpoints/test_conformance.py",
    "tests/checkpoints/full/test_same_as_in_memory.py",
    "tests/checkpoints/test_checkpointer_sync.py",
    "tests/checkpoints/test_checkpointer_threads.py",
    "tests/checkpoints/test_checkpointer_forks.py",
)
STORES = (
    "tests/stores/full/test_thread_items_contract.py",
    "tests/stores/full/test_blobs.py",
    "tests/stores/test_blobs.py",
    "tests/stores/test_retriever.py",
)
REWINDING = ("-m", "", "-k", "postgres and after")  # one run after the other
SUITES = {
    "every test begins with nothing": ["tests/storage/full/test_emptying.py", "-m", "slow"],
    "stores": ["tests/contracts", *STORES, *ON_IT],
    "checkpointer": [*SAVER, *ON_IT, "-m", "not deep and (slow or not slow)", "-o", "timeout=0"],
    "rewinding": ["tests/rewinding/full/test_any_run_at_length.py", *REWINDING, "-o", "timeout=0"],
    "searching": ["tests/search/full/test_search.py", "-k", "sqlite_and_postgres"],
}
"""Arguments of pytest, by what they test."""


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """The URL of the coordinator of a new cluster."""
    folder = tempfile.mkdtemp(prefix="agentmem-citus-")
    try:
        command = [COMMAND, "start", folder, str(_free_ports(NODES))]
        url = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]
        with psycopg.connect(url, autocommit=True) as connection:
            nodes = connection.execute("select nodename, nodeport from pg_dist_node").fetchall()
        for host, port in nodes:
            with psycopg.connect(url, host=host, port=port, autocommit=True) as connection:
                for name, value in SETTINGS.items():
                    connection.execute(f"alter system set {name} = {value}")
                connection.execute("select pg_reload_conf()")
        yield url
    finally:
        subprocess.run([COMMAND, "stop", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def run(coordinator: str, arguments: Sequence[str]) -> int:
    """Run pytest on a cluster, and give its exit code."""
    names = {"AGENTMEM_TEST_POSTGRES": coordinator, "AGENTMEM_EXAMPLES": "60"}
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, env=os.environ | names, cwd=ROOT, check=False).returncode


def main() -> int:
    """Start a cluster, and run pytest."""
    with cluster() as coordinator:
        return max(run(coordinator, each) for each in ([sys.argv[1:]] if sys.argv[1:] else SUITES.values()))


def _free_ports(count: int) -> int:
    """The first of some neighbouring ports that nobody uses."""
    for first in range(21_000, 30_000, count):
        with contextlib.ExitStack() as taken, contextlib.suppress(OSError):
            for port in range(first, first + count):
                taken.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError("no ports are free")


if __name__ == "__main__":
    sys.exit(main())
