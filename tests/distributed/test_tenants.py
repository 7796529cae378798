"""`Tenants` on Citus: 200 tenants in 16 distributed schemas on two workers, and a rebalance during writes."""

import contextlib
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from zlib import crc32

import psycopg
import psycopg_pool
import pytest

from langchain_agentmem import AgentMemory, Tenants
from tests.emptying import PostgresDatabases

pytestmark = pytest.mark.timeout(600)

SCHEMAS = [f"memory_{n:02}" for n in range(16)]
NAMES = [f"tenant {n}" for n in range(200)]
WRITERS = 4
PLACES = (
    "select table_name::text, nodeport from citus_shards "
    "where citus_table_type = 'schema' and table_name::text ~ '^memory_[0-9]+[.]receipt$'"
)


@pytest.fixture
def url(coordinator):
    """The URL of a database of its own, whose schemas are distributed, ten on one worker and six on the other."""
    with contextlib.closing(PostgresDatabases(coordinator)) as databases:
        url = databases.bare("tenants")
    with psycopg.connect(url, autocommit=True) as connection:
        workers = "select citus_set_node_property(nodename, nodeport, 'shouldhaveshards', %s) from pg_dist_node"
        for number, name in enumerate(SCHEMAS):
            if number == 12:  # the last four go to one worker
                connection.execute(f"{workers} where nodeport = (select max(nodeport) from pg_dist_node)", [False])
            AgentMemory(url, schema=name).close()
            connection.execute("select citus_schema_distribute(%s::regnamespace)", [name])
        connection.execute(f"{workers} where groupid > 0", [True])
    return url


def schema_of(tenant):
    return SCHEMAS[crc32(tenant.encode()) % len(SCHEMAS)]


def test_rebalancing_schemas_loses_no_writes(url):
    stored = {name: [] for name in NAMES}
    moved = threading.Event()

    def write(names):
        rounds = 0
        while rounds < 2 or not moved.is_set():
            for name in names:
                text = f"{name} saw heron {len(stored[name])}"
                with tenants.of(name) as memory:
                    memory.conversation("c").add_user_message(text)
                    memory.store.put(("notes",), "last", {"text": text})
                stored[name].append(text)
            rounds += 1

    with (
        psycopg.connect(url, autocommit=True) as connection,
        psycopg_pool.ConnectionPool(url, min_size=WRITERS, max_size=8, open=True) as pool,
        Tenants(pool, schema_of, max_open=8) as tenants,
    ):
        places = dict(connection.execute(PLACES).fetchall())
        assert sorted(Counter(places.values()).values()) == [6, 10]
        with ThreadPoolExecutor(WRITERS) as threads:
            writing = [threads.submit(write, NAMES[n::WRITERS]) for n in range(WRITERS)]
            try:
                connection.execute("select citus_rebalance_start(rebalance_strategy => 'by_shard_count')")
                connection.execute("select citus_rebalance_wait()")
            finally:
                moved.set()
            for each in writing:
                each.result()
        now = dict(connection.execute(PLACES).fetchall())
        assert Counter(now.values()) == Counter(dict.fromkeys(now.values(), 8))
        assert len([name for name in now if now[name] != places[name]]) == 2
        for name, texts in stored.items():
            with tenants.of(name) as memory:
                assert [each.text for each in memory.conversation("c").messages] == texts
                assert [each.value["text"] for each in memory.store.search(())] == texts[-1:]
                assert {each.text.partition(" saw")[0] for each in memory.search("heron")} == {name}
        for schema in SCHEMAS:
            with AgentMemory(pool, schema=schema) as memory:
                assert memory.admin.verify().problems == ()
