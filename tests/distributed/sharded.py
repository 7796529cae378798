"""Tenants of a memory with shards that write at once, and what a second worker of a Citus cluster brings them.

python -m tests.distributed.sharded /path/to/citus/cluster [--seconds 20] [--messages 20000]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_entry
from langchain_agentmem.storage import Opening
from langchain_agentmem.storage.shards import Shards

SHARDS, TENANTS, WRITERS = 16, 200, 4
FIRST_PORT = 20_500


class TenantWriters:
    """Write messages to conversations of 200 tenants, each into its own in turn, until they are told to stop.

    Args:
        url: The memory.
        shards: Its shards.
    """

    def __init__(self, url: str, shards: Shards) -> None:
        self._url, self._shards = url, shards
        self._done = threading.Event()
        self._pool = ThreadPoolExecutor(WRITERS)
        self._writing = [self._pool.submit(self._write, number) for number in range(WRITERS)]

    def stop(self) -> Counter[str]:
        """How many messages each tenant has."""
        self._done.set()
        with self._pool:
            return sum((each.result() for each in self._writing), Counter())

    def _write(self, number: int) -> Counter[str]:
        counts: Counter[str] = Counter()
        with AgentMemory(self._url, schema=f"agentmem_{number:02}") as memory:
            while not self._done.is_set():
                tenant = f"t{number + WRITERS * (counts.total() % (TENANTS // WRITERS))}"
                said = f"{tenant} {counts[tenant]}"
                conversation_of(memory, self._shards, tenant).add(HumanMessage(said, id=said))
                counts[tenant] += 1
        return counts


def conversation_of(memory, shards, tenant):
    """The conversation of a tenant, wherever the tenant is."""
    memory.database.engine = shards.of(f"{tenant}\x1f")
    return memory.conversation("c", (tenant,))


def column(connection, sql):
    """The only column of some rows."""
    return [value for (value,) in connection.execute(sql).fetchall()]


def empty(connection):
    """Drop all our schemas."""
    for schema in column(connection, "select nspname from pg_namespace where nspname ~ '^(agentmem|vault)'"):
        connection.execute(f"drop schema {schema} cascade")


def workers(connection):
    """The ports of the workers."""
    return column(connection, "select nodeport from pg_dist_node where groupid > 0 order by 1")


def nodes(connection):
    """How many shards there are on each node."""
    return Counter(column(connection, "select nodeport from citus_shards where table_name::text ~ '[.]branch$'"))


def add_worker(connection, port):
    """Put a worker in use, and have Citus move shards to it."""
    connection.execute("select citus_add_node('127.0.0.1', %s)", (port,))
    connection.execute("select citus_rebalance_start(shard_transfer_mode := 'block_writes')")
    connection.execute("select citus_rebalance_wait()")


def main() -> None:
    """Print how much two workers write where one writes 1, and how long a tenant takes to move."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("cluster")
    given.add_argument("--seconds", type=float, default=20)
    given.add_argument("--messages", type=int, default=20_000)
    asked = given.parse_args()
    folder = tempfile.mkdtemp(prefix="agentmem-citus-")
    try:
        started = subprocess.run(
            [asked.cluster, "start", folder, str(FIRST_PORT)], stdout=subprocess.PIPE, text=True, check=True
        )
        _measure(started.stdout.split()[-1], asked)
    finally:
        subprocess.run([asked.cluster, "stop", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _measure(url: str, asked: argparse.Namespace) -> None:
    rates = []
    with psycopg.connect(url, autocommit=True) as connection:
        port = workers(connection)[-1]
        connection.execute("select citus_remove_node('127.0.0.1', %s)", (port,))
        shards = Shards(url, Opening(shards=SHARDS))
        for number in (1, 2):
            if number == 2:
                began = time.perf_counter()
                add_worker(connection, port)
                print(f"rebalanced in {time.perf_counter() - began:.1f} s: {dict(nodes(connection))}")
            writers = TenantWriters(url, shards)
            time.sleep(asked.seconds)
            rates.append(writers.stop().total() / asked.seconds)
            print(f"{number} worker(s): {rates[-1]:.0f} messages/s")
        print(f"2 workers to 1: {rates[1] / rates[0]:.2f}")
        with AgentMemory(url, schema="agentmem_00") as memory:
            chat = conversation_of(memory, shards, "large")
            for first in range(0, asked.messages, 1000):
                chat.add_messages([HumanMessage(f"{n} herons and quinces") for n in range(first, first + 1000)])
        for name in ("agentmem_00", "agentmem_01", "vault"):
            began = time.perf_counter()
            moved = shards.move("large\x1f", name, audit_entry.following, own=name == "vault")
            took = time.perf_counter() - began
            print(f"{sum(moved.rows.values())} rows from {moved.source} to {moved.target}: {took:.1f} s")
        shards.close()


if __name__ == "__main__":
    main()
