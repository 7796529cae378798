"""Tenants as shards on Citus: a node is added, shards are moved by Citus and a tenant by us, while others write."""

from __future__ import annotations

import contextlib
import time
from collections import Counter

import psycopg
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_entry
from langchain_agentmem.errors import DatabaseBusy
from langchain_agentmem.storage import Opening
from langchain_agentmem.storage.shards import Shards
from tests.distributed import sharded

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def one_worker(coordinator):
    """A connection to a cluster whose second worker is not in use yet, and the port of that."""
    with psycopg.connect(coordinator, autocommit=True) as connection:
        sharded.empty(connection)
        port = sharded.workers(connection)[-1]
        connection.execute("select citus_remove_node('127.0.0.1', %s)", (port,))
        yield connection, port
        sharded.empty(connection)


def test_nothing_is_lost_or_doubled_while_a_node_is_added_and_a_tenant_moves(coordinator, one_worker):
    connection, port = one_worker
    shards = Shards(coordinator, Opening(shards=sharded.SHARDS))
    try:
        assert len(sharded.nodes(connection)) == 1
        writers = sharded.TenantWriters(coordinator, shards)
        try:
            time.sleep(5)
            sharded.add_worker(connection, port)
            for name in (*(each.schema for each in shards.engines[:3]), "vault"):
                shards.move("t7\x1f", name, audit_entry.following, own=name == "vault")
            impatient = Shards(coordinator, Opening(busy_timeout=1.0))
            with contextlib.closing(impatient), shards.still(), pytest.raises(DatabaseBusy):
                impatient.move("t7\x1f", "agentmem_01", audit_entry.following)
            time.sleep(2)
        finally:
            counts = writers.stop()
        assert len(sharded.nodes(connection)) == 2
        with AgentMemory(coordinator, schema="agentmem_00") as memory:
            for tenant, count in counts.items():
                said = Counter(message.text for message in sharded.conversation_of(memory, shards, tenant).messages)
                assert said == Counter(f"{tenant} {n}" for n in range(count))
        for name in ("vault", "agentmem_00", "agentmem_02"):
            with AgentMemory(coordinator, schema=name) as memory:
                assert memory.verify().problems == ()
                assert name != "vault" or memory.stats()["messages"] == counts["t7"] > 0
    finally:
        shards.close()
