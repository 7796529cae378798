"""Tenants as shards on Citus: nodes are added, shards are moved by Citus and tenants by us, while others write."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_entry
from langchain_agentmem.storage import Opening
from langchain_agentmem.storage.shards import Shards
from tests.distributed.test_citus import coordinator

__all__ = ["coordinator"]

pytestmark = pytest.mark.timeout(600)

SHARDS, TENANTS, WRITERS = 16, 200, 4


def on(connection, sql):
    return [value for (value,) in connection.execute(sql).fetchall()]


@pytest.fixture
def one_worker(coordinator):
    """The URL of a cluster whose second worker is not in use yet, and the port of that."""
    with psycopg.connect(coordinator, autocommit=True) as connection:
        for schema in on(connection, "select nspname from pg_namespace where nspname ~ '^(agentmem|vault)'"):
            connection.execute(f"drop schema {schema} cascade")
        ports = on(connection, "select nodeport from pg_dist_node where groupid > 0 order by 1")
        connection.execute("select citus_remove_node('127.0.0.1', %s)", (ports[-1],))
    yield coordinator, ports[-1]
    with psycopg.connect(coordinator, autocommit=True) as connection:
        for schema in on(connection, "select nspname from pg_namespace where nspname ~ '^(agentmem|vault)'"):
            connection.execute(f"drop schema {schema} cascade")
        connection.execute("select citus_add_node('127.0.0.1', %s)", (ports[-1],))


def nodes(connection):
    """How many schemas there are on each node."""
    return Counter(on(connection, "select nodeport from citus_shards where table_name::text ~ 'agentmem_.*branch$'"))


def wait_for_rebalance(connection):
    connection.execute("select citus_rebalance_start(shard_transfer_mode := 'block_writes')")
    connection.execute("select citus_rebalance_wait()")


def test_nothing_is_lost_or_doubled_while_nodes_are_added_and_a_tenant_moves(one_worker):
    url, port = one_worker
    done = threading.Event()
    shards = Shards(url, Opening(shards=SHARDS))

    def write(number):
        """Writes to each of its tenants in turn, and gives how often it wrote to each."""
        counts = Counter()
        with AgentMemory(url, schema="agentmem_00") as memory:
            while not done.is_set():
                tenant = f"t{number + WRITERS * (sum(counts.values()) % (TENANTS // WRITERS))}"
                memory.database.engine = shards.of(f"{tenant}\x1f")
                said = f"{tenant} {counts[tenant]}"
                memory.conversation("c", (tenant,)).add(HumanMessage(said, id=said))
                counts[tenant] += 1
        return counts

    try:
        with psycopg.connect(url, autocommit=True) as connection, ThreadPoolExecutor(WRITERS) as pool:
            assert len(nodes(connection)) == 1
            writing = [pool.submit(write, number) for number in range(WRITERS)]
            try:
                time.sleep(5)
                connection.execute("select citus_add_node('127.0.0.1', %s)", (port,))
                wait_for_rebalance(connection)
                for name in (*(each.schema for each in shards.engines[:3]), "vault"):
                    shards.move("t7\x1f", name, audit_entry.following, own=name == "vault")
                time.sleep(2)
            finally:
                done.set()
            counts = sum((each.result() for each in writing), Counter())
            assert len(nodes(connection)) == 2
        with AgentMemory(url, schema="agentmem_00") as memory:
            for tenant, count in counts.items():
                memory.database.engine = shards.of(f"{tenant}\x1f")
                said = Counter(message.text for message in memory.conversation("c", (tenant,)).messages)
                assert said == Counter(f"{tenant} {n}" for n in range(count))
        with AgentMemory(url, schema="vault") as memory:
            assert memory.stats()["messages"] == counts["t7"]
            assert memory.verify().problems == ()
        with AgentMemory(url, schema=shards.engines[2].schema) as memory:
            assert memory.verify().problems == ()
    finally:
        shards.close()
