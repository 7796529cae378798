"""On PostgreSQL statements travel together, and yet each operation is one transaction that succeeds or fails as one."""

import math
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import CheckpointUnreadable, DatabaseBusy, DatabaseTimeout, InvalidInput, StorageError
from langchain_agentmem.storage import postgres, postgres_session, query
from langchain_agentmem.storage.postgres import _GIVE_RECEIPT, PostgresEngine, prepared
from langchain_agentmem.storage.postgres_session import Connection, Pool, Session
from langchain_agentmem.storage.queries import for_libpq, load, returns_rows
from langchain_agentmem.storage.steps import Statement
from tests.emptying import direct

KILL = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where datname = current_database() and pid <> pg_backend_pid()"
)


@pytest.fixture
def engine(new_database):
    engine = PostgresEngine(new_database("postgres"))
    extra = {
        "add": "insert into blob_test (n) values (:n)",
        "all": "select n from blob_test order by n",
        "echo": "select cast(:a as bigint) as a, cast(:b as text) as b, cast(:c as bytea) as c,"
        " cast(:d as float8) as d, cast(:e as boolean) as e",
    }
    engine._sql = dict(engine._sql) | {name: prepared(sql) for name, sql in extra.items()}
    with psycopg.connect(engine._url, autocommit=True) as connection:
        connection.execute("create table agentmem.blob_test (n bigint primary key)")
    yield engine
    engine.close()


def adding(*numbers):
    def steps():
        for number in numbers:
            yield Statement("add", {"n": number})

    return steps


def numbers(engine):
    def steps():
        return [row["n"] for row in (yield Statement("all", {}))]

    return engine.read(steps)


def kill_all(engine):
    with psycopg.connect(engine._url, autocommit=True) as connection:
        connection.execute(KILL)


class Trips:
    """Counts how often a session waits for the server."""

    def __init__(self, monkeypatch):
        self.count = 0
        wait = Session._wait

        def counting(session, answer):
            self.count += 1
            return wait(session, answer)

        monkeypatch.setattr(Session, "_wait", counting)


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
            return [[row["n"] for row in rows] for rows in (before, after)], before[0]["n"], len(before)

        assert engine.write(steps) == ([[1], [1, 2]], 1, 1)

    def test_rows_that_nobody_looked_at_can_be_looked_at_afterwards(self, engine):
        engine.write(adding(1))

        def steps():
            return (yield Statement("all", {}, ahead=True))

        kept = [engine.read(steps), engine.write(steps)]
        engine.write(adding(2))
        assert [list(rows) for rows in kept] == [[{"n": 1}], [{"n": 1}]]

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

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "versions", ["", "{", "[]", "7", '{"a":1}', '{"a":"\\q"}', '{"a":"\\u0000"}', '{"a":"1"}x']
    )
    @pytest.mark.parametrize("kind", ["sqlite", "postgres"])
    def test_damaged_versions_of_a_thread_that_was_seen_are_told(self, new_database, raw, kind, versions):
        with AgentMemory(new_database(kind)) as memory:
            saver, config = memory.checkpointer, {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            checkpoint = empty_checkpoint() | {"channel_values": {"a": "said"}, "channel_versions": {"a": "1"}}
            named = saver.put(config, checkpoint, {}, {"a": "1"})
            assert saver.get(named)["channel_values"] == {"a": "said"}
            raw(memory, f"update checkpoint set versions = '{versions}'")
            for each in (named, config):
                with pytest.raises(CheckpointUnreadable):
                    saver.get_tuple(each)

    def test_more_than_the_pipe_holds(self, engine):
        bodies = {bytes([n % 256, n // 256]) * 10: bytes([n % 256]) * 3_000 for n in range(3_000)}

        def steps():
            yield query.store_content.many([{"hash": key, "body": body} for key, body in bodies.items()])
            yield Statement("all", {})

        engine.write(steps)
        with psycopg.connect(engine._url) as connection:
            assert connection.execute("select count(*) from agentmem.content").fetchone() == (3_000,)


class TestPlans:
    def test_a_statement_is_planned_once_until_its_tables_are_analysed_anew(self, new_database):
        with AgentMemory(direct(new_database("postgres")), pool_size=1) as memory:
            for number in range(10):
                memory.conversation("c").add(role="user", content=f"heron {number}")
                memory.search("heron")
            [(session, _)] = memory.database.engine._pool._idle
            session.leave()
            [(anew, kept)] = session.connection.execute(
                "select sum(custom_plans)::int, max(generic_plans)::int from pg_prepared_statements "
                "where statement not like 'select set_config%'"
            ).fetchall()
            session.enter()
        assert (anew, kept >= 10) == (0, True)


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

    def test_a_constraint_that_stays_broken_is_told_also_by_who_lost_many_races_before(self, engine):
        attempts = []

        def steps():
            attempts.append(1)
            assert len(attempts) < 60
            raise psycopg.errors.SerializationFailure if len(attempts) <= 30 else psycopg.errors.UniqueViolation
            yield

        with pytest.raises(StorageError):
            engine.write(steps)
        assert len(attempts) == 31

    def test_who_settles_hears_of_the_last_statement(self, engine):
        session = engine._pool.take()
        session.begin(engine.schema, write=True, lock=60, patience=60)
        for _ in range(2):
            session.execute(engine._sql["add"], {"n": 1})
        with pytest.raises(psycopg.errors.UniqueViolation):
            session.settle()
        session.roll_back()
        engine._pool.give_back(session)
        assert numbers(engine) == []

    def test_an_operation_that_gives_up_leaves_nothing_and_the_connection_is_used_again(self, engine):
        def steps():
            yield from adding(1)()
            yield Statement("all", {}, ahead=True)
            raise ZeroDivisionError

        engine.write(adding(7))
        session = engine._pool.take()
        engine._pool.give_back(session)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                engine.write(steps)
        assert numbers(engine) == [7]
        assert engine._pool.take() is session

    def test_an_interrupted_operation_leaves_nothing(self, engine):
        def steps():
            yield from adding(1)()
            yield Statement("all", {})
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            engine.write(steps)
        assert numbers(engine) == []

    def test_a_query_that_could_not_be_prepared_is_prepared_again(self, engine):
        with psycopg.connect(engine._url, autocommit=True) as connection:
            connection.execute("alter table agentmem.blob_test rename to away")
            with pytest.raises(StorageError, match="blob_test"):
                engine.write(adding(1))
            connection.execute("alter table agentmem.away rename to blob_test")
        engine.write(adding(1))
        assert numbers(engine) == [1]

    @pytest.mark.slow
    @pytest.mark.parametrize("steps", [adding(2), adding()], ids=["writes only", "nothing"])
    def test_a_connection_that_was_lost_long_ago_is_replaced(self, engine, steps):
        engine.write(adding(1))
        kill_all(engine)
        engine.write(steps)
        assert numbers(engine)[0] == 1

    def test_one_that_is_lost_in_the_midst_is_begun_again(self, engine):
        attempts = []

        def steps():
            attempts.append(1)
            yield from adding(1)()
            yield Statement("all", {})
            if len(attempts) == 1:
                kill_all(engine)
            yield Statement("all", {})

        engine.write(steps)
        assert len(attempts) == 2
        assert numbers(engine) == [1]

    def test_one_that_is_lost_before_the_commit_was_carried_out_is_begun_again(self, engine):
        attempts = []

        def steps():
            attempts.append(1)
            yield Statement("all", {})
            if len(attempts) == 1:
                kill_all(engine)
            yield Statement("add", {"n": 1})
            return len(attempts)

        assert engine.write(steps) == 2
        assert numbers(engine) == [1]

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

    def test_whether_a_commit_was_carried_out_is_waited_for(self, engine, monkeypatch):
        """The server is still at it when the client has lost the connection already."""
        engine.write(adding(0))
        lost = engine._pool.take()
        lost.begin(engine.schema, write=True, lock=60, patience=60)
        lost.rows(lost.execute(engine._sql["all"], {}))
        lost.execute(_GIVE_RECEIPT, lost.receipt)
        lost.settle()
        meanwhile = threading.Timer(0.3, lost.commit, kwargs={"wait": True})
        meanwhile.start()
        assert engine._was_committed(lost)
        meanwhile.join()

        lost.begin(engine.schema, write=True, lock=60, patience=60)
        lost.execute(_GIVE_RECEIPT, lost.receipt)
        lost.settle()
        meanwhile = threading.Timer(0.3, lost.roll_back)
        meanwhile.start()
        assert not engine._was_committed(lost)
        meanwhile.join()

    def test_what_cannot_be_found_out_is_told(self, engine, monkeypatch):
        engine._timeout = 0.2
        commit = Session.commit

        def lost(session, *, wait):
            commit(session, wait=wait)
            if wait:
                session.close()
                monkeypatch.setattr(engine, "_url", "postgresql://127.0.0.1:1/gone")
                raise psycopg.OperationalError("the answer to the commit was lost")

        monkeypatch.setattr(Session, "commit", lost)
        with pytest.raises(StorageError, match="not known"):
            engine.write(adding(1))

    def test_only_what_writes_leaves_a_receipt(self, engine):
        engine.write(lambda: echo(dict.fromkeys("abcde")))
        with psycopg.connect(engine._url) as connection:
            assert connection.execute("select count(*) from agentmem.receipt").fetchone() == (0,)
            for n in range(3):
                engine.write(adding(n))
            assert connection.execute("select transactions from agentmem.receipt").fetchall() == [(4,)]

    def test_receipts_are_forgotten_after_a_day(self, engine, monkeypatch):
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


class TestWaiting:
    """Nothing is waited for without end."""

    @pytest.fixture
    def new_database(self, new_database):
        return lambda kind: direct(new_database(kind))

    @pytest.mark.slow
    @pytest.mark.parametrize("write", [True, False])
    def test_a_server_that_stops_answering(self, engine, write):
        engine.write(adding(1))
        engine._timeout = 0.1
        stopped = backend(engine)
        os.kill(stopped, signal.SIGSTOP)
        try:
            with pytest.raises(DatabaseTimeout):
                engine._run(lambda: echo(dict.fromkeys("abcde")), write=write)
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert numbers(engine) == [1]

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

    @pytest.mark.slow
    @pytest.mark.parametrize("error", [None, "57P03", "53300", "57P01"])
    def test_a_server_that_takes_nobody_for_a_while(self, engine, monkeypatch, error):
        engine.write(adding(1))
        kill_all(engine)
        connect, tries = Connection.connect, []

        def refusing(*args, **named):
            tries.append(1)
            if len(tries) < 4:
                raise psycopg.errors.lookup(error)("no") if error else psycopg.OperationalError("refused")
            return connect(*args, **named)

        monkeypatch.setattr(Connection, "connect", refusing)
        engine.write(adding(2))
        assert numbers(engine) == [1, 2]
        assert len(tries) == 4

    def test_one_that_cuts_a_connection_as_soon_as_it_is_made(self, engine, monkeypatch):
        engine.write(adding(1))
        kill_all(engine)
        get_acquainted, tries = Session.get_acquainted, []

        def cut(session, patience):
            tries.append(1)
            if len(tries) < 4:
                kill_all(engine)
            get_acquainted(session, patience)

        monkeypatch.setattr(Session, "get_acquainted", cut)
        engine.write(adding(2))
        assert numbers(engine) == [1, 2]
        assert len(tries) == 4

    def test_one_that_stays_away_is_told(self, engine, monkeypatch):
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

    def test_a_wrong_password_is_told_at_once(self, engine, monkeypatch):
        engine.write(adding(1))
        kill_all(engine)
        tries = []

        def refusing(*args, **named):
            tries.append(1)
            raise psycopg.errors.InvalidPassword("no")

        monkeypatch.setattr(Connection, "connect", refusing)
        with pytest.raises(StorageError):
            engine.write(adding(2))
        assert len(tries) == 1


class Told:
    """Listens to what libpq is told."""

    def __init__(self, libpq):
        self.libpq, self.calls = libpq, []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self.libpq, name)


class TestPoolers:
    """A pooler gives each transaction a server that others have used."""

    @pytest.fixture
    def new_database(self, new_database):
        return lambda kind: direct(new_database(kind))

    @pytest.fixture(autouse=True)
    def _pooled(self, engine):
        engine._pooled = True
        engine._pool.close()
        engine._pool._closed = False

    def test_nothing_is_left_on_the_server(self, engine):
        engine.write(adding(1, 2))
        assert numbers(engine) == [1, 2]
        session = engine._pool.take()
        session.leave()
        connection = session.connection
        settings = ["search_path", "lock_timeout", "statement_timeout", "jit"]
        now = [connection.execute(f"show {name}").fetchone()[0] for name in settings]
        with psycopg.connect(engine._url) as fresh:
            assert now == [fresh.execute(f"show {name}").fetchone()[0] for name in settings]
        assert connection.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)

    def test_the_next_transaction_begins_when_the_last_one_has_ended(self, engine):
        engine.write(adding(1))
        assert numbers(engine) == [1]
        session = engine._pool.take()
        session.begin(engine.schema, write=False, lock=60, patience=60)
        assert session._sent[0] is session._begun

    def test_nobody_waits_for_the_end_of_one_that_only_read(self, engine, monkeypatch):
        trips = Trips(monkeypatch)
        assert numbers(engine) == []
        assert trips.count == 1

    def test_a_statement_that_follows_itself_is_not_parsed_again(self, engine, monkeypatch):
        engine.write(adding(0))
        session = engine._pool.take()
        engine._pool.give_back(session)
        monkeypatch.setattr(session, "_libpq", told := Told(session._libpq))

        def steps():
            yield Statement("add", [{"n": 1}, {"n": 2}, {"n": 3}])
            yield Statement("all", {})
            yield from adding(4, 5)()

        engine.write(steps)
        assert told.calls.count("send_query_prepared") == 3
        assert numbers(engine) == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize("number", [1, 2**31 - 1])
    def test_one_that_has_a_number_of_its_own_for_the_connection_is_known_at_once(self, engine, monkeypatch, number):
        session = engine._pool.take()
        monkeypatch.setattr(session, "_libpq", told := Told(session._libpq))
        told.backend_pid = number
        session.get_acquainted(60)
        assert not session.direct

    def test_a_pooler_that_passes_for_the_server_is_found_out(self, engine):
        engine._pooled = False
        engine._pool._closed = False
        engine.write(adding(1))
        forget(engine, engine._pool.take())
        engine.write(adding(2))
        assert engine._pooled
        assert numbers(engine) == [1, 2]

    def test_so_it_is_by_many_at_once(self, engine):
        engine._pooled = False
        engine._pool._closed = False
        sessions = [engine._pool.take() for _ in range(4)]
        for session in sessions:
            engine._pool.give_back(session)
        meet = threading.Barrier(4)

        def one(number):
            attempts = []

            def steps():
                attempts.append(1)
                if len(attempts) == 1:
                    meet.wait(10)  # each is on a session of its own
                yield from adding(number)()

            engine.write(steps)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(one, range(4)))
            for session in [engine._pool.take() for _ in range(4)]:
                forget(engine, session)
            list(threads.map(one, range(4, 8)))
        for number in range(8, 12):
            engine.write(adding(number))
        assert numbers(engine) == list(range(12))
        assert engine.pool_stats()["in_use"] == 0


def forget(engine, session):
    """Let a server have none of the statements that it was told to prepare, as another one behind a pooler."""
    assert session.direct
    session._libpq.exit_pipeline_mode()
    session._connection.execute("deallocate all")
    session._libpq.enter_pipeline_mode()
    engine._pool.give_back(session)


class TestValues:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "values",
        [
            (1, "text", b"bytes", 0.1, True),
            (-(2**63), "", b"", math.inf, False),
            (2**63 - 1, "ü\n'\\ 😀 $1", bytes(range(256)), 1e-300, None),
            (None, None, None, None, None),
        ],
    )
    def test_a_value_comes_back_as_it_went(self, engine, values):
        given = dict(zip("abcde", values, strict=True))

        def steps():
            return list((yield Statement("echo", given)))

        assert engine.read(steps) == [given]

    @pytest.mark.slow
    @pytest.mark.parametrize("given", [{"a": 2**63}, {"b": "a\0b"}, {"b": "\ud800"}, {"c": {"no": "value"}}])
    def test_what_cannot_be_stored_is_refused(self, engine, given):
        with pytest.raises(InvalidInput):
            engine.read(lambda: echo(dict.fromkeys("abcde") | given))
        assert engine.read(lambda: echo(dict.fromkeys("abcde"))) == 1


def echo(given):
    return len((yield Statement("echo", given)))


class Lent:
    """Stands for a session."""

    closed = False

    def close(self, *, stop=False):
        self.closed = True


class TestPool:
    def test_the_last_one_given_back_is_lent_first(self):
        pool = Pool(Lent, size=3, timeout=1)
        first, second = pool.take(), pool.take()
        pool.give_back(first)
        pool.give_back(second)
        assert [pool.take(), pool.take()] == [second, first]

    def test_it_counts_who_waited(self):
        pool = Pool(Lent, size=2, timeout=120)
        first, second = pool.take(), pool.take()
        pool.give_back(second)
        assert pool.stats() == {"size": 2, "in_use": 1, "idle": 1, "waiting": 0, "waits": 0, "waited_ms": 0.0}
        assert pool.take() is second
        with ThreadPoolExecutor(1) as threads:
            third = threads.submit(pool.take)
            while not pool.stats()["waiting"]:
                pass
            pool.give_back(first)
            assert third.result() is first
        told = pool.stats()
        assert told.pop("waited_ms") > 0
        assert told == {"size": 2, "in_use": 2, "idle": 0, "waiting": 0, "waits": 1}

    def test_when_all_are_in_use_one_waits_and_then_hears_why(self):
        pool = Pool(Lent, size=1, timeout=0)
        lent = pool.take()
        with pytest.raises(DatabaseBusy):
            pool.take()
        pool.give_back(lent)

        pool = Pool(Lent, size=1, timeout=120)
        lent = pool.take()
        threading.Timer(0.01, pool.give_back, [lent]).start()
        assert pool.take() is lent
        pool.drop(lent)
        assert lent.closed
        assert pool.take() is not lent

    def test_a_session_that_cannot_be_opened_takes_no_place(self):
        def failing():
            raise ZeroDivisionError

        pool = Pool(failing, size=1, timeout=0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                pool.take()

    def test_closing_closes_those_in_use_when_they_come_back(self):
        pool = Pool(Lent, size=2, timeout=0)
        used, idle = pool.take(), pool.take()
        pool.give_back(idle)
        pool.close()
        assert (used.closed, idle.closed) == (False, True)
        pool.give_back(used)
        assert used.closed

    def test_one_that_nobody_needed_for_long_is_closed(self, monkeypatch):
        now = 0.0
        monkeypatch.setattr("langchain_agentmem.storage.postgres_session.time.monotonic", lambda: now)
        pool = Pool(Lent, size=2, timeout=0)
        forgotten, used = pool.take(), pool.take()
        pool.give_back(forgotten)
        pool.give_back(used)
        now = 700.0
        assert pool.take() is used
        pool.give_back(used)
        assert (forgotten.closed, used.closed) == (True, False)


class TestQueries:
    @pytest.mark.parametrize(
        ("ours", "theirs"),
        [
            ("select :a, :b, :a", ("select $1, $2, $1", ("a", "b"))),
            ("select ':a', :b::text -- :c", ("select ':a', $1::text -- :c", ("b",))),
        ],
    )
    def test_parameters_are_numbered(self, ours, theirs):
        assert for_libpq(ours) == theirs

    def test_whether_a_query_returns_rows_is_known_before(self, new_database):
        PostgresEngine(url := direct(new_database("postgres"))).close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("set search_path = agentmem")
            for name, sql in load("postgres").items():
                if "pgvector" in sql:  # asks tables that need an extension
                    continue
                prepared = connection.pgconn.prepare(name.encode(), for_libpq(sql)[0].encode())
                assert not prepared.error_message, name
                described = connection.pgconn.describe_prepared(name.encode())
                assert bool(described.nfields) == returns_rows(sql), name
