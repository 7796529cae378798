"""A replica answers searches, lists and reports, and shows what was written here; where it cannot, the primary does."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from langgraph.store.base import GetOp, SearchOp
from psycopg_pool import ConnectionPool

from langchain_agentmem import AgentMemory, AgentMemorySaver, AgentMemoryStore
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import engine, postgres_replica
from langchain_agentmem.storage.queries import number_of

from .clients import graph, thread
from .servers import pair

NOT_THE_CALL = re.compile(r"\s*(begin|commit|rollback|select set_config|select pg_|select c\.relname)", re.IGNORECASE)


@pytest.fixture(scope="module")
def servers():
    with pair(log_statement="all", log_line_prefix="<%d> ") as both:
        yield both


@pytest.fixture
def database(servers):
    name = servers.primary.create()
    servers.catch_up()
    return name


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """How quick the machine is says nothing of what holds; a replica that is away is tried again at once."""
    monkeypatch.setattr(postgres_replica, "CATCH_UP", 30.0)
    monkeypatch.setattr(postgres_replica, "PAUSES", (0.01, 0.01))


@pytest.fixture
def memory(servers, database):
    with AgentMemory(servers.primary.url(database), read_url=servers.replica.url(database)) as memory:
        yield memory


def say(memory, text, conversation="c"):
    memory.conversation(conversation).add_user_message(text)


def found(memory, query="apple"):
    return sorted(each.text for each in memory.search(query))


class Asked:
    """Whether a server is asked for more in a database from now on than what goes with any call, and for sizes."""

    def __init__(self, server, database):
        self._server, self._parts = server, re.compile(rf"^<{database}> LOG:  execute \S+: ", re.MULTILINE)
        self._from = len(server.log)

    def __bool__(self):
        _, *statements = self._parts.split(self._server.log[self._from :])
        return any(not NOT_THE_CALL.match(each) for each in statements)


READS = {
    "search": lambda memory, _: memory.search("apple"),
    "retriever": lambda memory, _: memory.retriever().invoke("apple"),
    "awaited search": lambda memory, _: asyncio.run(memory.asearch("apple")),
    "store search": lambda memory, _: memory.store.search(("notes",)),
    "store list": lambda memory, _: memory.store.list_namespaces(),
    "checkpoint list": lambda memory, _: list(memory.checkpointer.list(thread("t"))),
    "history": lambda memory, _: list(graph(memory).get_state_history(thread("t"))),
    "conversations": lambda memory, _: memory.conversations(),
    "awaited conversations": lambda memory, _: asyncio.run(memory.aconversations()),
    "threads": lambda memory, _: memory.threads(),
    "branches": lambda memory, _: memory.branches(),
    "namespaces": lambda memory, _: memory.namespaces(),
    "growth": lambda memory, _: memory.growth(),
    "stats": lambda memory, _: memory.stats(),
    "export": lambda memory, folder: memory.export(folder / "export"),
    "audit entries": lambda memory, _: list(memory.audit.entries()),
    "audit report": lambda memory, _: memory.audit.report(),
    "audit search": lambda memory, _: memory.audit.search("apple"),
}
STEPS = {
    "messages": lambda memory: memory.conversation("c").messages,
    "checkpoint": lambda memory: memory.checkpointer.get_tuple(thread("t")),
    "item": lambda memory: memory.store.get(("notes",), "1"),
    "items of a batch": lambda memory: memory.store.batch([GetOp(("notes",), "1"), SearchOp(("notes",))]),
    "core": lambda memory: memory.layers("main").core.get("name"),
    "verify": lambda memory: memory.verify(),
}


class TestWhoAnswers:
    @pytest.fixture
    def filled(self, memory):
        say(memory, "an apple")
        memory.audit.add("an apple", "a pear")
        memory.store.put(("notes",), "1", {"text": "an apple"})
        graph(memory).invoke({"turns": 0}, thread("t"))
        memory.layers("main").core.set("name", "Ada")
        memory.audit.search("pear")  # now it is connected, and knows how far the primary was
        return memory

    @pytest.mark.parametrize("name", READS)
    def test_searches_lists_and_reports_are_the_replicas(self, servers, database, filled, tmp_path, name):
        primary, replica = Asked(servers.primary, database), Asked(servers.replica, database)
        assert READS[name](filled, tmp_path)
        assert replica
        assert not primary

    @pytest.mark.parametrize("name", STEPS)
    def test_what_a_step_needs_to_go_on_is_the_primarys(self, servers, database, filled, name):
        primary, replica = Asked(servers.primary, database), Asked(servers.replica, database)
        STEPS[name](filled)
        assert primary
        assert not replica

    def test_it_answers_for_all_shards_and_shows_what_was_written_in_each(self, servers, database):
        url, read_url = servers.primary.url(database), servers.replica.url(database)
        with AgentMemory(url, read_url=read_url, shards=3) as memory:
            for user in map(str, range(6)):
                memory.conversation("c", (user,)).add_user_message("an apple")
                assert len(memory.search("apple", namespace=(user,))) == 1
            replica, primary = Asked(servers.replica, database), Asked(servers.primary, database)
            assert len(memory.search("apple", everything=True)) == 6
            assert len(memory.search("apple", namespace=("0",))) == 1
            assert replica
            assert not primary

    def test_without_one_nothing_changes(self, servers, database, filled):
        replica = Asked(servers.replica, database)
        with AgentMemory(servers.primary.url(database)) as memory:
            assert found(memory) == found(filled)
            assert type(memory.database.engine) is not type(filled.database.engine)
        assert replica  # by the other search alone

    def test_a_pool_serves_as_well(self, servers, database, filled):
        with (
            ConnectionPool(servers.primary.url(database), min_size=1, max_size=2) as one,
            ConnectionPool(servers.replica.url(database), min_size=1, max_size=2) as other,
        ):
            primary, replica = None, Asked(servers.replica, database)
            with AgentMemory(one, read_url=other) as memory:
                primary = Asked(servers.primary, database)
                assert found(memory)
            assert replica
            assert not primary
            assert other.closed is False

    def test_parts_that_are_opened_alone_take_one(self, servers, database, filled):
        options = {"read_url": servers.replica.url(database)}
        with (
            AgentMemoryStore.from_conn_string(servers.primary.url(database), **options) as store,
            AgentMemorySaver.from_conn_string(servers.primary.url(database), **options) as saver,
        ):
            primary, replica = Asked(servers.primary, database), Asked(servers.replica, database)
            assert store.search(("notes",))
            assert list(saver.list(thread("t")))
            assert replica
            assert not primary

    @pytest.mark.parametrize("wrong", ["replica.db", 5, "", "mysql://host/name"])
    def test_what_is_none_is_refused(self, servers, database, wrong):
        with pytest.raises(InvalidInput, match="read_url"):
            AgentMemory(servers.primary.url(database), read_url=wrong)

    def test_a_file_has_none(self, servers, database, tmp_path):
        with pytest.raises(InvalidInput, match="SQLite"):
            AgentMemory(tmp_path / "a.db", read_url=servers.replica.url(database))
        assert list(tmp_path.iterdir()) == []


class TestItsOwnWrites:
    def test_are_seen_each_time(self, memory):
        for number in range(30):
            say(memory, f"apple {number}")
            assert len(memory.search("apple", limit=100)) == number + 1

    async def test_are_seen_by_whoever_awaits_them(self, memory):
        async def one(number):
            await memory.conversation(f"c{number}").aadd_user_message(f"word{number}")
            return [each.text for each in await memory.asearch(f"word{number}")]

        assert await asyncio.gather(*map(one, range(20))) == [[f"word{number}"] for number in range(20)]

    def test_are_waited_for(self, servers, memory):
        say(memory, "an apple")
        assert found(memory) == ["an apple"]
        servers.replica.run_sql("select pg_wal_replay_pause()")
        try:
            say(memory, "another apple")
            with ThreadPoolExecutor(1) as executor:
                answer = executor.submit(found, memory)
                time.sleep(0.3)
                assert not answer.done()
                servers.replica.run_sql("select pg_wal_replay_resume()")
                assert answer.result(20) == ["an apple", "another apple"]
        finally:
            servers.replica.run_sql("select pg_wal_replay_resume()")

    def test_nothing_is_asked_of_the_primary_where_nothing_was_written(self, servers, database, memory):
        say(memory, "an apple")
        found(memory)
        before = len(servers.primary.log)
        assert found(memory) == ["an apple"]
        assert f"<{database}>" not in servers.primary.log[before:]

    def test_are_seen_where_commits_wait_for_no_disk(self, servers, database, memory):
        servers.primary.run_sql(f"alter database {database} set synchronous_commit = 'off'")
        with AgentMemory(servers.primary.url(database), read_url=servers.replica.url(database)) as other:
            for number in range(10):
                say(other, f"apple {number}")
                assert len(other.search("apple", limit=100)) == number + 1


class TestTheReplicaThatCannot:
    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch):
        monkeypatch.setattr(postgres_replica, "CATCH_UP", 0.2)
        monkeypatch.setattr(postgres_replica, "PAUSES", (0.2, 0.2))

    def again(self, servers, database, memory):
        """Search until the replica answers."""
        deadline = time.monotonic() + 30
        replica = Asked(servers.replica, database)
        while not replica:
            assert time.monotonic() < deadline
            time.sleep(0.1)
            found(memory)

    def warnings(self, caplog):
        return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]

    def test_one_that_lags_is_left_alone_and_used_again(self, servers, database, memory, caplog):
        servers.replica.run_sql("select pg_wal_replay_pause()")
        try:
            for number in range(5):
                say(memory, f"apple {number}")
                assert len(found(memory)) == number + 1
                time.sleep(0.1)
        finally:
            servers.replica.run_sql("select pg_wal_replay_resume()")
        [warning] = self.warnings(caplog)
        assert "behind" in warning or "Nothing is stored in" in warning
        self.again(servers, database, memory)
        assert len(found(memory)) == 5

    def test_what_the_primary_showed_stays_shown(self, servers, database, memory):
        say(memory, "an apple")
        self.again(servers, database, memory)
        servers.replica.run_sql("select pg_wal_replay_pause()")
        try:
            with AgentMemory(servers.primary.url(database)) as other:
                say(other, "another apple")
            assert found(memory) == ["an apple"]  # what others write comes later
            say(memory, "a pear")
            for _ in range(10):
                assert found(memory) == ["an apple", "another apple"]
                time.sleep(0.05)
        finally:
            servers.replica.run_sql("select pg_wal_replay_resume()")

    def test_one_that_is_gone(self, servers, database, memory, caplog):
        say(memory, "an apple")
        self.again(servers, database, memory)
        servers.replica.kill()
        try:
            for _ in range(5):
                assert found(memory) == ["an apple"]
        finally:
            servers.replica.start()
        assert len(self.warnings(caplog)) == 1
        self.again(servers, database, memory)

    def test_one_that_stands_still(self, servers, database, memory, caplog):
        say(memory, "an apple")
        self.again(servers, database, memory)
        with servers.replica.frozen():
            assert found(memory) == ["an apple"]
        assert len(self.warnings(caplog)) == 1
        self.again(servers, database, memory)

    def test_one_that_stands_still_from_the_first(self, servers, database):
        servers.catch_up()
        with (
            servers.replica.frozen(),
            AgentMemory(servers.primary.url(database), read_url=servers.replica.url(database)) as memory,
        ):
            say(memory, "an apple")
            assert found(memory) == ["an apple"]

    def test_one_of_an_older_schema(self, servers, database, memory, caplog, monkeypatch):
        say(memory, "an apple")
        self.again(servers, database, memory)
        newer = [*engine.migrations("postgres"), engine.Migration("9999_newer", "select 1")]
        with monkeypatch.context() as patched:
            patched.setattr(engine, "migrations", lambda dialect: tuple(newer))
            servers.replica.run_sql("select pg_wal_replay_pause()")
            try:
                with AgentMemory(servers.primary.url(database), read_url=servers.replica.url(database)) as other:
                    assert found(other) == ["an apple"]
            finally:
                servers.replica.run_sql("select pg_wal_replay_resume()")
            assert "older version" in self.warnings(caplog)[-1]
            with AgentMemory(servers.primary.url(database), read_url=servers.replica.url(database)) as other:
                self.again(servers, database, other)

    @pytest.mark.parametrize("which", ["the primary itself", "another database"])
    def test_one_that_is_none(self, servers, database, memory, caplog, which):
        other = servers.primary.create()
        AgentMemory(servers.primary.url(other)).close()
        servers.catch_up()
        say(memory, "an apple")
        wrong = servers.primary.url(database) if which == "the primary itself" else servers.replica.url(other)
        with AgentMemory(servers.primary.url(database), read_url=wrong) as misled:
            assert found(misled) == ["an apple"]
        assert "no replica" in self.warnings(caplog)[-1] or "another database" in self.warnings(caplog)[-1]

    def test_a_wrong_argument_says_nothing_of_it(self, servers, database, memory, caplog):
        say(memory, "an apple")
        self.again(servers, database, memory)
        for _ in range(2):
            with pytest.raises(InvalidInput, match="NUL"):
                memory.database.engine.read(lambda: number_of("a\0b"), replica=True)
        assert self.warnings(caplog) == []

    def test_one_that_is_promoted(self, caplog):
        with pair() as servers:
            database = servers.primary.create()
            with AgentMemory(servers.primary.url(database), read_url=servers.replica.url(database)) as memory:
                say(memory, "an apple")
                servers.catch_up()
                found(memory)
                servers.replica.promote()
                say(memory, "another apple")
                assert found(memory) == ["an apple", "another apple"]
            assert "promoted" in self.warnings(caplog)[-1]
