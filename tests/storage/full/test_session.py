"""PostgreSQL statements are pipelined, and each operation is still one atomic transaction."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from types import SimpleNamespace

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import CheckpointUnreadable, DatabaseTimeout, StorageError
from langchain_agentmem.storage import postgres, postgres_session, query
from langchain_agentmem.storage.engine import DatabaseOptions
from langchain_agentmem.storage.postgres import _WRITE_RECEIPT, PostgresEngine, prepare_query
from langchain_agentmem.storage.postgres_session import Connection, Session
from langchain_agentmem.storage.queries import load_queries, number_parameters, returns_rows
from tests.emptying import direct
from tests.storage.sessions import adding, echo, kill_all, numbers, pool_of
from tests.support.locks import ANYBODY, await_waiter


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_damaged_checkpoint_versions_raise_unreadable(new_database, raw, kind):
    with AgentMemory(new_database(kind)) as memory:
        saver, config = memory.checkpointer, {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        checkpoint = empty_checkpoint() | {"channel_values": {"a": "said"}, "channel_versions": {"a": "1"}}
        named = saver.put(config, checkpoint, {}, {"a": "1"})
        assert saver.get(named)["channel_values"] == {"a": "said"}
        for versions in ("", "{", "[]", '{"a":1}', '{"a":"\\q"}', '{"a":"\\u0000"}', '{"a":"1"}x'):
            raw(memory, f"update checkpoint set versions = '{versions}'")
            for each in (named, config):
                with pytest.raises(CheckpointUnreadable):
                    pytest.fail(f"{versions} gave {saver.get_tuple(each)}")


def test_transactions_keep_the_server_synchronous_commit(new_database):
    url = direct(new_database("postgres"))
    for said in ("on", "local"):
        with closing(PostgresEngine(f"{url}&options=-csynchronous_commit%3D{said}")) as engine:
            engine._sql = dict(engine._sql) | {
                "show": prepare_query("select current_setting('synchronous_commit') as a")
            }
            for run in (engine.read, engine.write):
                assert run(shown) == [{"a": said}]


def shown(tx):
    return list(tx.run("show", {}))


class TestPlans:
    def test_statement_is_planned_once_until_analyzed(self, new_database):
        with AgentMemory(direct(new_database("postgres")), pool_size=1) as memory:
            for number in range(10):
                memory.conversation("c").add(role="user", content=f"heron {number}")
                memory.search("heron")
            [session] = memory.database.engine._pool._idle
            session.leave()
            [(anew, kept)] = session.connection.execute(
                "select sum(custom_plans)::int, max(generic_plans)::int from pg_prepared_statements "
                "where statement not like 'select set_config%'"
            ).fetchall()
            session.enter()
        assert (anew, kept >= 10) == (0, True)


def test_operation_larger_than_the_pipe_completes(engine):
    bodies = {bytes([n % 256, n // 256]) * 10: bytes([n % 256]) * 3_000 for n in range(3_000)}

    def steps(tx):
        query.store_content.run_many(tx, [{"hash": key, "body": body} for key, body in bodies.items()])
        adding(1)(tx)

    engine.write(steps)
    with psycopg.connect(engine._url) as connection:
        assert connection.execute("select count(*) from agentmem.content").fetchone() == (3_000,)


class TestFailures:
    def test_failed_preparation_is_retried(self, engine):
        with psycopg.connect(engine._url, autocommit=True) as connection:
            connection.execute("alter table agentmem.blob_test rename to away")
            with pytest.raises(StorageError, match="blob_test"):
                engine.write(adding(1))
            connection.execute("alter table agentmem.away rename to blob_test")
        engine.write(adding(1))
        assert numbers(engine) == [1]

    def test_lost_commit_outcome_is_awaited(self, engine):
        """The server is still at it when the client has lost the connection already."""
        engine.write(adding(0))
        lost = engine._pool.take()
        with ThreadPoolExecutor(1) as threads:
            for end, committed in ((lambda: lost.commit(wait=True), True), (lost.roll_back, False)):
                lost.begin(engine.options.schema, write=True, lock_timeout=60, timeout=60)
                lost.execute(_WRITE_RECEIPT, lost.receipt)
                lost.wait_all()
                asked = threads.submit(engine._was_committed, lost)
                with psycopg.connect(direct(engine._url), autocommit=True) as watching:
                    await_waiter(watching, asked, ANYBODY)
                end()
                assert asked.result() is committed

    def test_unknown_commit_outcome_is_an_error(self, engine, monkeypatch):
        engine._timeout = 0.2
        commit = Session.commit

        def lost(session, *, wait):
            commit(session, wait=wait)
            if wait:
                session.close()
                monkeypatch.setattr(engine, "_url", "postgresql://127.0.0.1:1/gone")
                raise psycopg.OperationalError("the answer to the commit was lost")

        monkeypatch.setattr(Session, "commit", lost)
        with pytest.raises(StorageError, match="may be stored or not"):
            engine.write(adding(1))

    def test_receipts_are_deleted_after_a_day(self, engine, monkeypatch):
        now, day = 2_000_000_000_000_000, 24 * 3_600 * 1_000_000
        clock = SimpleNamespace(time_ns=lambda: now * 1_000, monotonic=time.monotonic)
        monkeypatch.setattr(postgres_session, "time", clock)
        with psycopg.connect(engine._url) as connection:
            for session, at in ((-1, 1), (-2, now - day - 1), (-3, now - day), (-4, now - 1)):
                connection.execute("insert into agentmem.receipt values (%s, 1, %s)", (session, at))
        engine.write(adding(1))
        with psycopg.connect(engine._url) as connection:
            found = connection.execute("select session from agentmem.receipt where session < 0 order by 1").fetchall()
            assert found == [(-4,), (-3,)]
            assert connection.execute("select count(*) from agentmem.receipt").fetchone() == (3,)


def backend(engine):
    """The process of the server that serves the engine's only session."""
    session = engine._pool.take()
    engine._pool.give_back(session)
    return session._libpq.backend_pid


class TestTimeouts:
    """Nothing is waited for without end."""

    @pytest.fixture
    def new_database(self, new_database):
        return lambda kind: direct(new_database(kind))

    @pytest.mark.slow
    @pytest.mark.parametrize("write", [True, False])
    def test_unresponsive_server_raises_timeout(self, engine, write):
        engine.write(adding(1))
        engine._timeout = 0.1
        stopped = backend(engine)
        os.kill(stopped, signal.SIGSTOP)
        try:
            with pytest.raises(DatabaseTimeout):
                engine._run(lambda tx: echo(tx, dict.fromkeys("abcde")), write=write)
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert numbers(engine) == [1]

    @pytest.mark.parametrize(
        ("error", "needed"), [(None, 4), ("57P03", 4), ("53300", 4), ("57P01", 4), ("28P01", None), ("cut", 4)]
    )
    def test_refused_connection_is_retried_except_wrong_password(self, engine, monkeypatch, error, needed):
        engine.write(adding(1))
        kill_all(engine)
        connect, tries = Connection.connect, []

        def refusing(*args, **named):
            tries.append(1)
            if error == "cut":  # as soon as it was made
                connection = connect(*args, **named)
                if len(tries) < needed:
                    kill_all(engine)
                return connection
            if needed is None or len(tries) < needed:
                raise psycopg.errors.lookup(error)("no") if error else psycopg.OperationalError("refused")
            return connect(*args, **named)

        monkeypatch.setattr(Connection, "connect", refusing)
        with nullcontext() if needed else pytest.raises(StorageError):
            engine.write(adding(2))
        assert len(tries) == (needed or 1)

    def test_unreachable_server_is_reported(self, engine, monkeypatch):
        engine.write(adding(1))
        kill_all(engine)
        engine._timeout, now, waits = 3.0, 1_000.0, []

        def sleep(seconds):
            nonlocal now
            now += seconds
            waits.append(seconds)

        monkeypatch.setattr(postgres, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
        monkeypatch.setattr(engine, "_url", "postgresql://127.0.0.1:1/gone")
        with pytest.raises(StorageError, match="refused"):
            engine.write(adding(2))
        assert sum(waits) == pytest.approx(3.0)  # and no longer
        assert max(waits) <= 1.0


class TestPoolers:
    """A pooler gives each transaction a server that others have used."""

    @pytest.fixture
    def new_database(self, new_database):
        return lambda kind: direct(new_database(kind))

    def test_pooler_is_detected_concurrently(self, engine):
        sessions = [engine._pool.take() for _ in range(4)]
        for session in sessions:
            engine._pool.give_back(session)
        meet = threading.Barrier(4)

        def one(number):
            attempts = []

            def steps(tx):
                attempts.append(1)
                if len(attempts) == 1:
                    meet.wait(10)  # each is on a session of its own
                adding(number)(tx)

            engine.write(steps)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(one, range(4)))
            for session in [engine._pool.take() for _ in range(4)]:
                forget(engine, session)
            list(threads.map(one, range(4, 8)))
        for number in range(8, 12):
            engine.write(adding(number))
        assert numbers(engine) == list(range(12))
        assert engine._pool._count == len(engine._pool._idle)


def forget(engine, session):
    """Let a server have none of the statements that it was told to prepare, as another one behind a pooler."""
    assert session.is_direct
    session._libpq.exit_pipeline_mode()
    session.connection.execute("deallocate all")
    session._libpq.enter_pipeline_mode()
    engine._pool.give_back(session)


SHOW_SETTINGS = "select current_setting('search_path') as path, current_setting('lock_timeout') as wait"


@pytest.mark.parametrize("own_pool", [False, True])
def test_settings_are_sent_once_on_an_own_connection_only(new_database, monkeypatch, own_pool):
    url, sent, send = direct(new_database("postgres")), [], Session._send

    def watched(session, text, parameters=()):
        sent.append(text)
        return send(session, text, parameters)

    monkeypatch.setattr(Session, "_send", watched)
    with pool_of(url, 1) if own_pool else nullcontext(url) as given:
        with closing(PostgresEngine(given, DatabaseOptions(busy_timeout=7, pool_size=1))) as engine:
            engine._sql = dict(engine._sql) | {"show": prepare_query(SHOW_SETTINGS)}
            assert sent.count(postgres_session.SETTINGS) >= 1  # by the opening
            sent.clear()
            for run in (engine.read, engine.write, engine.read):
                assert run(shown) == [{"path": "agentmem", "wait": "7s"}]
                with pytest.raises(ZeroDivisionError):
                    engine.write(lambda tx: (shown(tx), 1 / 0))  # a rollback keeps the settings
            assert sent.count(postgres_session.SETTINGS) == (6 if own_pool else 0)
        if own_pool:
            with given.connection() as connection:
                assert connection.execute(SHOW_SETTINGS).fetchone() != ("agentmem", "7s")


def test_settings_are_sent_each_time_if_the_server_has_another_address(new_database, monkeypatch):
    monkeypatch.setattr(
        postgres_session, "_SERVER_QUERY", b"select pg_backend_pid() as pid, '' as address, '1' as port"
    )
    sent, send = [], Session._send
    with closing(PostgresEngine(direct(new_database("postgres")), DatabaseOptions(pool_size=1))) as engine:
        [session] = engine._pool._idle
        assert session.is_direct
        monkeypatch.setattr(Session, "_send", lambda *args: sent.append(args[1]) or send(*args))
        for _ in range(3):
            engine.write(adding_nothing)
        assert sent.count(postgres_session.SETTINGS) == 3


def adding_nothing(tx):
    query.create_namespace(tx, path="")


def test_repeated_statement_around_a_copy_works_behind_a_pooler(new_database):
    with closing(PostgresEngine(direct(new_database("postgres")))) as engine:
        [session] = engine._pool._idle
        session.is_direct = False  # as behind a pooler, where statements have no names

        def copy_between(tx):
            for number in range(3):
                query.create_namespace(tx, path=f"{number}")
                tx.insert_rows("namespace", ["id", "path"], [(1000 + number, f"copied {number}")])

        engine.write(copy_between)
        with psycopg.connect(engine._url) as connection:
            assert connection.execute("select count(*) from agentmem.namespace").fetchone() == (6,)


def test_returns_rows_agrees_with_the_server(new_database):
    PostgresEngine(url := direct(new_database("postgres"))).close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set search_path = agentmem")
        for name, sql in load_queries("postgres").items():
            if "pgvector" in sql:  # asks tables that need an extension
                continue
            prepared = connection.pgconn.prepare(name.encode(), number_parameters(sql, "$")[0].encode())
            assert not prepared.error_message, name
            described = connection.pgconn.describe_prepared(name.encode())
            assert bool(described.nfields) == returns_rows(sql), name
