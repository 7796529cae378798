"""Memories behind connection poolers, and other clients of the poolers."""

import contextlib
import time

import psycopg
import psycopg_pool
import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import AgentMemoryError

from .clients import Process, missing, run_clients
from .poolers import pgbouncer, pgpool
from .servers import pair

POOL = 3
"""Connections to the server: fewer than any client would open."""
SETTINGS = ("search_path", "jit", "lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "role")
CHANGED = "select name, setting, reset_val from pg_settings where name = any(%s) and setting is distinct from reset_val"
LEFT = (
    "select count(*) from pg_prepared_statements",
    "select count(*) from pg_cursors",
    "select count(*) from pg_listening_channels()",
    "select count(*) from pg_locks where locktype = 'advisory'",
    "select count(*) from pg_class where relpersistence = 't' and relkind = 'r'",
)


def assert_all_is_kept(url, reports):
    assert [error for each in reports for error in each.errors] == []
    assert all(min(each.said, each.shared, each.items, each.turns, each.awaited) > 0 for each in reports), reports
    with AgentMemory(url) as memory:
        assert missing(memory, reports) == []
        assert memory.admin.verify().problems == ()


def left_behind(url):
    """Return the session state on the server's connections that a new connection does not have."""
    problems = []
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(psycopg.connect(url, prepare_threshold=None)) for _ in range(POOL)]
        pids = set()
        for number, other in enumerate(others):  # each is in a transaction, so each has a connection to the server
            problems += other.execute(CHANGED, [list(SETTINGS)]).fetchall()
            problems += [(query, count) for query in LEFT if (count := other.execute(query).fetchone()[0])]
            other.execute(f"create table of_another_{number} (n int)")
            if not other.execute("select to_regclass(%s)", [f"public.of_another_{number}"]).fetchone()[0]:
                problems.append("a table does not land in public")
            pids.add(other.info.backend_pid)
            pids.add(other.execute("select pg_backend_pid()").fetchone()[0])
        for other in others:
            other.rollback()
    assert len(pids) >= POOL
    return problems


@pytest.mark.usefixtures("needs_pgbouncer")
class TestTransactionMode:
    @pytest.fixture
    def pooler(self, server):
        with pgbouncer(server, default_pool_size=POOL) as pooler:
            yield pooler

    def test_concurrent_clients_lose_nothing(self, server, pooler, database):
        assert_all_is_kept(server.url(database), run_clients(pooler.url(database)))

    def test_replaced_server_connections_lose_nothing(self, server, pooler, database):
        with pooler.reconnecting(0.5):
            reports = run_clients(pooler.url(database))
        assert_all_is_kept(server.url(database), reports)

    def test_session_reset_after_each_transaction_loses_nothing(self, server, database):
        forgetting = {"server_reset_query": "discard all", "server_reset_query_always": "1"}
        with pgbouncer(server, default_pool_size=POOL, **forgetting) as pooler:
            assert_all_is_kept(server.url(database), run_clients(pooler.url(database)))

    def test_no_session_state_is_left_for_other_clients(self, pooler, database):
        with Process(pooler.url(database), "one") as memory:
            memory.use()
            assert left_behind(pooler.url(database)) == []
            memory.use()
        assert left_behind(pooler.url(database)) == []

    def test_session_state_of_other_clients_is_ignored(self, server, pooler, database):
        others = "create schema other; create table other.entry (n int); create table other.item (n int)"
        server.run_sql(others, database)
        with Process(pooler.url(database), "one") as memory, contextlib.ExitStack() as stack:
            others = [stack.enter_context(psycopg.connect(pooler.url(database))) for _ in range(POOL)]
            for other in others:
                other.execute("set search_path = other")
                other.execute("prepare agentmem_0 as select 1")
            for other in others:
                other.commit()
            memory.use()

    def test_terminated_server_connection_is_replaced(self, server, pooler, database):
        with Process(pooler.url(database), "one") as memory:
            memory.use()
            server.run_sql(f"select pg_terminate_backend(pid, 9000) from pg_stat_activity where datname = '{database}'")
            memory.use()

    def test_pooler_can_be_restarted(self, pooler, database):
        with Process(pooler.url(database), "one") as memory:
            memory.use()
            pooler.stop()
            pooler.start()
            memory.use()

    @pytest.mark.parametrize("encoding", ["utf8", "UTF-8"])
    def test_client_pool_accepts_any_spelling_of_utf_8(self, pooler, database, encoding):
        kept = {"prepare_threshold": None, "client_encoding": encoding}
        with (
            psycopg_pool.ConnectionPool(pooler.url(database), min_size=1, open=True, kwargs=kept) as pool,
            AgentMemory(pool) as memory,
        ):
            memory.conversation("c").add_user_message("größe")
            assert memory.search("größe")


@pytest.mark.usefixtures("needs_pgbouncer")
class TestOtherModes:
    def test_session_mode_loses_nothing(self, server, database):
        with pgbouncer(server, pool_mode="session", default_pool_size=50) as pooler:
            reports = run_clients(pooler.url(database))
        assert_all_is_kept(server.url(database), reports)

    @pytest.mark.parametrize("filled", [False, True])
    def test_statement_mode_is_refused(self, server, database, filled):
        if filled:
            AgentMemory(server.url(database)).close()
        with pgbouncer(server, pool_mode="statement") as pooler:
            began = time.monotonic()
            with pytest.raises(AgentMemoryError, match="statement pooling mode"):
                AgentMemory(pooler.url(database))
            assert time.monotonic() - began < 10
            assert bool(server.run_sql("select 1 from pg_namespace where nspname = 'agentmem'", database)) == filled


@pytest.mark.usefixtures("needs_pgpool")
@pytest.mark.parametrize("load_balance", [False, True])
def test_pgpool_clients_lose_nothing(load_balance):
    with pair(synchronous=True, synchronous_commit="remote_apply") as both:
        database = both.primary.create()
        both.catch_up()
        with pgpool(both.primary, both.replica, load_balance=load_balance, num_init_children="64") as pooler:
            assert_all_is_kept(both.primary.url(database), run_clients(pooler.url(database)))
