"""On PostgreSQL statements travel together, and yet each operation is one transaction that succeeds or fails as one."""

import math
import threading

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseBusy, InvalidInput, StorageError
from langchain_agentmem.storage import query
from langchain_agentmem.storage.postgres import PostgresEngine, _prepared
from langchain_agentmem.storage.postgres_session import Pool, Session
from langchain_agentmem.storage.queries import for_libpq, load, returns_rows
from langchain_agentmem.storage.steps import Statement

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
    engine._sql = dict(engine._sql) | {name: _prepared(sql) for name, sql in extra.items()}
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

    def test_storing_a_checkpoint_waits_for_the_thread_for_its_head_and_for_the_commit(self, new_database, monkeypatch):
        with AgentMemory(new_database("postgres")) as memory:
            saver, config = memory.checkpointer, {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            for turn in range(3):
                checkpoint = empty_checkpoint() | {"channel_values": {"text": ["said " * 50, turn]}}
                checkpoint["channel_versions"] = {"text": f"{turn + 1}"}
                trips = Trips(monkeypatch)
                config = saver.put(config, checkpoint, {}, {"text": f"{turn + 1}"})
            assert trips.count == 3

    def test_more_than_the_pipe_holds(self, engine):
        bodies = {bytes([n % 256, n // 256]) * 10: bytes([n % 256]) * 3_000 for n in range(3_000)}

        def steps():
            yield query.store_content.many([{"hash": key, "body": body} for key, body in bodies.items()])
            yield Statement("all", {})

        engine.write(steps)
        with psycopg.connect(engine._url) as connection:
            assert connection.execute("select count(*) from agentmem.content").fetchone() == (3_000,)


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

    def test_one_that_is_lost_in_the_commit_says_that_it_is_not_known_whether_it_was_written(self, engine):
        def steps():
            yield Statement("all", {})
            kill_all(engine)
            yield Statement("add", {"n": 1})

        with pytest.raises(StorageError, match="not known"):
            engine.write(steps)
        assert numbers(engine) == []


class TestValues:
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
        PostgresEngine(url := new_database("postgres")).close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("set search_path = agentmem")
            for name, sql in load("postgres").items():
                if "pgvector" in name:  # asks tables that need an extension
                    continue
                prepared = connection.pgconn.prepare(name.encode(), for_libpq(sql)[0].encode())
                assert not prepared.error_message, name
                described = connection.pgconn.describe_prepared(name.encode())
                assert bool(described.nfields) == returns_rows(sql), name
