"""Damage, foreign serializers and invalid input raise our own errors and never return wrong values."""

import itertools
import pickle
import random
import sqlite3
import threading
from contextlib import closing
from functools import partial

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from langchain_agentmem import AgentMemory, AgentMemorySaver
from langchain_agentmem.errors import CheckpointUnreadable, DatabaseReadOnly, InvalidInput, MemoryClosed, StorageError
from tests.checkpoints.graphs import (
    Line,
    asking_graph,
    at,
    chat_graph,
    comparable,
    everything,
    id_in,
    ids,
    logging_graph,
    new_checkpoint,
)
from tests.threads.filled import fill
from tests.threads.own_store import aes

pytestmark = pytest.mark.sqlite_suffices

SERDE = JsonPlusSerializer()


THREADS = ("chat", "asking", "line")


def filled(path):
    """Create a database with threads of every kind."""
    with AgentMemory(path) as memory:
        fill(memory.checkpointer)
        for thread in ("outer", "delta"):
            memory.checkpointer.delete_thread(thread)


def read(path):
    """Read every thread; return its contents or the CheckpointUnreadable error."""
    found = {}
    with AgentMemory(path) as memory:
        saver = memory.checkpointer
        for thread in THREADS:
            for name, reading in (
                ("latest", lambda thread=thread: comparable(saver.get_tuple(at(thread)))),
                ("all", lambda thread=thread: everything(saver, thread)),
            ):
                try:
                    found[thread, name] = repr(reading())
                except CheckpointUnreadable as error:
                    found[thread, name] = error
    return found


def blobs(path):
    """Return every blob in the database with its table and column."""
    with closing(sqlite3.connect(path)) as connection:
        columns = connection.execute(
            "select t.name, c.name from pragma_table_list t join pragma_table_info(t.name) c "
            "where t.type = 'table' and t.schema = 'main' and lower(c.type) = 'blob'"
        ).fetchall()
        return [
            (table, column, value)
            for table, column in columns
            for (value,) in connection.execute(f"select distinct {column} from {table} where {column} is not null")
        ]


def write_raw(path, sql, *values):
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(sql, values).rowcount > 0
        connection.commit()


def damaged(value, rng):
    """Yield the value emptied, replaced, truncated, and with single bits flipped."""
    yield b""
    yield b"\x00"
    yield value[:-1]
    for place in {0, len(value) - 1, rng.randrange(len(value))}:
        yield value[:place] + bytes([value[place] ^ (1 << rng.randrange(8))]) + value[place + 1 :]


class TestDamage:
    @pytest.mark.slow
    def test_damaged_blobs_are_reported_or_harmless(self, tmp_path):
        path, rng = tmp_path / "a.db", random.Random(1)
        filled(path)
        with AgentMemory(path) as memory:
            known = {thread: ids(memory.checkpointer.list(at(thread))) for thread in THREADS}
        before, told, tables, overlooked = read(path), set(), set(), set()
        for table, column, value in blobs(path):
            tables.add(table)
            for number, damage in enumerate(damaged(value, rng) if value else [b"\x00"]):
                update = f"update {table} set {column} = ? where {column} = ?"
                try:
                    write_raw(path, update, damage, value)
                except sqlite3.IntegrityError:
                    continue  # another row is known by this hash
                errors = 0
                for (thread, name), after in read(path).items():
                    if isinstance(after, CheckpointUnreadable):
                        errors += 1
                        told.add(table)
                        assert repr(thread) in str(after)
                        assert any(known_id in str(after) for known_id in known[thread]), str(after)
                    else:
                        assert after == before[thread, name], f"{table}.{column}: {value!r} became {damage!r}"
                if errors and number % 3 == 0:
                    with AgentMemory(path) as memory:
                        overlooked |= {f"{table}.{column}"} if memory.admin.verify().ok else set()
                write_raw(path, update, value, damage)
        assert read(path) == before
        assert overlooked == set()
        assert told >= tables & {"content", "checkpoint", "channel_value", "pending_write"}

    def test_an_unreadable_checkpoint_leaves_others_readable(self, tmp_path):
        path = tmp_path / "a.db"
        with AgentMemory(path) as memory:
            line = Line(memory.checkpointer)
            configs = [line.put({"a": f"value {n}" * 50}) for n in range(3)]
            Line(memory.checkpointer, "other").put({"a": "other"})
        for table, column, value in blobs(path):
            if b"value 1" in value and b"value 2" not in value:
                write_raw(path, f"update {table} set {column} = ? where {column} = ?", b"\xc1", value)
        with AgentMemory(path) as memory:
            saver = memory.checkpointer
            assert saver.get(configs[0])["channel_values"] == {"a": "value 0" * 50}
            assert saver.get(configs[2])["channel_values"] == {"a": "value 2" * 50}
            assert saver.get(at("other"))["channel_values"] == {"a": "other"}
            with pytest.raises(CheckpointUnreadable, match=id_in(configs[1])):
                saver.get_tuple(configs[1])
            with pytest.raises(StorageError, match=id_in(configs[1])):
                list(saver.list(at()))
            saver.delete_thread("t")
            assert saver.get_tuple(at()) is None


class Pickling:
    """A custom serializer."""

    def dumps_typed(self, obj):
        return "own", pickle.dumps(obj)

    def loads_typed(self, data):
        assert data[0] == "own"
        return pickle.loads(data[1])


class OldPickling:
    """A custom serializer with the old interface, without types."""

    dumps, loads = staticmethod(pickle.dumps), staticmethod(pickle.loads)


SERIALIZERS = {"own": Pickling, "old": OldPickling, "encrypted": aes}


class TestSerializers:
    async def test_graphs_run_and_resume_with_each_serializer(self, url):
        for name, serde in SERIALIZERS.items():
            with AgentMemory(url) as memory:
                saver = AgentMemorySaver(memory, serde=serde())
                chat_graph(saver).invoke({"messages": ["one"]}, at("chat"))
                asking_graph(saver).invoke({"log": ["in"]}, at())
            async with AgentMemory(url) as memory:
                saver = AgentMemorySaver(memory, serde=serde())
                chat, asking = chat_graph(saver), asking_graph(saver)
                await chat.ainvoke({"messages": ["two"]}, at("chat"))
                assert (await asking.ainvoke(Command(resume="yes"), at()))["log"] == ["in", "a", "yes", "z"], name
                states = [state.values.get("messages", []) for state in chat.get_state_history(at("chat"))]
                histories = [[m.text for m in messages] for messages in states]
                assert histories[0] == ["one", "ONE", "two", "TWO"], name
                assert ["one", "ONE"] in histories, name
                saver.copy_thread("chat", "copy")
                saver.prune(["chat"])
                saver.delete_thread("chat")
                assert everything(saver, "copy")[-1][3]["channel_values"]["messages"][0].text == "one"
                assert memory.admin.verify().problems == ()
                for thread in ("t", "copy"):
                    saver.delete_thread(thread)

    def test_an_encrypted_database_holds_no_plain_text(self, tmp_path):
        path = tmp_path / "a.db"
        with AgentMemory(path) as memory:
            saver = AgentMemorySaver(memory, serde=aes())
            graph = chat_graph(saver)
            for n in range(5):
                graph.invoke({"messages": [HumanMessage(f"secret {n}", name="Secretary", id=f"secret id {n}")]}, at())
            asking_graph(saver).invoke({"log": ["secret log", b"secret bytes"]}, at("asking"))
            asking_graph(saver).invoke(Command(resume="secret answer"), at("asking"))
            line = Line(saver, "line")
            for n in range(3):
                config = line.put(
                    {"dict": {"secret key": [f"secret value {n}"]}, "list": [f"secret {m}" for m in range(n)]}
                )
                saver.put_writes(config, [("dict", {"secret key": "secret write"})], "task")
            files = [file.read_bytes().lower() for file in tmp_path.iterdir()]
            assert len(files) > 1  # the write-ahead log is among them
            assert not any(b"secret" in content for content in files)
            assert graph.get_state(at()).values["messages"][0].text == "secret 0"
            assert memory.admin.verify().problems == ()

    def test_reading_with_another_serializer_raises_an_error(self, memory):
        config = Line(AgentMemorySaver(memory, serde=aes())).put({"a": ["x"], "messages": [HumanMessage("x")]})
        other_key = EncryptedSerializer.from_pycryptodome_aes(key=b"another 16 bytes")
        for serde in (None, Pickling(), other_key):
            saver = AgentMemorySaver(memory, serde=serde)
            for reading in (lambda saver: saver.get_tuple(at()), lambda saver: list(saver.list(at()))):
                with pytest.raises(CheckpointUnreadable, match=f"(?s)'t'.*{id_in(config)}|{id_in(config)}.*'t'"):
                    reading(saver)

    def test_plain_and_encrypted_threads_share_a_database(self, memory):
        plain, encrypted = memory.checkpointer, AgentMemorySaver(memory, serde=aes())
        Line(plain, "plain").put({"a": "x"})
        Line(encrypted, "encrypted").put({"a": "x"})
        assert (
            plain.get(at("plain"))["channel_values"] == encrypted.get(at("encrypted"))["channel_values"] == {"a": "x"}
        )
        assert encrypted.get(at("plain"))["channel_values"] == {"a": "x"}  # LangGraph's serializer reads plain data too


def calls(saver):
    """Return a call of every method that takes a thread."""
    checkpoint = new_checkpoint({"a": 1}, {"a": "1"})
    known = at(checkpoint_id=checkpoint["id"])
    return {
        "get_tuple": lambda: saver.get_tuple(at()),
        "get": lambda: saver.get(at()),
        "list": lambda: list(saver.list(at())),
        "put": lambda: saver.put(at(), checkpoint, {}, {"a": "1"}),
        "put_writes": lambda: saver.put_writes(known, [("a", 1)], "task"),
        "delete_thread": lambda: saver.delete_thread("t"),
        "delete_for_runs": lambda: saver.delete_for_runs(["r"]),
        "copy_thread": lambda: saver.copy_thread("t", "u"),
        "prune": lambda: saver.prune(["t"]),
        "get_delta_channel_history": lambda: saver.get_delta_channel_history(config=at(), channels=["a"]),
    }


class TestClosing:
    async def test_a_closed_saver_raises_memory_closed(self, url):
        async def listed(saver):
            return [found async for found in saver.alist(at())]

        with AgentMemorySaver.from_conn_string(url) as saver:
            Line(saver).put({"a": 1})
        for call in calls(saver).values():
            with pytest.raises(MemoryClosed):
                call()
        for call in (saver.aget_tuple(at()), listed(saver), saver.aput(at(), new_checkpoint({}, {}), {}, {})):
            with pytest.raises(MemoryClosed):
                await call

    async def test_a_saver_works_without_a_context_manager(self, url):
        async with AgentMemorySaver.from_conn_string(url) as saver:
            saver.setup()
            await Line(saver).aput({"a": 1})
        saver = AgentMemorySaver.from_conn_string(url)
        assert saver.get(at())["channel_values"] == {"a": 1}
        with saver:
            assert (await saver.aget(at()))["channel_values"] == {"a": 1}
        with AgentMemorySaver.from_conn_string(":memory:") as one, AgentMemorySaver.from_conn_string(":memory:") as two:
            Line(one).put({"a": 1})
            assert two.get_tuple(at()) is None
            one.delete_thread("t")
            assert one.get_tuple(at()) is None

    def test_a_memorys_saver_closes_with_the_memory(self, url):
        with AgentMemory(url) as memory:
            with memory.checkpointer as saver:
                Line(saver).put({"a": 1})
            assert memory.checkpointer.get(at())["channel_values"] == {"a": 1}
        with pytest.raises(MemoryClosed):
            saver.get_tuple(at())


class TestReadOnly:
    def test_a_read_only_database_is_readable(self, tmp_path):
        path = tmp_path / "a.db"
        with AgentMemory(path) as memory:
            Line(memory.checkpointer).put({"a": 1}, run_id="r")
        with AgentMemory(f"file:{path}?mode=ro") as memory:
            saver = memory.checkpointer
            saver.setup()
            for name in ("put", "put_writes", "delete_thread", "delete_for_runs", "copy_thread", "prune"):
                with pytest.raises(DatabaseReadOnly):
                    calls(saver)[name]()
            [found] = saver.list(at())
            assert saver.get(at())["channel_values"] == found.checkpoint["channel_values"] == {"a": 1}


class TestInvalidInput:
    async def test_every_method_rejects_invalid_ids(self, saver, memory):
        one, new = [("a", 1)], partial(new_checkpoint, {"a": 1}, {"a": "1"})
        of_threads = (
            lambda bad: saver.get_tuple(at(bad, "id")),
            lambda bad: list(saver.list(at(bad, "id"))),
            lambda bad: saver.put(at(bad), new(), {}, {"a": "1"}),
            lambda bad: saver.put_writes(at(bad, "id"), one, "task"),
            saver.delete_thread,
            lambda bad: saver.copy_thread(bad, "t"),
            lambda bad: saver.copy_thread("t", bad),
            lambda bad: saver.prune([bad]),
        )
        of_others = (
            lambda bad: saver.get_tuple(at("t", bad)),
            lambda bad: saver.get_tuple(at(ns=bad)),
            lambda bad: saver.put(at(), new(id=bad), {}, {"a": "1"}),
            lambda bad: saver.put_writes(at("t", bad), one, "task"),
            lambda bad: saver.put_writes(at("t", "id"), one, bad),
        )
        threads, others = (None, "", "nul \x00", b"bytes", 1.5, ["t"], "\ud800"), ("nul \x00", 7, b"bytes")
        for bad, call in (*itertools.product(threads, of_threads), *itertools.product(others, of_others)):
            with pytest.raises(InvalidInput):
                pytest.fail(f"{bad!r} gives {call(bad)!r}")
        for config in ({}, {"configurable": {}}, {"configurable": {"checkpoint_ns": ""}}):
            for call in (
                lambda config=config: saver.get_tuple(config),
                lambda config=config: saver.put(config, new_checkpoint({}, {}), {}, {}),
                lambda config=config: saver.put_writes(config, [("a", 1)], "task"),
            ):
                with pytest.raises(InvalidInput, match="thread_id"):
                    call()
            for waited in (saver.aput(config, new_checkpoint({}, {}), {}, {}), saver.aget_tuple(config)):
                with pytest.raises(InvalidInput, match="thread_id"):
                    await waited
        with pytest.raises(InvalidInput, match="checkpoint_id"):
            saver.put_writes(at(), [("a", 1)], "task")
        assert list(saver.list(None)) == []
        assert memory.admin.stats()["contents"] == 0

    def test_a_put_with_an_unserializable_value_stores_nothing(self, saver, memory):
        line = Line(saver)
        config = line.put({"a": 1})
        before, stats = everything(saver), memory.admin.stats()
        lock = threading.Lock()
        for value in (lock, [lock], [HumanMessage("x", additional_kwargs={"x": lock})], 2**70):
            with pytest.raises(InvalidInput, match="odd"):
                line.put({"a": 2, "odd": value})
            with pytest.raises(InvalidInput, match="odd"):
                saver.put_writes(config, [("a", 2), ("odd", value)], "task")
        assert everything(saver) == before
        assert memory.admin.stats()["contents"] == stats["contents"]
        assert memory.admin.verify().problems == ()

    def test_a_graph_continues_after_an_unserializable_value(self, saver):
        odd = [threading.Lock()]
        nodes = {"a": lambda _: {"log": [odd.pop()] if odd else ["a"]}}
        graph = logging_graph(saver, "a", "b", nodes=nodes)
        with pytest.raises(InvalidInput, match="log"):
            graph.invoke({"log": ["in"]}, at(), durability="sync")
        assert graph.invoke(None, at())["log"] == ["in", "a", "b"]
