"""PostgreSQL: sessions, retries, migrations, conflicts and pools."""

from __future__ import annotations

import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import psycopg_pool
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_agentmem import AgentMemory, AgentMemorySaver, AgentMemoryStore, ConversationMemory
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import (
    BranchMoved,
    DatabaseBusy,
    DatabaseReadOnly,
    DatabaseTimeout,
    ForeignDatabase,
    InvalidInput,
    NewerDatabase,
    StorageError,
)
from langchain_agentmem.storage import Opening, query
from langchain_agentmem.storage import engine as engine_module
from langchain_agentmem.storage.postgres import _ADVISORY_LOCK, PostgresEngine, prepared
from langchain_agentmem.storage.postgres_session import Session
from langchain_agentmem.storage.queries import load
from langchain_agentmem.storage.steps import Statement
from tests.checkpoints.graphs import at, chat_graph
from tests.emptying import direct
from tests.storage.sessions import Trips, adding, echo, kill_all, numbers, pool_of, said, say


class TestTravellingTogether:
    def test_statements_without_rows_wait_for_nothing_but_the_commit(self, engine, monkeypatch):
        engine.write(adding(0))
        trips = Trips(monkeypatch)

        def steps():
            yield Statement("all", {})
            yield from adding(1, 2, 3)()
            yield Statement("add", [{"n": 4}, {"n": 5}])

        engine.write(steps)
        assert trips.count == 2
        assert numbers(engine) == [0, 1, 2, 3, 4, 5]

    def test_rows_that_are_asked_for_ahead_come_with_those_that_follow(self, engine, monkeypatch):
        engine.write(adding(1))
        trips = Trips(monkeypatch)

        def steps():
            before = yield Statement("all", {}, ahead=True)
            yield Statement("add", {"n": 2})
            after = yield Statement("all", {})
            assert trips.count == 1
            assert list(after) == [{"n": 1}, {"n": 2}]  # also when looked at once more
            return [[row["n"] for row in rows] for rows in (before, after)], before[0]["n"], len(before)

        assert engine.write(steps) == ([[1], [1, 2]], 1, 1)

    def test_storing_a_checkpoint_waits_for_what_is_there_and_for_the_commit(self, new_database, monkeypatch):
        with AgentMemory(new_database("postgres")) as memory:
            saver, config = memory.checkpointer, {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            for turn in range(3):
                checkpoint = empty_checkpoint() | {"channel_values": {"text": ["said " * 50, turn]}}
                checkpoint["channel_versions"] = {"text": f"{turn + 1}"}
                trips = Trips(monkeypatch)
                config = saver.put(config, checkpoint, {}, {"text": f"{turn + 1}"})
            assert trips.count == 2

    def test_a_checkpoint_of_a_thread_that_was_seen_comes_in_one_trip(self, new_database, monkeypatch):
        with AgentMemory(new_database("postgres")) as memory:
            saver, config = memory.checkpointer, {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            checkpoint = empty_checkpoint() | {"channel_values": {"text": ["said " * 50]}}
            checkpoint["channel_versions"] = {"text": "1"}
            config = saver.put(config, checkpoint, {}, {"text": "1"})
            saver.put_writes(config, [("text", ["more"])], "task")
            for named in (config, {"configurable": {"thread_id": "t"}}):
                trips = Trips(monkeypatch)
                found = saver.get_tuple(named)
                assert trips.count == 1
                assert found.checkpoint == checkpoint
                assert found.pending_writes == [("task", "text", ["more"])]


class TestFailing:
    def test_a_statement_that_nobody_waited_for_fails_the_whole_operation(self, engine):
        attempts = []

        def steps():
            attempts.append(1)
            yield from adding(1, 2, 2, 3)()

        with pytest.raises(StorageError, match="duplicate key"):
            engine.write(steps)
        assert len(attempts) > 1  # another transaction may have been the cause
        assert numbers(engine) == []
        engine.write(adding(1))
        assert numbers(engine) == [1]

    def test_an_operation_that_gives_up_leaves_nothing_and_the_connection_is_used_again(self, engine):
        def steps(error):
            yield from adding(1)()
            yield Statement("all", {}, ahead=True)
            raise error

        engine.write(adding(7))
        session = engine._pool.take()
        engine._pool.give_back(session)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                engine.write(lambda: steps(ZeroDivisionError))
        assert numbers(engine) == [7]
        assert engine._pool.take() is session
        with pytest.raises(KeyboardInterrupt):
            engine.write(lambda: steps(KeyboardInterrupt))
        assert numbers(engine) == [7]

    def test_a_connection_that_was_lost_long_ago_is_replaced(self, engine):
        engine.write(adding(1))
        for steps in (adding(2), adding()):
            kill_all(engine)
            engine.write(steps)
        assert numbers(engine) == [1, 2]

    def test_one_that_is_lost_before_the_commit_was_carried_out_is_begun_again(self, engine):
        attempts = []

        def steps(*last):
            attempts.append(1)
            yield from adding(len(attempts))()
            yield Statement("all", {})
            if len(attempts) in {1, 3}:
                kill_all(engine)
            for statement in last:  # noqa: UP028 - rows are sent to it
                yield statement

        engine.write(lambda: steps(Statement("all", {})))
        engine.write(lambda: steps(Statement("add", {"n": 7})))
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

        def steps():
            attempts.append(1)
            yield Statement("add", {"n": 1})
            return len(attempts)

        assert engine.write(steps) == 1
        assert len(attempts) == 1
        assert numbers(engine) == [0, 1]

    def test_only_what_writes_leaves_a_receipt(self, engine):
        engine.write(lambda: echo(dict.fromkeys("abcde")))
        with psycopg.connect(engine._url) as connection:
            assert connection.execute("select count(*) from agentmem.receipt").fetchone() == (0,)
            for n in range(3):
                engine.write(adding(n))
            assert connection.execute("select transactions from agentmem.receipt").fetchall() == [(4,)]


class TestWaiting:
    """Nothing is waited for without end."""

    @pytest.fixture
    def new_database(self, new_database):
        return lambda kind: direct(new_database(kind))

    def test_a_statement_that_takes_too_long_is_not_told_as_a_lock(self, engine):
        engine._timeout = 0.2
        engine._sql = engine._sql | {"slow": prepared("select pg_sleep(60)")}

        def slow():
            yield Statement("slow", {})

        for run in (engine.read, engine.write):
            with pytest.raises(DatabaseTimeout):
                run(slow)
        assert numbers(engine) == []

    def test_a_lock_that_is_held(self, engine):
        engine._busy_timeout = 0.1
        with psycopg.connect(engine._url) as other:
            other.execute("lock table agentmem.blob_test")
            with pytest.raises(DatabaseBusy):
                engine.write(adding(1))


class TestValues:
    def test_a_value_comes_back_as_it_went_or_is_refused(self, engine):
        for values in (
            (1, "text", b"bytes", 0.1, True),
            (-(2**63), "", b"", math.inf, False),
            (2**63 - 1, "ü\n'\\ 😀 $1", bytes(range(256)), 1e-300, None),
            (None, None, None, None, None),
        ):
            given = dict(zip("abcde", values, strict=True))
            assert engine.read(lambda given=given: echo(given)) == [given]
        for wrong in ({"a": 2**63}, {"b": "a\0b"}, {"b": "\ud800"}, {"c": {"no": "value"}}):
            with pytest.raises(InvalidInput):
                engine.read(lambda wrong=wrong: echo(dict.fromkeys("abcde") | wrong))
        assert engine.read(lambda: echo(given)) == [given]


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
    def test_one_connection_is_enough(self, postgres):
        with AgentMemory(postgres, pool_size=1) as memory, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: say(memory, f"heron {n}"), range(40)))
            assert len(memory.search("heron", limit=100)) == 40
            assert len(memory.database.engine._pool._idle) == 1

    def test_when_it_is_in_use_for_too_long_one_hears_why(self, postgres):
        with AgentMemory(postgres, pool_size=1, busy_timeout=0.1) as memory:
            session = memory.database.engine._pool.take()
            with pytest.raises(DatabaseBusy, match="connections"):
                say(memory, "heron")
            memory.database.engine._pool.give_back(session)

    def test_a_pool_that_is_exhausted_is_told(self, postgres, tmp_path):
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
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where datname = current_database() and pid <> pg_backend_pid()"
                )
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
    LATER = engine_module.Migration("0999_more", "create table more (id integer);")
    BAD = engine_module.Migration("0999_bad", "create nonsense;")

    def migrate(self, monkeypatch, *later):
        real = engine_module.migrations
        monkeypatch.setattr(engine_module, "migrations", lambda dialect: (*real(dialect), *later))

    def test_the_next_one_is_applied_once_and_what_was_there_stays(self, postgres, monkeypatch, raw):
        with AgentMemory(postgres) as memory:
            say(memory, "kept")
        self.migrate(monkeypatch, self.LATER)
        for _ in range(2):
            with AgentMemory(postgres) as memory:
                assert said(memory) == ["kept"]
                assert raw(memory, "select count(*) as n from more") == [{"n": 0}]
                assert memory.admin.verify().ok
        monkeypatch.undo()
        with pytest.raises(NewerDatabase, match="0999_more"):
            AgentMemory(postgres)

    def test_one_that_fails_leaves_nothing(self, postgres, monkeypatch):
        self.migrate(monkeypatch, self.BAD)
        with pytest.raises(StorageError):
            AgentMemory(postgres)
        with psycopg.connect(postgres) as connection:
            assert connection.execute("select 1 from pg_namespace where nspname = 'agentmem'").fetchall() == []


AT = message_log.Address("", "c")


def entry(key, body=b'{"content":"x","role":"user"}', **more):
    return message_log.LogEntry(key, body, "x", created_at=1, role="user", **more)


def append(memory, at, *entries):
    return memory.database.engine.write(lambda: message_log.append(at, list(entries), now=1, tail=memory.database.tail))


class TestReaders:
    def test_a_reading_operation_cannot_write_on_postgres(self, new_database):
        with AgentMemory(new_database("postgres")) as memory, pytest.raises(DatabaseReadOnly):
            memory.database.engine.read(lambda: message_log.append(AT, [entry("m")], now=1, tail=0))


class TestCompareAndSet:
    def test_an_append_whose_head_moved_is_run_again(self, new_database):
        """Without the lock that makes writers queue, the compare-and-set alone must hold."""
        with AgentMemory(new_database("postgres")) as memory:
            engine = memory.database.engine
            append(memory, AT, entry("first"))
            attempts, once = [], threading.Event()

            def racing():
                attempts.append("begun")
                steps = message_log.append(AT, [entry("mine")], now=1, tail=0)
                statement = next(steps)
                while True:
                    if statement.query == "move_head" and not once.is_set():
                        once.set()
                        append(memory, AT, entry("theirs"))
                    try:
                        rows = yield statement
                        statement = steps.send(rows)
                    except StopIteration as done:
                        return done.value
                    except BranchMoved:
                        attempts.append("moved")
                        raise

            engine._sql = dict(engine._sql) | {"lock_branch": engine._sql["find_branch"]}
            assert engine.write(racing).keys == ["mine"]
            assert attempts == ["begun", "moved", "begun"]
            keys = [row.key for row in engine.read(lambda: message_log.messages(AT))]
            assert keys == ["first", "theirs", "mine"]
            assert memory.admin.verify().problems == ()

    def test_writers_of_one_conversation_queue_instead_of_losing(self, new_database):
        assert "for update" in load("postgres")["lock_branch"]
        with AgentMemory(new_database("postgres")) as memory:
            append(memory, AT, entry("first"))
            engine, attempts = memory.database.engine, []
            inside, go_on = threading.Event(), threading.Event()

            def slow():
                yield query.lock_branch(path="", kind=message_log.CONVERSATION, name="c")
                inside.set()
                assert go_on.wait(120)
                return (yield from message_log.append(AT, [entry("slow")], now=1, tail=0))

            def quick():
                attempts.append("begun")
                return message_log.append(AT, [entry("quick")], now=1, tail=0)

            threads = [threading.Thread(target=engine.write, args=(slow,))]
            threads[0].start()
            assert inside.wait(120)
            threads.append(threading.Thread(target=engine.write, args=(quick,)))
            threads[1].start()
            wait_for_lock(memory, threads[1])
            go_on.set()
            for thread in threads:
                thread.join()
            assert attempts == ["begun"]
            assert [row.key for row in engine.read(lambda: message_log.messages(AT))] == ["first", "slow", "quick"]


class TestSharedContent:
    @pytest.mark.parametrize("where", ["body", "attachments"])
    def test_content_that_is_collected_between_being_found_and_being_named_is_stored_again(self, new_database, where):
        """One writer finds the content there; another drops the last reference before the first can name it."""
        with AgentMemory(new_database("postgres")) as memory:
            engine, other = memory.database.engine, message_log.Address("", "other")
            shared = b'{"content":"shared","role":"user"}' if where == "body" else b"[]"
            given = {"body": shared} if where == "body" else {"attachments": shared}
            append(memory, other, entry("last reference", **given))
            append(memory, AT, entry("first"))
            once = threading.Event()

            def racing():
                steps = message_log.append(AT, [entry("mine", **given)], now=1, tail=0)
                statement = next(steps)
                while True:
                    if statement.query == "insert_entry" and not once.is_set():
                        once.set()
                        engine.write(lambda: message_log.remove(other, ["last reference"]))
                    try:
                        statement = steps.send((yield statement))
                    except StopIteration as done:
                        return done.value

            assert engine.write(racing).keys == ["mine"]
            stored = engine.read(lambda: message_log.get(AT, "mine"))
            assert bytes(stored.body if where == "body" else stored.attachments) == shared
            assert memory.admin.verify().problems == ()


class TestSharedNamespaces:
    def test_deleting_a_namespaces_last_conversation_spares_the_one_that_is_just_beginning(self, new_database):
        with AgentMemory(new_database("postgres")) as memory:
            engine = memory.database.engine
            leaving, coming = message_log.Address("t\x1f", "old"), message_log.Address("t\x1f", "new")
            append(memory, leaving, entry("m"))
            inside, go_on = threading.Event(), threading.Event()

            def slow():
                yield from message_log.append(coming, [entry("kept")], now=1, tail=0)
                inside.set()
                assert go_on.wait(120)

            writer = threading.Thread(target=engine.write, args=(slow,))
            writer.start()
            assert inside.wait(120)
            clearer = threading.Thread(
                target=engine.write, args=(lambda: message_log.clear(leaving, keep_description=False),)
            )
            clearer.start()
            wait_for_lock(memory, clearer)
            go_on.set()
            writer.join()
            clearer.join()
            assert [row.key for row in engine.read(lambda: message_log.messages(coming))] == ["kept"]
            assert engine.read(lambda: message_log.messages(leaving)) == []
            assert memory.admin.verify().problems == ()

    def test_two_who_drop_the_last_two_references_at_once_leave_no_orphan(self, new_database):
        with AgentMemory(new_database("postgres")) as memory:
            engine, one, two = memory.database.engine, message_log.Address("", "one"), message_log.Address("", "two")
            append(memory, one, entry("m"))
            append(memory, two, entry("m"))
            inside, go_on = threading.Event(), threading.Event()

            def slow():
                yield from message_log.remove(one, ["m"])
                inside.set()
                assert go_on.wait(120)

            threads = [threading.Thread(target=engine.write, args=(slow,))]
            threads[0].start()
            assert inside.wait(120)
            threads.append(threading.Thread(target=engine.write, args=(lambda: message_log.remove(two, ["m"]),)))
            threads[1].start()
            wait_for_lock(memory, threads[1])
            go_on.set()
            for thread in threads:
                thread.join()
            assert memory.admin.stats()["contents"] == 0
            assert memory.admin.verify().problems == ()


def wait_for_lock(memory, thread):
    """Wait until a thread waits for a lock of the server, or has ended."""
    with psycopg.connect(direct(memory.database.engine._url), autocommit=True) as connection:
        while thread.is_alive() and connection.execute(
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        ).fetchone() == (0,):
            pass


def filled(path, count=200):
    with AgentMemory(path) as memory:
        chat = memory.conversation("c")
        for i in range(count):
            chat.add(role="user", content=f"message number {i} " + "x" * 100)
    return path


@pytest.mark.bare
class TestForeignFiles:
    def test_another_programs_schema_is_refused(self, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create schema agentmem")
            connection.execute("create table agentmem.secrets (id integer)")

        with pytest.raises(ForeignDatabase, match="secrets"):
            AgentMemory(url)

    def test_a_postgres_database_can_be_shared_with_an_application(self, new_database):
        url = new_database("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create table entry (mine integer)")
        with AgentMemory(url) as memory:
            memory.conversation("c").add(role="user", content="here")
            assert memory.admin.verify().ok
            memory.erase(namespace=())
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute("select count(*) from entry").fetchone() == (0,)


@pytest.mark.bare
class TestBusy:
    def test_postgres_waits_no_longer_either(self, new_database):
        url = new_database("postgres")
        filled(url, 1)
        with psycopg.connect(url) as other, AgentMemory(url, busy_timeout=0.2) as memory:
            other.execute("select * from agentmem.branch for update")
            with pytest.raises(DatabaseBusy, match="busy_timeout"):
                memory.conversation("c").add(role="user", content="more")
            other.rollback()
            memory.conversation("c").add(role="user", content="more")
            assert len(memory.conversation("c")) == 2

    def test_who_would_not_wait_at_all_does_not_wait_for_one_who_makes_the_tables(self, new_database):
        url = direct(new_database("postgres"))
        with psycopg.connect(url) as other:
            other.execute(f"select pg_advisory_lock({_ADVISORY_LOCK})")
            with pytest.raises(DatabaseBusy, match="lock timeout"):  # and not only since `timeout` has passed
                PostgresEngine(url, Opening(busy_timeout=0, timeout=1.0))


@pytest.mark.bare
class TestConnectionStrings:
    def test_one_opens_postgresql_and_makes_no_file(self, new_database, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        dsn = psycopg.conninfo.make_conninfo(new_database("postgres"))
        assert "host=" in dsn
        with AgentMemory(dsn) as memory:
            assert memory.database.engine.dialect == "postgres"
            memory.conversation("c").add(role="user", content="hello")
        assert [message.content for message in ConversationMemory(dsn, "c").messages] == ["hello"]
        with AgentMemorySaver.from_conn_string(dsn) as saver, AgentMemoryStore.from_conn_string(dsn) as store:
            assert "***" not in repr(saver) + repr(store)
        assert list(tmp_path.iterdir()) == []
