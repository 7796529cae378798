"""PostgreSQL: sessions, retries, migrations, conflicts and pools."""

import _thread
import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import psycopg_pool
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_agentmem import AgentMemory, AgentMemorySaver, AgentMemoryStore, ConversationMemory, Tenants
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import (
    DatabaseBusy,
    DatabaseReadOnly,
    DatabaseTimeout,
    DatabaseUnreadable,
    ForeignDatabase,
    InvalidInput,
    MemoryClosed,
    StorageError,
)
from langchain_agentmem.storage import DatabaseOptions, engine
from langchain_agentmem.storage.postgres import _ADVISORY_LOCK, PostgresEngine, prepare_query
from langchain_agentmem.storage.postgres_session import Session
from langchain_agentmem.storage.queries import load_queries
from langchain_agentmem.tenants import schema_of_tenant
from tests.checkpoints.graphs import at, chat_graph
from tests.emptying import direct
from tests.storage.sessions import (
    KILL,
    THREAD,
    HeldOperation,
    TripCounter,
    add_texts,
    adding,
    appending,
    echo,
    entry,
    keys,
    kill_all,
    numbers,
    pool_of,
    texts_of,
)
from tests.support.locks import ANYBODY, await_waiter
from tests.support.transactions import Watched


class TestPipelining:
    def test_lazy_rows_travel_with_later_queries(self, engine, monkeypatch):
        engine.write(adding(1))
        trips = TripCounter(monkeypatch)

        def steps(tx):
            before = tx.run("all", {}, lazy=True)
            tx.run("add", {"n": 2})
            after = tx.run("all", {})
            assert trips.count == 1
            assert list(after) == [{"n": 1}, {"n": 2}]  # also when looked at once more
            return [[row["n"] for row in rows] for rows in (before, after)], before[0]["n"], len(before)

        assert engine.write(steps) == ([[1], [1, 2]], 1, 1)

    def test_checkpoint_stores_in_two_trips_reads_in_one(self, new_database, monkeypatch):
        with AgentMemory(new_database("postgres")) as memory:
            saver, config = memory.checkpointer, {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            trips = TripCounter(monkeypatch)
            for turn in range(3):
                checkpoint = empty_checkpoint() | {"channel_values": {"text": ["said " * 50, turn]}}
                checkpoint["channel_versions"] = {"text": f"{turn + 1}"}
                trips.count = 0
                config = saver.put(config, checkpoint, {}, {"text": f"{turn + 1}"})
            assert trips.count == 2
            saver.put_writes(config, [("text", ["more"])], "task")
            for named in (config, {"configurable": {"thread_id": "t"}}):
                trips.count = 0
                found = saver.get_tuple(named)
                assert (trips.count, found.checkpoint) == (1, checkpoint)
                assert found.pending_writes == [("task", "text", ["more"])]


class TestFailures:
    def test_unawaited_statement_failure_fails_the_operation(self, engine):
        attempts = []

        def steps(tx):
            attempts.append(1)
            adding(1, 2, 2, 3)(tx)

        with pytest.raises(StorageError, match="duplicate key"):
            engine.write(steps)
        assert len(attempts) > 1  # another transaction may have been the cause
        assert numbers(engine) == []
        engine.write(adding(1))
        assert numbers(engine) == [1]

    def test_aborted_operation_leaves_nothing_and_connection_is_reused(self, engine):
        def steps(tx, error):
            adding(1)(tx)
            tx.run("all", {}, lazy=True)
            raise error

        engine.write(adding(7))
        session = engine._pool.take()
        engine._pool.give_back(session)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                engine.write(lambda tx: steps(tx, ZeroDivisionError))
        assert numbers(engine) == [7]
        assert engine._pool.take() is session
        with pytest.raises(KeyboardInterrupt):
            engine.write(lambda tx: steps(tx, KeyboardInterrupt))
        assert numbers(engine) == [7]

    def test_interrupted_call_cancels_its_statement(self, engine):
        count = "select count(*) as n from pg_stat_activity where query like 'select pg_sleep%'"
        interrupting = threading.Timer(0.5, _thread.interrupt_main)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            engine.write(lambda tx: tx.run_sql("select pg_sleep(30)::text as slept", {}))
        interrupting.join()
        for _ in range(100):
            [row] = engine.read(lambda tx: list(tx.run_sql(count, {})))
            if not row["n"]:
                return
            time.sleep(0.05)
        pytest.fail("it goes on")

    def test_corrupt_pages_raise_database_unreadable(self, engine):
        for damage in ("data_corrupted", "index_corrupted"):
            raising = f"do $$ begin raise exception 'invalid page' using errcode = '{damage}'; end $$"
            with pytest.raises(DatabaseUnreadable, match="invalid page"):
                engine.write(lambda tx, raising=raising: tx.run_sql(raising, {}))

    def test_lost_idle_connection_is_replaced(self, engine):
        engine.write(adding(1))
        for steps in (adding(2), adding()):
            kill_all(engine)
            engine.write(steps)
        assert numbers(engine) == [1, 2]

    def test_read_only_connection_is_replaced_if_there_are_several_hosts(self, engine):
        engine._host_count, attempts = 2, []
        engine._pool.give_back(session := engine._pool.take())

        def steps(tx):
            attempts.append(1)
            if len(attempts) == 1:
                tx.run_sql("set transaction read only", {})
            adding(1)(tx)

        engine.write(steps)
        assert (numbers(engine), session.broken) == ([1], True)

    def test_operation_lost_before_commit_is_retried(self, engine):
        attempts = []

        def steps(tx, *last):
            attempts.append(1)
            adding(len(attempts))(tx)
            tx.run("all", {})
            if len(attempts) in {1, 3}:
                kill_all(engine)
            tx.run(*last)

        engine.write(lambda tx: steps(tx, "all", {}))
        engine.write(lambda tx: steps(tx, "add", {"n": 7}))
        assert len(attempts) == 4
        assert numbers(engine) == [2, 4, 7]

    def test_operation_lost_after_commit_is_not_retried(self, engine, monkeypatch):
        engine.write(adding(0))
        attempts, commit = [], Session.commit

        def lost(session, *, wait):
            commit(session, wait=wait)
            if wait and len(attempts) == 1:
                monkeypatch.undo()
                session.close()
                raise psycopg.OperationalError("the answer to the commit was lost")

        monkeypatch.setattr(Session, "commit", lost)

        def steps(tx):
            attempts.append(1)
            tx.run("add", {"n": 1})
            return len(attempts)

        assert engine.write(steps) == 1
        assert len(attempts) == 1
        assert numbers(engine) == [0, 1]

    def test_only_writes_leave_a_receipt(self, engine):
        engine.write(lambda tx: echo(tx, dict.fromkeys("abcde")))
        with psycopg.connect(engine._url) as connection:
            assert connection.execute("select count(*) from agentmem.receipt").fetchone() == (0,)
            for n in range(3):
                engine.write(adding(n))
            assert connection.execute("select transactions from agentmem.receipt").fetchall() == [(4,)]


class TestTimeouts:
    @pytest.fixture
    def new_database(self, new_database):
        return lambda kind: direct(new_database(kind))

    def test_slow_statement_is_a_timeout_not_a_lock(self, engine):
        engine._timeout = 0.2
        engine._sql = engine._sql | {"slow": prepare_query("select pg_sleep(60)")}

        def slow(tx):
            tx.run("slow", {})

        for run in (engine.read, engine.write):
            with pytest.raises(DatabaseTimeout):
                run(slow)
        assert numbers(engine) == []


def test_values_round_trip_or_are_rejected(engine):
    for values in (
        (1, "text", b"bytes", 0.1, True),
        (-(2**63), "", b"", math.inf, False),
        (2**63 - 1, "ü\n'\\ 😀 $1", bytes(range(256)), 1e-300, None),
        (None, None, None, None, None),
    ):
        given = dict(zip("abcde", values, strict=True))
        assert engine.read(partial(echo, given=given)) == [given]
    for wrong in ({"a": 2**63}, {"b": "a\0b"}, {"b": "\ud800"}, {"c": {"no": "value"}}):
        with pytest.raises(InvalidInput):
            engine.read(partial(echo, given=dict.fromkeys("abcde") | wrong))
    assert engine.read(lambda tx: echo(tx, given)) == [given]


@pytest.mark.bare
class TestSchema:
    def test_parts_take_schema_and_pool_options(self, postgres):
        with AgentMemory(postgres, schema="one") as memory:
            memory.store.put(("a",), "k", {"n": 1})
            chat_graph(memory.checkpointer).invoke({"messages": [HumanMessage("heron")]}, at("t"))
        with AgentMemoryStore.from_conn_string(postgres, schema="one", read_only=True) as store:
            assert store.get(("a",), "k").value == {"n": 1}
            with pytest.raises(DatabaseReadOnly):
                store.put(("a",), "k", {"n": 2})
        with AgentMemorySaver.from_conn_string(postgres, schema="one", pool_size=1) as saver:
            assert saver.get_tuple(at("t")) is not None
        for part in (AgentMemoryStore, AgentMemorySaver):
            with pytest.raises(TypeError, match="shema"):
                part.from_conn_string(postgres, shema="one")

    def test_erasure_in_one_schema_leaves_the_other(self, postgres):
        with AgentMemory(postgres, schema="one") as one, AgentMemory(postgres, schema="two") as two:
            add_texts(one, "heron")
            add_texts(two, "heron")
            assert len(two.search("heron", everything=True)) == two.admin.stats()["messages"] == 1
            one.erase(namespace=())
            assert (texts_of(one), texts_of(two)) == ([], ["heron"])
            assert one.admin.verify().problems == two.admin.verify().problems == ()


@pytest.mark.bare
class TestPools:
    def test_small_pool_suffices_and_exhausted_pool_is_reported(self, postgres, tmp_path):
        with AgentMemory(postgres, pool_size=1) as memory, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: add_texts(memory, f"heron {n}"), range(40)))
            assert len(memory.search("heron", limit=100)) == 40
        with AgentMemory(postgres, pool_size=1, busy_timeout=0.1) as memory:
            session = memory.database.engine._pool.take()
            with pytest.raises(DatabaseBusy, match="connections"):
                add_texts(memory, "heron")
            memory.database.engine._pool.give_back(session)
        with pool_of(postgres, 1) as pool, AgentMemory(pool, busy_timeout=0.1) as memory:
            for call in (
                lambda: add_texts(memory, "x"),
                memory.admin.stats,
                lambda: memory.admin.copy(tmp_path / "copy.db"),
            ):
                with pool.connection(), pytest.raises(DatabaseBusy, match="pool"):
                    call()
            add_texts(memory, "heron")

    def test_lost_pool_connection_is_replaced(self, postgres):
        with (
            psycopg_pool.ConnectionPool(postgres, min_size=1, max_size=1, open=True) as pool,
            AgentMemory(pool) as memory,
        ):
            add_texts(memory, "one")
            with psycopg.connect(postgres, autocommit=True) as connection:
                connection.execute(KILL)
            add_texts(memory, "two")
            assert texts_of(memory) == ["one", "two"]

    def test_fork_leaves_the_parent_pool_alone(self, postgres):
        with pool_of(postgres, 1) as pool, AgentMemory(pool) as memory:
            add_texts(memory, "one")
            child = os.fork()
            if child == 0:
                try:
                    add_texts(memory, "never")
                except StorageError as error:
                    os._exit("fork" in str(error))
                os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
            add_texts(memory, "two")
            assert texts_of(memory) == ["one", "two"]


@pytest.mark.bare
def test_a_standby_can_be_read(postgres):
    """What a server says that only reads, without being told."""
    with AgentMemory(postgres) as memory:
        add_texts(memory, "a heron")
    separator = "&" if "?" in postgres else "?"
    standby = f"{direct(postgres)}{separator}options=-cdefault_transaction_read_only%3Don"
    with AgentMemory(standby, read_only=True) as memory:
        assert texts_of(memory) == ["a heron"]


@pytest.mark.bare
def test_failing_migration_changes_nothing(postgres, monkeypatch):
    steps = (
        engine.Migration("0998_more", "create table more (id integer);"),
        engine.Migration("0999_bad", "create x;"),
    )
    every = engine.migrations
    for before in ([], ["kept"]):
        with monkeypatch.context() as patched:
            patched.setattr(engine, "migrations", lambda dialect: (*every(dialect), *steps))
            with pytest.raises(StorageError):
                AgentMemory(postgres)
        with psycopg.connect(postgres) as connection:
            found = connection.execute(
                "select 1 from pg_tables where schemaname = 'agentmem' and tablename in ('entry', 'more')"
            ).fetchall()
        assert len(found) == len(before)
        with AgentMemory(postgres) as memory:
            assert texts_of(memory) == before
            add_texts(memory, "kept")


@pytest.mark.bare
class TestTenants:
    @pytest.fixture
    def pool(self, postgres):
        with pool_of(postgres, 3) as pool:
            yield pool
            with pool.connection() as connection:
                for tenant in ("ada", "bob"):
                    connection.execute(f"drop schema if exists {schema_of_tenant(tenant)} cascade")

    def test_tenants_are_isolated_and_persistent(self, pool):
        for schema_of in (None, lambda tenant: "tenant"):
            for expected in ([], ["heron"]):
                with Tenants(pool, schema_of) as tenants, tenants.of("ada") as ada, tenants.of("bob") as bob:
                    assert (texts_of(ada), texts_of(bob)) == (expected, [])
                    if not expected:
                        add_texts(ada, "heron")
                    assert (len(ada.search("heron")), len(bob.search("heron"))) == (1, 0)

    def test_recently_used_idle_tenants_stay_open(self, pool):
        with Tenants(pool, max_open=1) as tenants:
            with tenants.of("ada") as first, tenants.of("bob") as second, tenants.of("ada") as same:
                assert same is first
            assert (first.database.engine.is_open, second.database.engine.is_open) == (True, False)
        assert not first.database.engine.is_open
        with pytest.raises(MemoryClosed, match="Tenants"), tenants.of("ada"):
            pass

    def test_invalid_tenant_or_pool_is_rejected(self, pool):
        with Tenants(pool) as tenants:
            for tenant in ("", "a\x00", None):
                with pytest.raises(InvalidInput, match="tenant"):
                    tenants.of(tenant)
        with pytest.raises(InvalidInput, match="psycopg_pool"):
            Tenants("postgresql://host/name")


def operation_with(operation, name, act):
    """Return an operation that acts once, before its first query of a name, and the list of its attempts."""
    attempts, acted = [], []

    def before(query):
        if query == name and not acted:
            acted.append(act())

    def racing(tx):
        attempts.append(1)
        return operation(Watched(tx, before))

    return racing, attempts


def run_in_order(memory, first, second):
    """Run two operations at the same time, of which the second one waits for a lock of the first one."""
    engine, held = memory.database.engine, HeldOperation(first)
    with ThreadPoolExecutor(2) as threads:
        writing = threads.submit(engine.write, held)
        assert held.inside.wait(120)
        waiting = threads.submit(engine.write, second)
        with psycopg.connect(direct(engine._url), autocommit=True) as watching:
            await_waiter(watching, waiting, ANYBODY)
        held.go_on.set()
    writing.result()
    waiting.result()


@pytest.fixture
def memory(new_database):
    with AgentMemory(new_database("postgres")) as memory:
        yield memory
        assert memory.admin.verify().problems == ()


def test_read_operation_cannot_write(memory):
    with pytest.raises(DatabaseReadOnly):
        memory.database.engine.read(appending(entry("m")))


class TestCompareAndSet:
    def test_append_is_retried_after_head_moved(self, memory):
        """Without the lock that makes writers queue, the compare-and-set alone must hold."""
        engine = memory.database.engine
        engine.write(appending(entry("first")))
        racing, attempts = operation_with(
            appending(entry("mine")), "move_head", lambda: engine.write(appending(entry("theirs")))
        )
        engine._sql = dict(engine._sql) | {"lock_branch": engine._sql["find_branch"]}
        assert engine.write(racing).keys == ["mine"]
        assert len(attempts) == 2
        assert keys(engine) == ["first", "theirs", "mine"]

    def test_writers_of_one_conversation_queue(self, memory):
        assert "for update" in load_queries("postgres")["lock_branch"]
        engine = memory.database.engine
        engine.write(appending(entry("first")))
        quick, attempts = operation_with(appending(entry("quick")), "", None)
        run_in_order(memory, appending(entry("slow")), quick)
        assert len(attempts) == 1
        assert keys(engine) == ["first", "slow", "quick"]


class TestSharedContent:
    @pytest.mark.parametrize("where", ["body", "attachments"])
    def test_content_collected_before_reference_is_stored_again(self, memory, where):
        """One writer finds the content there; another drops the last reference before the first can name it."""
        engine, other = memory.database.engine, ThreadKey("", "other")
        given = {where: b'{"content":"shared","role":"user"}' if where == "body" else b"[]"}
        engine.write(appending(entry("last reference", **given), at=other))
        engine.write(appending(entry("first")))
        racing, _ = operation_with(
            appending(entry("mine", **given)),
            "insert_entry",
            lambda: engine.write(lambda tx: message_log.remove(tx, other, ["last reference"])),
        )
        assert engine.write(racing).keys == ["mine"]
        assert bytes(getattr(engine.read(lambda tx: message_log.get(tx, THREAD, "mine")), where)) == given[where]

    def test_concurrent_removals_leave_no_orphaned_content(self, memory):
        one, two = ThreadKey("", "one"), ThreadKey("", "two")
        for each in (one, two):
            memory.database.engine.write(appending(entry("m"), at=each))
        run_in_order(
            memory, lambda tx: message_log.remove(tx, one, ["m"]), lambda tx: message_log.remove(tx, two, ["m"])
        )
        assert memory.admin.stats()["contents"] == 0

    def test_deleting_last_conversation_spares_a_new_one(self, memory):
        engine = memory.database.engine
        leaving, coming = ThreadKey("t\x1f", "old"), ThreadKey("t\x1f", "new")
        engine.write(appending(entry("m"), at=leaving))
        run_in_order(
            memory,
            appending(entry("kept"), at=coming),
            lambda tx: message_log.clear(tx, leaving, keep_description=False),
        )
        assert (keys(engine, coming), keys(engine, leaving)) == (["kept"], [])


@pytest.mark.bare
class TestForeignTables:
    def test_foreign_schema_is_rejected(self, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create schema agentmem")
            connection.execute("create table agentmem.secrets (id integer)")
        with pytest.raises(ForeignDatabase, match="secrets"):
            AgentMemory(url)

    def test_database_can_be_shared_with_an_application(self, postgres):
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("create table mine (entry integer)")
            with AgentMemory(postgres) as memory:
                add_texts(memory, "here")
                assert memory.admin.verify().ok
                memory.erase(namespace=())
            assert connection.execute("select count(*) from mine").fetchone() == (0,)


@pytest.mark.bare
class TestBusy:
    def test_lock_wait_ends_at_busy_timeout(self, postgres):
        with AgentMemory(postgres, busy_timeout=0.2) as memory, psycopg.connect(postgres) as other:
            add_texts(memory, "one")
            other.execute("select * from agentmem.branch for update")
            with pytest.raises(DatabaseBusy, match="busy_timeout"):
                add_texts(memory, "more")
            other.rollback()
            add_texts(memory, "more")
            assert texts_of(memory) == ["one", "more"]

    def test_zero_busy_timeout_does_not_wait_for_migration(self, new_database):
        url = direct(new_database("postgres"))
        with psycopg.connect(url) as other:
            other.execute(f"select pg_advisory_lock({_ADVISORY_LOCK})")
            with pytest.raises(DatabaseBusy, match="lock timeout"):  # and not only since `timeout` has passed
                PostgresEngine(url, DatabaseOptions(busy_timeout=0, timeout=1.0))


@pytest.mark.bare
def test_connection_string_opens_postgresql_without_a_file(new_database, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dsn = psycopg.conninfo.make_conninfo(new_database("postgres"))
    assert "host=" in dsn
    with AgentMemory(dsn) as memory:
        add_texts(memory, "hello")
    assert [message.content for message in ConversationMemory(dsn, "c").messages] == ["hello"]
    with AgentMemorySaver.from_conn_string(dsn) as saver, AgentMemoryStore.from_conn_string(dsn) as store:
        assert "***" not in repr(saver) + repr(store)
    assert list(tmp_path.iterdir()) == []
