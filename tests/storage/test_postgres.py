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
    AT,
    KILL,
    Held,
    Trips,
    adding,
    appending,
    echo,
    entry,
    keys,
    kill_all,
    numbers,
    pool_of,
    said,
    say,
)
from tests.support.locks import ANYBODY, await_waiter
from tests.support.transactions import Watched


class TestTravellingTogether:
    def test_rows_that_are_asked_for_ahead_come_with_those_that_follow(self, engine, monkeypatch):
        engine.write(adding(1))
        trips = Trips(monkeypatch)

        def steps(tx):
            before = tx.run("all", {}, lazy=True)
            tx.run("add", {"n": 2})
            after = tx.run("all", {})
            assert trips.count == 1
            assert list(after) == [{"n": 1}, {"n": 2}]  # also when looked at once more
            return [[row["n"] for row in rows] for rows in (before, after)], before[0]["n"], len(before)

        assert engine.write(steps) == ([[1], [1, 2]], 1, 1)

    def test_a_checkpoint_is_stored_in_two_trips_and_read_in_one(self, new_database, monkeypatch):
        with AgentMemory(new_database("postgres")) as memory:
            saver, config = memory.checkpointer, {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            trips = Trips(monkeypatch)
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


class TestFailing:
    def test_a_statement_that_nobody_waited_for_fails_the_whole_operation(self, engine):
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

    def test_an_operation_that_gives_up_leaves_nothing_and_the_connection_is_used_again(self, engine):
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

    def test_a_call_that_is_interrupted_stops_its_statement_on_the_server(self, engine):
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

    def test_damaged_pages_are_told_as_those_of_a_file(self, engine):
        for damage in ("data_corrupted", "index_corrupted"):
            raising = f"do $$ begin raise exception 'invalid page' using errcode = '{damage}'; end $$"
            with pytest.raises(DatabaseUnreadable, match="invalid page"):
                engine.write(lambda tx, raising=raising: tx.run_sql(raising, {}))

    def test_a_connection_that_was_lost_long_ago_is_replaced(self, engine):
        engine.write(adding(1))
        for steps in (adding(2), adding()):
            kill_all(engine)
            engine.write(steps)
        assert numbers(engine) == [1, 2]

    def test_one_that_is_lost_before_the_commit_was_carried_out_is_begun_again(self, engine):
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

    def test_one_that_is_lost_after_the_commit_was_carried_out_is_not_begun_again(self, engine, monkeypatch):
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

    def test_only_what_writes_leaves_a_receipt(self, engine):
        engine.write(lambda tx: echo(tx, dict.fromkeys("abcde")))
        with psycopg.connect(engine._url) as connection:
            assert connection.execute("select count(*) from agentmem.receipt").fetchone() == (0,)
            for n in range(3):
                engine.write(adding(n))
            assert connection.execute("select transactions from agentmem.receipt").fetchall() == [(4,)]


class TestWaiting:
    @pytest.fixture
    def new_database(self, new_database):
        return lambda kind: direct(new_database(kind))

    def test_a_statement_that_takes_too_long_is_not_told_as_a_lock(self, engine):
        engine._timeout = 0.2
        engine._sql = engine._sql | {"slow": prepare_query("select pg_sleep(60)")}

        def slow(tx):
            tx.run("slow", {})

        for run in (engine.read, engine.write):
            with pytest.raises(DatabaseTimeout):
                run(slow)
        assert numbers(engine) == []


class TestValues:
    def test_a_value_comes_back_as_it_went_or_is_refused(self, engine):
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
    def test_parts_that_are_opened_alone_take_the_same_options(self, postgres):
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

    def test_erasing_in_one_leaves_the_other(self, postgres):
        with AgentMemory(postgres, schema="one") as one, AgentMemory(postgres, schema="two") as two:
            say(one, "heron")
            say(two, "heron")
            assert len(two.search("heron", everything=True)) == two.admin.stats()["messages"] == 1
            one.erase(namespace=())
            assert (said(one), said(two)) == ([], ["heron"])
            assert one.admin.verify().problems == two.admin.verify().problems == ()


@pytest.mark.bare
class TestPools:
    def test_one_connection_is_enough_and_when_all_are_in_use_for_too_long_one_hears_why(self, postgres, tmp_path):
        with AgentMemory(postgres, pool_size=1) as memory, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: say(memory, f"heron {n}"), range(40)))
            assert len(memory.search("heron", limit=100)) == 40
        with AgentMemory(postgres, pool_size=1, busy_timeout=0.1) as memory:
            session = memory.database.engine._pool.take()
            with pytest.raises(DatabaseBusy, match="connections"):
                say(memory, "heron")
            memory.database.engine._pool.give_back(session)
        with pool_of(postgres, 1) as pool, AgentMemory(pool, busy_timeout=0.1) as memory:
            for call in (lambda: say(memory, "x"), memory.admin.stats, lambda: memory.admin.copy(tmp_path / "copy.db")):
                with pool.connection(), pytest.raises(DatabaseBusy, match="pool"):
                    call()
            say(memory, "heron")

    def test_a_connection_that_was_lost_is_replaced(self, postgres):
        with (
            psycopg_pool.ConnectionPool(postgres, min_size=1, max_size=1, open=True) as pool,
            AgentMemory(pool) as memory,
        ):
            say(memory, "one")
            with psycopg.connect(postgres, autocommit=True) as connection:
                connection.execute(KILL)
            say(memory, "two")
            assert said(memory) == ["one", "two"]

    def test_a_fork_leaves_the_pool_of_its_parent_alone(self, postgres):
        with pool_of(postgres, 1) as pool, AgentMemory(pool) as memory:
            say(memory, "one")
            child = os.fork()
            if child == 0:
                try:
                    say(memory, "never")
                except StorageError as error:
                    os._exit("fork" in str(error))
                os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
            say(memory, "two")
            assert said(memory) == ["one", "two"]


@pytest.mark.bare
class TestReadOnly:
    def test_a_standby_can_be_read(self, postgres):
        """What a server says that only reads, without being told."""
        with AgentMemory(postgres) as memory:
            say(memory, "a heron")
        separator = "&" if "?" in postgres else "?"
        standby = f"{direct(postgres)}{separator}options=-cdefault_transaction_read_only%3Don"
        with AgentMemory(standby, read_only=True) as memory:
            assert said(memory) == ["a heron"]


@pytest.mark.bare
class TestMigrations:
    def test_one_that_fails_leaves_what_was_there(self, postgres, monkeypatch):
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
                assert said(memory) == before
                say(memory, "kept")


@pytest.mark.bare
class TestTenants:
    @pytest.fixture
    def pool(self, postgres):
        with pool_of(postgres, 3) as pool:
            yield pool
            with pool.connection() as connection:
                for tenant in ("ada", "bob"):
                    connection.execute(f"drop schema if exists {schema_of_tenant(tenant)} cascade")

    def test_they_do_not_meet_and_find_what_they_said_again(self, pool):
        for schema_of in (None, lambda tenant: "tenant"):
            for expected in ([], ["heron"]):
                with Tenants(pool, schema_of) as tenants, tenants.of("ada") as ada, tenants.of("bob") as bob:
                    assert (said(ada), said(bob)) == (expected, [])
                    if not expected:
                        say(ada, "heron")
                    assert (len(ada.search("heron")), len(bob.search("heron"))) == (1, 0)

    def test_of_those_that_nobody_uses_the_last_ones_stay_open(self, pool):
        with Tenants(pool, max_open=1) as tenants:
            with tenants.of("ada") as first, tenants.of("bob") as second, tenants.of("ada") as same:
                assert same is first
            assert (first.database.engine.is_open, second.database.engine.is_open) == (True, False)
        assert not first.database.engine.is_open
        with pytest.raises(MemoryClosed, match="Tenants"), tenants.of("ada"):
            pass

    def test_what_is_no_tenant_or_pool_is_refused(self, pool):
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


def one_after_the_other(memory, first, second):
    """Run two operations at the same time, of which the second one waits for a lock of the first one."""
    engine, held = memory.database.engine, Held(first)
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


class TestReaders:
    def test_a_reading_operation_cannot_write_on_postgres(self, memory):
        with pytest.raises(DatabaseReadOnly):
            memory.database.engine.read(appending(entry("m")))


class TestCompareAndSet:
    def test_an_append_whose_head_moved_is_run_again(self, memory):
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

    def test_writers_of_one_conversation_queue_instead_of_losing(self, memory):
        assert "for update" in load_queries("postgres")["lock_branch"]
        engine = memory.database.engine
        engine.write(appending(entry("first")))
        quick, attempts = operation_with(appending(entry("quick")), "", None)
        one_after_the_other(memory, appending(entry("slow")), quick)
        assert len(attempts) == 1
        assert keys(engine) == ["first", "slow", "quick"]


class TestSharedContent:
    @pytest.mark.parametrize("where", ["body", "attachments"])
    def test_content_that_is_collected_between_being_found_and_being_named_is_stored_again(self, memory, where):
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
        assert bytes(getattr(engine.read(lambda tx: message_log.get(tx, AT, "mine")), where)) == given[where]

    def test_two_who_drop_the_last_two_references_at_once_leave_no_orphan(self, memory):
        one, two = ThreadKey("", "one"), ThreadKey("", "two")
        for each in (one, two):
            memory.database.engine.write(appending(entry("m"), at=each))
        one_after_the_other(
            memory, lambda tx: message_log.remove(tx, one, ["m"]), lambda tx: message_log.remove(tx, two, ["m"])
        )
        assert memory.admin.stats()["contents"] == 0

    def test_deleting_a_namespaces_last_conversation_spares_the_one_that_is_just_beginning(self, memory):
        engine = memory.database.engine
        leaving, coming = ThreadKey("t\x1f", "old"), ThreadKey("t\x1f", "new")
        engine.write(appending(entry("m"), at=leaving))
        one_after_the_other(
            memory,
            appending(entry("kept"), at=coming),
            lambda tx: message_log.clear(tx, leaving, keep_description=False),
        )
        assert (keys(engine, coming), keys(engine, leaving)) == (["kept"], [])


@pytest.mark.bare
class TestForeignFiles:
    def test_another_programs_schema_is_refused(self, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create schema agentmem")
            connection.execute("create table agentmem.secrets (id integer)")
        with pytest.raises(ForeignDatabase, match="secrets"):
            AgentMemory(url)

    def test_a_postgres_database_can_be_shared_with_an_application(self, postgres):
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("create table mine (entry integer)")
            with AgentMemory(postgres) as memory:
                say(memory, "here")
                assert memory.admin.verify().ok
                memory.erase(namespace=())
            assert connection.execute("select count(*) from mine").fetchone() == (0,)


@pytest.mark.bare
class TestBusy:
    def test_postgres_waits_no_longer_either(self, postgres):
        with AgentMemory(postgres, busy_timeout=0.2) as memory, psycopg.connect(postgres) as other:
            say(memory, "one")
            other.execute("select * from agentmem.branch for update")
            with pytest.raises(DatabaseBusy, match="busy_timeout"):
                say(memory, "more")
            other.rollback()
            say(memory, "more")
            assert said(memory) == ["one", "more"]

    def test_who_would_not_wait_at_all_does_not_wait_for_one_who_makes_the_tables(self, new_database):
        url = direct(new_database("postgres"))
        with psycopg.connect(url) as other:
            other.execute(f"select pg_advisory_lock({_ADVISORY_LOCK})")
            with pytest.raises(DatabaseBusy, match="lock timeout"):  # and not only since `timeout` has passed
                PostgresEngine(url, DatabaseOptions(busy_timeout=0, timeout=1.0))


@pytest.mark.bare
class TestConnectionStrings:
    def test_one_opens_postgresql_and_makes_no_file(self, new_database, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        dsn = psycopg.conninfo.make_conninfo(new_database("postgres"))
        assert "host=" in dsn
        with AgentMemory(dsn) as memory:
            say(memory, "hello")
        assert [message.content for message in ConversationMemory(dsn, "c").messages] == ["hello"]
        with AgentMemorySaver.from_conn_string(dsn) as saver, AgentMemoryStore.from_conn_string(dsn) as store:
            assert "***" not in repr(saver) + repr(store)
        assert list(tmp_path.iterdir()) == []
