"""What is measured, how it is kept, and what `memory.admin.stats()` tells of it."""

import inspect
import json
import os
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psycopg
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory, AgentMemorySaver, CompactionNode
from langchain_agentmem.compaction import ManagedMemoryConfig
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.storage import database, postgres, sqlite
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.engine import Sizes
from langchain_agentmem.tracing.measures import MOST_NAMES, OTHERS, CacheTally, Measured, Measures, OperationTally
from langchain_agentmem.upkeep import database_report
from langchain_agentmem.upkeep.database_report import Stats, tables_by_part
from tests.checkpoints.graphs import Line
from tests.compaction.summarizers import Summarizer
from tests.emptying import direct

SMALL = ManagedMemoryConfig(threshold_tokens=600, token_counter="estimate")
SEARCH = "memory.retrieval.search"
LIMIT = 200
"""Seconds in which whatever does not wait for anybody has ended."""

TABLES = {
    "sqlite": "select name from sqlite_master where type = 'table'",
    "postgres": "select tablename as name from pg_tables where schemaname = 'agentmem'",
}


def use(url, times=1, **options):
    """Writes and searches, closes, and so leaves what was measured."""
    with AgentMemory(url, **options) as memory:
        for n in range(times):
            memory.conversation("c").add(role="user", content=f"hello {n}")
            memory.search("hello")


def calls(memory):
    return {each["name"]: each["calls"] for each in memory.admin.stats()["operations"]}


def kept(memory, raw):
    return {row["name"]: row["calls"] for row in raw(memory, "select name, calls from measure")}


class TestMeasuring:
    def test_an_operation_adds_to_its_name(self):
        here = Measures()
        for seconds, failed in ((0.1, False), (0.5, True), (0.2, False)):
            here.ended(SEARCH, seconds, failed)
        here.ended("memory.other", 1.0)
        found = here.so_far().operations
        assert found[SEARCH] == OperationTally(calls=3, failures=1, total=pytest.approx(0.8), slowest=0.5)
        assert found["memory.other"] == OperationTally(calls=1, total=1.0, slowest=1.0)

    def test_caches_and_tokens_add_up(self):
        here = Measures()
        here.cache("vectors", hits=3)
        here.cache("vectors", 1, 2)
        here.shortened(500)
        here.shortened(0)
        found = here.so_far()
        assert found.caches == {"vectors": CacheTally(hits=4, misses=2)}
        assert (found.prompts, found.kept_out) == (2, 500)

    def test_no_call_of_any_thread_is_lost(self):
        here, taken = Measures(), Measured()
        start, done = threading.Barrier(9), threading.Event()

        def measure():
            start.wait()
            for _ in range(4_000):
                here.ended(SEARCH, 0.25)
                here.cache("vectors", 1, 1)

        threads = [threading.Thread(target=measure) for _ in range(8)]
        for thread in threads:
            thread.start()
        start.wait()
        while any(thread.is_alive() for thread in threads):
            some = here.take()
            if done.is_set():
                taken.add(some)
            else:  # as where it could not be written
                done.set()
                here.give_back(some)
        for thread in threads:
            thread.join()
        taken.add(here.take())
        assert taken.operations[SEARCH] == OperationTally(calls=32_000, total=8_000.0, slowest=0.25)
        assert taken.caches["vectors"] == CacheTally(hits=32_000, misses=32_000)

    def test_what_is_taken_is_there_no_more_and_what_is_given_back_is(self):
        here = Measures()
        here.ended("a", 1.0)
        here.shortened(7)
        taken = here.take()
        assert not here.so_far()
        here.ended("a", 2.0)
        here.give_back(taken)
        assert here.so_far().operations["a"] == OperationTally(calls=2, total=3.0, slowest=2.0)
        assert here.so_far().since == taken.since

    def test_a_copy_does_not_change(self):
        here = Measures()
        here.ended("a", 1.0)
        before = here.so_far()
        here.ended("a", 1.0)
        assert before.operations["a"].calls == 1

    def test_there_are_only_so_many_names(self):
        here = Measures()
        for n in range(MOST_NAMES + 50):
            here.ended(f"memory.{n}", 0.1)
            here.cache(f"cache {n}", 1)
        found = here.so_far()
        assert len(found.operations) == len(found.caches) == MOST_NAMES + 1
        assert found.operations[OTHERS].calls == found.caches[OTHERS].hits == 50

    def test_whoever_interrupts_a_thread_that_measures_can_measure(self):
        here = Measures()
        with here._adding:
            here.ended(SEARCH, 0.1)
        assert here.so_far()


@pytest.mark.sqlite_suffices
class TestKeeping:
    def test_it_adds_up_over_processes(self, url):
        use(url, times=2)
        use(url, times=3)
        with AgentMemory(url) as memory:
            told = {each["name"]: each for each in memory.admin.stats()["operations"]}
            assert told["memory.conversation.add"]["calls"] == told[SEARCH]["calls"] == 5
            memory.search("hello")
            assert calls(memory)[SEARCH] == 6, "what is not written yet counts too"

    def test_the_slowest_of_all_is_kept_with_the_sums(self, url, raw):
        with AgentMemory(url) as memory:
            for seconds in (0.25, 0.5):
                there = Measured(
                    operations={"memory.x": OperationTally(calls=1, failures=1, total=seconds, slowest=seconds)},
                    caches={"vectors": CacheTally(hits=2, misses=1)},
                    prompts=1,
                    kept_out=100,
                    since=1_000,
                )
                memory.database.engine.write(lambda there=there: database.add(there, now=int(seconds * 10_000)))  # noqa: B023
            found = memory.database.engine.read(database.load)
            assert found.operations == {"memory.x": OperationTally(calls=2, failures=2, total=0.75, slowest=0.5)}
            assert found.caches == {"vectors": CacheTally(hits=4, misses=2)}
            assert (found.prompts, found.kept_out, found.since) == (2, 200, 1_000)
            [row] = raw(memory, "select since, until from measure where kind = 'operation'")
            assert (row["since"], row["until"]) == (1_000, 5_000)

    def test_who_only_reads_writes_nothing(self, url, raw):
        use(url)
        with AgentMemory(url) as memory:
            before = kept(memory, raw)
            memory.search("hello")
            memory.admin.stats()
            memory.admin.verify()
        with AgentMemory(url) as memory:
            assert kept(memory, raw) == before

    def test_a_file_that_is_only_read_stays_the_same_to_the_byte(self, new_database):
        path = new_database("sqlite")
        use(path)
        before = Path(path).read_bytes()
        with AgentMemory(path) as memory:
            memory.search("hello")
        assert Path(path).read_bytes() == before

    def test_it_is_written_now_and_then_beside_what_is_written(self, url, raw, monkeypatch):
        with AgentMemory(url) as memory:
            memory.conversation("c").add(role="user", content="hello")
            memory.search("hello")
            assert kept(memory, raw) == {}, "not each time"
        monkeypatch.setattr(database, "EVERY", 0.0)
        with AgentMemory(url) as memory:
            memory.search("hello")
            assert kept(memory, raw)[SEARCH] == 1, "not beside a read"
            memory.conversation("c").add(role="user", content="again")
            assert kept(memory, raw)[SEARCH] == 2

    def test_it_is_written_every_ten_minutes(self, url, raw, monkeypatch):
        now, seen = 7.0, []
        monkeypatch.setattr(database, "time", SimpleNamespace(monotonic=lambda: now, time_ns=time.time_ns))
        with AgentMemory(url) as memory:
            for passed in (599.0, 1.0, 599.0, 1.0):
                now += passed
                memory.conversation("c").add(role="user", content="hello")
                seen.append(kept(memory, raw).get("memory.conversation.add", 0))
        assert seen == [0, 1, 1, 3]

    def test_what_is_only_rehearsed_writes_none(self, url, raw):
        use(url)
        with AgentMemory(url) as memory:
            before = kept(memory, raw)
            for _ in range(3):
                assert memory.erase(namespace=(), dry_run=True).conversations == 1
        with AgentMemory(url) as memory:
            assert kept(memory, raw) == before

    def test_a_write_that_fails_takes_no_measures_with_it(self, url, raw, monkeypatch):
        monkeypatch.setattr(database, "EVERY", 0.0)
        with AgentMemory(url) as memory:
            memory.conversation("c").add(role="user", content="hello")
            with pytest.raises(InvalidInput):
                memory.database.write("care.import", _failing)
            memory.conversation("c").add(role="user", content="again")
            [failed] = [each for each in memory.admin.stats()["operations"] if each["name"] == "memory.care.import"]
            assert (failed["calls"], failed["failures"]) == (1, 1)

    def test_a_database_that_nobody_closes_keeps_them_too(self, url):
        saver = AgentMemorySaver(url)
        Line(saver).put({"a": 1})
        saver.database.measures.ended("memory.x", 0.1)
        closes = saver.database._closes_itself
        del saver
        closes()  # as when it is collected, or when the process ends
        with AgentMemory(url) as memory:
            assert calls(memory)["memory.x"] == 1

    def test_nothing_is_written_where_nothing_lasts(self, monkeypatch):
        monkeypatch.setattr(database, "EVERY", 0.0)
        memory = AgentMemory()
        memory.conversation("c").add(role="user", content="hello")
        assert calls(memory)["memory.conversation.add"] == 1
        memory.database.engine.afterwards()
        assert memory.database.measures.so_far(), "it is still here"
        memory.close()

    def test_names_that_nobody_uses_any_more_go(self, memory, raw, monkeypatch):
        monkeypatch.setattr(database, "MOST_ROWS", 20)
        for n in range(40):
            one = Measured(operations={f"memory.{n}": OperationTally(calls=1)})
            memory.database.engine.write(lambda one=one, n=n: database.add(one, now=n))
        assert set(kept(memory, raw)) == {f"memory.{n}" for n in range(19, 40)}


def _failing():
    raise InvalidInput("no")
    yield


@pytest.mark.sqlite_suffices
class TestNobodyIsWaitedFor:
    """Measures are lost where something is in the way, and nothing else is."""

    @contextmanager
    def held(self, url):
        """Somebody else holds the lock that is needed."""
        if url.startswith("postgresql://"):
            with psycopg.connect(url) as other:
                other.execute("lock table agentmem.measure in access exclusive mode")
                yield
                other.rollback()
        else:
            with closing(sqlite3.connect(url, isolation_level=None)) as other:
                other.execute("begin immediate")
                yield
                other.rollback()

    def test_closing_waits_for_no_lock(self, url, caplog):
        memory = AgentMemory(url, busy_timeout=3_600)
        memory.conversation("c").add(role="user", content="hello")
        with self.held(url), caplog.at_level("DEBUG", "langchain_agentmem.storage.database"):
            closing_it = threading.Thread(target=memory.close, daemon=True)
            closing_it.start()
            closing_it.join(LIMIT)
            assert not closing_it.is_alive()
        assert "could not be written" in caplog.text
        with AgentMemory(url) as memory:
            assert memory.admin.stats()["messages"] == 1
            assert memory.admin.verify().ok

    def test_a_write_waits_for_no_lock_of_another(self, url, monkeypatch):
        monkeypatch.setattr(database, "EVERY", 0.0)
        with AgentMemory(url, busy_timeout=3_600) as memory:
            memory.conversation("c").add(role="user", content="hello")
            before = calls(memory)["memory.conversation.add"]
            # On SQLite a lock of others would keep the write itself waiting, so it is one of this process.
            with self.held(url) if url.startswith("postgresql://") else _locked(memory.database.engine):
                memory.database.measures.ended("memory.x", 0.1)
                asking = threading.Thread(target=memory.database.engine.afterwards, daemon=True)
                asking.start()
                asking.join(LIMIT)
                assert not asking.is_alive()
                assert memory.database.measures.so_far().operations["memory.x"].calls == 1, "it is still here"
            memory.conversation("c").add(role="user", content="again")
            assert calls(memory)["memory.conversation.add"] == before + 1
            assert memory.database.engine.read(database.load).operations["memory.x"].calls == 1

    def test_a_failure_to_write_them_is_nobodys(self, url, raw, caplog):
        memory = AgentMemory(url)
        memory.conversation("c").add(role="user", content="hello")
        raw(memory, "alter table measure rename to gone")
        with caplog.at_level("DEBUG", "langchain_agentmem.storage.database"):
            memory.close()
        [record] = [each for each in caplog.records if each.name == "langchain_agentmem.storage.database"]
        assert record.levelname == "DEBUG"

    @pytest.mark.slow
    def test_a_server_that_does_not_answer_is_not_waited_for(self, new_database, raw, monkeypatch):
        url = new_database("postgres")
        memory = AgentMemory(url)
        memory.conversation("c").add(role="user", content="hello")
        session = memory.database.engine._pool._idle[-1][0]
        monkeypatch.setattr(session, "_flush", lambda: None)  # nothing leaves this machine
        monkeypatch.setattr(postgres, "_AT_ONCE", 0.1)
        asking = threading.Thread(target=memory.close, daemon=True)
        asking.start()
        asking.join(LIMIT)
        assert not asking.is_alive()

    def test_a_session_that_was_in_a_hurry_has_time_again(self, new_database):
        with AgentMemory(new_database("postgres")) as memory:
            memory.conversation("c").add(role="user", content="hello")
            engine = memory.database.engine
            engine.write_at_once(lambda: database.add(Measured(prompts=1, kept_out=5), now=1))
            memory.search("hello")
            assert all(session._patience > 60 for session, _ in engine._pool._idle)

    def test_a_read_only_database_has_statistics_too(self, new_database):
        path = new_database("sqlite")
        use(path)
        with AgentMemory(f"file:{path}?mode=ro") as memory:
            assert memory.admin.stats()["messages"] == 1
            assert calls(memory)[SEARCH] == 1
        url = new_database("postgres")
        use(url)
        with AgentMemory(direct(url) + "&options=-c%20default_transaction_read_only%3Don") as memory:
            assert memory.admin.stats()["messages"] == 1


@contextmanager
def _locked(engine):
    """Another thread is writing."""
    holding, done = threading.Event(), threading.Event()

    def hold():
        with engine._writing:
            holding.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    holding.wait()
    try:
        yield
    finally:
        done.set()
        holder.join()


@pytest.mark.sqlite_suffices
class TestTheirCare:
    def test_exports_leave_them_out(self, url, new_database, tmp_path):
        use(url)
        with AgentMemory(url) as memory:
            memory.export(tmp_path / "all.jsonl")
        assert SEARCH not in (tmp_path / "all.jsonl").read_text()
        with AgentMemory(new_database("sqlite")) as other:
            other.import_(tmp_path / "all.jsonl")
            assert SEARCH not in calls(other)

    def test_erasing_everything_erases_them(self, url, raw):
        use(url)
        with AgentMemory(url) as memory:
            memory.search("hello")
            memory.erase(namespace=("nobody",))
            memory.erase(namespace=(), conversation_id="another")
            assert kept(memory, raw)[SEARCH] == 1
            memory.erase(namespace=())
            assert kept(memory, raw) == {}
            assert SEARCH not in calls(memory)

    async def test_awaited_it_does_too(self, url):
        use(url)
        async with AgentMemory(url) as memory:
            await memory.aerase(namespace=())
            assert SEARCH not in {each["name"] for each in (await memory.admin.astats())["operations"]}

    def test_a_check_finds_nothing_wrong(self, url):
        use(url)
        with AgentMemory(url) as memory:
            assert memory.admin.verify().problems == ()

    def test_no_word_of_a_user_is_kept(self, url, raw):
        with AgentMemory(url) as memory:
            memory.conversation("kestrel", ("grackle",)).add(role="user", content="plover")
            memory.search("plover", namespace=("grackle",))
        with AgentMemory(url) as memory:
            found = str(raw(memory, "select * from measure"))
            assert SEARCH in found
            assert not any(word in found for word in ("kestrel", "grackle", "plover"))


@pytest.mark.sqlite_suffices
class TestParts:
    def test_every_table_is_part_of_something(self, memory, raw):
        dialect = memory.database.engine.dialect
        tables = {row["name"] for row in raw(memory, TABLES[dialect])}
        placed = [table for part in tables_by_part().values() for table in part]
        assert tables - set(placed) == set(), "say in `tables` of a PART what these tables are part of"
        assert len(placed) == len(set(placed))

    def test_the_tables_of_vectors_are_too(self, new_database):
        with AgentMemory(new_database("postgres"), index={"embed": Letters(), "dims": 26}) as memory:
            tables = memory.database.engine.sizes().tables
            assert set(tables) <= {table for part in tables_by_part().values() for table in part}

    def test_they_add_up(self, memory):
        fill(memory)
        told = memory.admin.stats()
        assert sum(told["bytes_by_part"].values()) == told["bytes"] - told["free_bytes"]
        assert set(told["bytes_by_part"]) == set(tables_by_part())
        assert min(told["bytes_by_part"].values()) >= 0
        assert told["bytes_estimated"] is False
        assert told["bytes_by_part"]["facts"] > 0

    def test_what_is_stored_counts_where_it_belongs(self, memory):
        before = memory.admin.stats()["bytes_by_part"]
        memory.byte_store().mset([("a", os.urandom(1_000_000))])
        after = memory.admin.stats()["bytes_by_part"]
        assert after["blobs"] >= 1_000_000 > before["blobs"]
        assert {part for part in tables_by_part() if after[part] > before[part] + 20_000} == {"blobs"}
        memory.store.put(
            ("a",), "k", {"text": "".join(map(chr, np.random.default_rng(7).integers(0x4E00, 0x9000, 9_000)))}
        )
        assert memory.admin.stats()["bytes_by_part"]["items"] > after["items"] + 9_000
        memory.conversation("c").add(role="user", content=os.urandom(100_000).hex())
        assert memory.admin.stats()["bytes_by_part"]["shared content"] > after["shared content"] + 100_000

    def test_facts_are_told_apart_from_layers_by_how_many_there_are(self):
        sizes = Sizes(total=1_000, free=0, log=0, tables={"memory": 500, "memory_source": 100, "seal": 40})
        assert database_report.by_part(sizes, facts=0, memories=0)["layers"] == 640
        found = database_report.by_part(sizes, facts=1, memories=4)
        assert (found["facts"], found["layers"], found["other"]) == (150, 490, 360)

    def test_they_are_estimated_where_sqlite_cannot_tell(self, new_database, monkeypatch):
        monkeypatch.setattr(sqlite, "_PAGES_BY_TABLE", "select name, bytes from no_dbstat_here")
        with AgentMemory(new_database("sqlite")) as memory:
            memory.byte_store().mset([("a", os.urandom(1_000_000))])
            told = memory.admin.stats()
            assert told["bytes_estimated"] is True
            assert sum(told["bytes_by_part"].values()) == told["bytes"] - told["free_bytes"]
            assert told["bytes_by_part"]["blobs"] > 0.8 * told["bytes"]

    def test_a_database_in_memory_has_them(self):
        with AgentMemory() as memory:
            fill(memory)
            told = memory.admin.stats()
            assert sum(told["bytes_by_part"].values()) == told["bytes"] - told["free_bytes"]
            assert told["bytes_by_part"]["conversations"] > 0


class Letters(Embeddings):
    """How often each letter stands in a text."""

    def embed_documents(self, texts):
        return [[text.lower().count(chr(97 + n)) + 0.1 for n in range(26)] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def fill(memory):
    chat = memory.conversation("c")
    for n in range(50):
        chat.add(role="user", content=f"What is {n}? " * 20)
    Line(memory.checkpointer).put({"a": 1, "messages": [HumanMessage("hello", id="1")]})
    memory.layers("b").archival.write("The sky is blue.")
    memory.facts("b").add_fact("user", "Ana", "lives in", "Lisbon")
    memory.byte_store().mset([("a", b"1" * 10_000)])
    memory.conversation("d").add(role="user", content="x" * 50_000)
    memory.conversation("d").clear()


@pytest.mark.sqlite_suffices
class TestWhatIsTold:
    def test_it_is_what_is_documented(self, memory):
        told = memory.admin.stats()
        assert set(told) == set(Stats.__annotations__)
        assert all(type(told[name]) is int for name, kind in Stats.__annotations__.items() if kind == "int")
        described = inspect.getdoc(Stats)
        for name in told:
            assert f"\n    {name}: " in described

    async def test_the_awaited_twin_tells_the_same(self, memory):
        fill(memory)
        sync, awaited = memory.admin.stats(), await memory.admin.astats()
        for told in (sync, awaited):
            del told["operations"], told["log_bytes"]  # which go on
        assert sync == awaited

    def test_it_can_be_written_as_json(self, memory):
        fill(memory)
        assert json.loads(json.dumps(memory.admin.stats()))["messages"] == 51

    def test_the_slowest_operation_comes_first(self, memory):
        for name, seconds, failed in (("a", 2.0, True), ("b", 5.0, False), ("a", 3.0, False), ("c", 4.0, False)):
            memory.database.measures.ended(name, seconds, failed)
        first, second, third, *_ = memory.admin.stats()["operations"]
        assert [first["name"], second["name"], third["name"]] == ["b", "c", "a"]
        assert third == {
            "name": "a",
            "calls": 2,
            "failures": 1,
            "mean_ms": 2_500.0,
            "slowest_ms": 3_000.0,
            "total_ms": 5_000.0,
        }

    def test_an_operation_that_fails_counts_as_such(self, memory):
        chat = memory.conversation("c")
        chat.add({"role": "user", "content": "one", "message_id": "m"})
        with pytest.raises(Exception, match="m"):
            chat.add({"role": "user", "content": "two", "message_id": "m"})
        [added] = [each for each in memory.admin.stats()["operations"] if each["name"] == "memory.conversation.add"]
        assert (added["calls"], added["failures"]) == (2, 1)


class TestCaches:
    def test_messages_of_checkpoints(self, memory):
        saver = memory.checkpointer
        line = Line(saver)
        line.put({"messages": [HumanMessage(f"hello {n}", id=str(n)) for n in range(10)]})
        config = line.put({"messages": [*saver.get(line.config)["channel_values"]["messages"], AIMessage("x", id="x")]})
        told = memory.admin.stats()["caches"]
        assert told["messages known to be stored"] == {"hits": 10, "misses": 11}
        assert told["messages of checkpoints"] == {"hits": 10, "misses": 0}
        saver.drop_caches()
        saver.get(config)
        assert memory.admin.stats()["caches"]["messages of checkpoints"] == {"hits": 10, "misses": 11}

    def test_contexts_of_conversations(self, memory):
        chat = memory.managed_conversation("c", config=ManagedMemoryConfig(trigger_events=[]))
        chat.add(role="user", content="hello")
        chat.get_context()
        chat.get_context()
        chat.forget()
        chat.get_context()
        assert memory.admin.stats()["caches"]["contexts of conversations"] == {"hits": 1, "misses": 2}

    def test_histories_of_graphs_and_their_compactions(self, memory):
        node = CompactionNode(memory, model=Summarizer(), config=SMALL, conversation_id="c")
        said = talk(20)
        node.invoke({"messages": said})
        node.invoke({"messages": [*said, HumanMessage("more", id="more")]})
        told = memory.admin.stats()["caches"]
        assert told["messages counted the turn before"] == {"hits": 40, "misses": 41}
        assert told["compactions"] == {"hits": 1, "misses": 0}
        other = CompactionNode(memory, model=Summarizer(), config=SMALL, conversation_id="c")
        other.invoke({"messages": said})
        assert memory.admin.stats()["caches"]["compactions"] == {"hits": 1, "misses": 1}

    def test_vectors(self, new_database):
        with AgentMemory(new_database("sqlite"), index={"embed": Letters(), "dims": 26}) as memory:
            memory.conversation("c").add(role="user", content="hello")
            memory.settle()
            for _ in range(3):
                memory.search("hello")
            assert memory.admin.stats()["caches"]["vectors"] == {"hits": 2, "misses": 1}

    def test_files_of_experiences(self, memory, tmp_path):
        (tmp_path / "handcrafted_exp_one.yaml").write_text(
            "exp_id: one\nwho: everybody\nwhen: it rains\nwhat: take an umbrella\nexperience_text: It was wet.\n"
        )
        old = 1_600_000_000
        os.utime(tmp_path / "handcrafted_exp_one.yaml", (old, old))
        folders = memory.experiences(tmp_path)._folders
        folders.look()
        folders.look()
        told = memory.admin.stats()["caches"]["files of experiences"]
        assert told["hits"] + told["misses"] == 2
        assert told["misses"] >= 1


def talk(turns):
    said = []
    for turn in range(turns):
        said.append(HumanMessage(f"question-{turn:03} " + "how many are there in this basket " * 2, id=f"q-{turn}"))
        said.append(AIMessage(f"answer-{turn:03} " + "there are this many in the basket " * 2, id=f"a-{turn}"))
    return said


class TestTokensKeptOut:
    def test_a_graph_is_told_what_its_context_is_shorter_by(self, memory):
        node = CompactionNode(memory, model=Summarizer(), config=SMALL, conversation_id="c")
        counter, said = node._compactor.counter, talk(20)
        assert memory.admin.stats()["tokens_kept_out"] == memory.admin.stats()["shortened_prompts"] == 0
        shown = node.invoke({"messages": said})["llm_input_messages"]
        saved = counter.count(said) - counter.count(shown)
        assert saved > 0
        told = memory.admin.stats()
        assert (told["tokens_kept_out"], told["shortened_prompts"]) == (saved, 1)
        node.invoke({"messages": said})
        told = memory.admin.stats()
        assert (told["tokens_kept_out"], told["shortened_prompts"]) == (2 * saved, 2), "each prompt counts"

    def test_a_context_that_is_whole_keeps_nothing_out(self, memory):
        CompactionNode(memory, model=Summarizer(), config=SMALL, conversation_id="c").invoke({"messages": talk(1)})
        assert memory.admin.stats()["shortened_prompts"] == 0

    @pytest.mark.slow
    def test_a_conversation_is_told_it_too_after_several_compactions(self, url):
        with AgentMemory(url) as memory:
            chat = memory.managed_conversation("c", config=SMALL, model=Summarizer())
            for message in talk(40):
                chat.add_message(message)
            context = chat.get_context()
            told = memory.admin.stats()
            assert told["compactions"] > 1
            counter = chat._compactor.counter
            saved = counter.count(chat.raw_messages) - counter.count(context)
            assert told["shortened_prompts"] == 1
            assert told["tokens_kept_out"] == pytest.approx(saved, rel=0.02)
        with AgentMemory(url) as memory:
            again = memory.admin.stats()
            assert (again["tokens_kept_out"], again["shortened_prompts"]) == (told["tokens_kept_out"], 1)
            memory.managed_conversation("c", config=SMALL, model=Summarizer()).get_context()
            assert memory.admin.stats()["tokens_kept_out"] == 2 * told["tokens_kept_out"], "the record knows it, too"

    def test_a_compaction_of_an_older_version_keeps_out_what_is_known(self, memory, raw):
        chat = memory.managed_conversation("c", config=SMALL, model=Summarizer())
        for message in talk(20):
            chat.add_message(message)
        record = chat._logged.context.record
        from langchain_agentmem.conversations import compaction_records

        body = json.loads(compaction_records._written(record))
        assert body.pop("saved") == record.saved > 0
        assert compaction_records._decoded(body)["saved"] == 0

    def test_an_export_takes_it_along(self, memory, new_database, tmp_path):
        chat = memory.managed_conversation("c", config=SMALL, model=Summarizer())
        for message in talk(20):
            chat.add_message(message)
        chat.get_context()
        saved = memory.admin.stats()["tokens_kept_out"]
        memory.export(tmp_path / "all.jsonl")
        with AgentMemory(new_database("sqlite")) as other:
            other.import_(tmp_path / "all.jsonl")
            assert other.admin.stats()["tokens_kept_out"] == 0
            other.managed_conversation("c", config=SMALL, model=Summarizer()).get_context()
            assert other.admin.stats()["tokens_kept_out"] == saved > 0


class TestEveryOpenDatabase:
    def test_measures_of_its_own(self, new_database):
        one, other = Database(new_database("sqlite")), Database(new_database("sqlite"))
        one.measures.ended("memory.x", 0.1)
        assert not other.measures.so_far()
        one.close()
        other.close()
