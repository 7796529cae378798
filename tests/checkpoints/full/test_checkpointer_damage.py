"""Damage, foreign data and bad input are told by our own errors; a wrong value is never handed out for a right one."""

from __future__ import annotations

import json
import pickle
import random
import sqlite3
import threading
from contextlib import closing

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from langchain_agentmem import AgentMemory, AgentMemorySaver
from langchain_agentmem.checkpoints.checkpoint_codec import value_of
from langchain_agentmem.errors import CheckpointUnreadable, DatabaseReadOnly, InvalidInput, MemoryClosed, StorageError
from langchain_agentmem.threads.checkpoint_head import short, unfold
from langchain_agentmem.threads.value_recipe import guarded
from tests.checkpoints.graphs import (
    NOTHING,
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

pytestmark = pytest.mark.sqlite_suffices

SERDE = JsonPlusSerializer()
KEY = b"sixteen bytes ok"


def filled(path):
    """A database with threads of every sort of content."""
    with AgentMemory(path) as memory:
        saver = memory.checkpointer
        chat = chat_graph(saver)
        for said in ("one", "two"):
            chat.invoke({"messages": [HumanMessage(said, additional_kwargs={"bytes": b"\x00"})]}, at("chat"))
        asking_graph(saver).invoke({"log": ["in"]}, at("asking"))
        line = Line(saver, "line")
        line.put({"text": "text " * 100, "list": [1, {"deep": "x"}], "call": [AIMessage("call", id="m")], "none": None})
        line.put({"list": [1, {"deep": "x"}, "more"], "text": NOTHING})
        saver.put_writes(line.config, [("list", ["pending"]), ("text", None), ("bytes", b"\x00")], "task")


THREADS = ("chat", "asking", "line")


def read(path):
    """What is in each thread, or that it cannot be read; any other error comes through."""
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
    """Every blob in the database: its table, its column, and its bytes."""
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


def damaged(value, luck):
    """The value emptied, replaced and cut, and with a bit of it turned at a few places."""
    yield b""
    yield b"\x00"
    yield value[:-1]
    for place in {0, len(value) - 1, luck.randrange(len(value))}:
        yield value[:place] + bytes([value[place] ^ (1 << luck.randrange(8))]) + value[place + 1 :]


def as_before(path):
    """Write heads and metadata as earlier versions did: channels and times in full, and the serializer's type."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        for row in connection.execute("select * from checkpoint").fetchall():
            versions = json.loads(row["versions"])
            head = unfold(value_of(SERDE, row["head"], row["versions"]), versions, row["name"], {})
            places = {version: place for place, version in enumerate(versions.values())}
            seen = {
                node: {channel: places.get(short(version), short(version)) for channel, version in there.items()}
                for node, there in head["versions_seen"].items()
            }
            folded = [head["v"], head["ts"], seen, head["updated_channels"]]
            told = value_of(SERDE, row["metadata"])
            written = [
                guarded(ormsgpack.packb(list(SERDE.dumps_typed(value))), beside)
                for value, beside in ((folded, row["versions"]), (told, ""))
            ]
            assert len(written[0]) > len(row["head"])
            connection.execute(
                "update checkpoint set head = ?, metadata = ? where line_id = ? and name = ?",
                (*written, row["line_id"], row["name"]),
            )
        connection.commit()


def test_heads_and_metadata_are_read_as_earlier_versions_wrote_them(tmp_path):
    path = tmp_path / "a.db"
    filled(path)
    before = read(path)
    as_before(path)
    assert read(path) == before
    with AgentMemory(path) as memory:
        assert memory.admin.verify().problems == ()


class TestDamage:
    @pytest.mark.slow
    def test_every_damaged_blob_is_told_or_does_no_harm(self, tmp_path):
        path, luck = tmp_path / "a.db", random.Random(1)
        filled(path)
        with AgentMemory(path) as memory:
            known = {thread: ids(memory.checkpointer.list(at(thread))) for thread in THREADS}
        before, told, tables = read(path), set(), set()
        for table, column, value in blobs(path):
            tables.add(table)
            for damage in damaged(value, luck) if value else [b"\x00"]:
                update = f"update {table} set {column} = ? where {column} = ?"
                try:
                    write_raw(path, update, damage, value)
                except sqlite3.IntegrityError:
                    continue  # another row is known by this hash
                for (thread, name), after in read(path).items():
                    if isinstance(after, CheckpointUnreadable):
                        told.add(table)
                        assert repr(thread) in str(after)
                        assert any(known_id in str(after) for known_id in known[thread]), str(after)
                    else:
                        assert after == before[thread, name], f"{table}.{column}: {value!r} became {damage!r}"
                write_raw(path, update, value, damage)
        assert read(path) == before
        assert told >= tables & {"content", "checkpoint", "channel_value", "pending_write"}

    @pytest.mark.slow
    def test_whatever_cannot_be_read_is_found_by_a_check_of_the_whole(self, tmp_path):
        path, luck = tmp_path / "a.db", random.Random(2)
        filled(path)
        overlooked = set()
        for table, column, value in blobs(path):
            for damage in [*damaged(value, luck)][:4:3] if value else []:
                try:
                    write_raw(path, f"update {table} set {column} = ? where {column} = ?", damage, value)
                except sqlite3.IntegrityError:
                    continue
                if any(isinstance(found, CheckpointUnreadable) for found in read(path).values()):
                    with AgentMemory(path) as memory:
                        overlooked |= {f"{table}.{column}"} if memory.admin.verify().ok else set()
                write_raw(path, f"update {table} set {column} = ? where {column} = ?", value, damage)
        assert overlooked == set()
        with AgentMemory(path) as memory:
            assert memory.admin.verify().problems == ()

    def test_one_unreadable_checkpoint_leaves_the_others_readable(self, tmp_path):
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

    async def test_damage_is_told_by_the_awaited_methods_too(self, tmp_path):
        path = tmp_path / "a.db"
        with AgentMemory(path) as memory:
            config = Line(memory.checkpointer).put({"a": "value " * 50})
        [(table, column, value)] = [each for each in blobs(path) if b"value value" in each[2]]
        write_raw(path, f"update {table} set {column} = ? where {column} = ?", b"", value)
        async with AgentMemory(path) as memory:
            with pytest.raises(CheckpointUnreadable, match=id_in(config)):
                await memory.checkpointer.aget_tuple(at())
            with pytest.raises(CheckpointUnreadable, match=id_in(config)):
                [found async for found in memory.checkpointer.alist(at())]


class Pickling:
    """A serializer of the user's own."""

    def dumps_typed(self, obj):
        return "own", pickle.dumps(obj)

    def loads_typed(self, data):
        assert data[0] == "own"
        return pickle.loads(data[1])


class OldPickling:
    """One of the old kind, without types."""

    dumps, loads = staticmethod(pickle.dumps), staticmethod(pickle.loads)


def aes(key=KEY):
    return EncryptedSerializer.from_pycryptodome_aes(key=key)


SERIALIZERS = {"own": Pickling, "old": OldPickling, "encrypted": aes}


class TestSerializers:
    @pytest.mark.parametrize("name", SERIALIZERS)
    async def test_a_graph_runs_is_resumed_and_goes_back_under_each(self, url, name):
        with AgentMemory(url) as memory:
            saver = AgentMemorySaver(memory, serde=SERIALIZERS[name]())
            chat_graph(saver).invoke({"messages": ["one"]}, at("chat"))
            asking_graph(saver).invoke({"log": ["in"]}, at())
        async with AgentMemory(url) as memory:
            saver = AgentMemorySaver(memory, serde=SERIALIZERS[name]())
            chat, asking = chat_graph(saver), asking_graph(saver)
            await chat.ainvoke({"messages": ["two"]}, at("chat"))
            assert (await asking.ainvoke(Command(resume="yes"), at()))["log"] == ["in", "a", "yes", "z"]
            histories = [
                [m.text for m in state.values.get("messages", [])] for state in chat.get_state_history(at("chat"))
            ]
            assert histories[0] == ["one", "ONE", "two", "TWO"]
            assert ["one", "ONE"] in histories
            saver.copy_thread("chat", "copy")
            saver.prune(["chat"])
            saver.delete_thread("chat")
            assert everything(saver, "copy")[-1][3]["channel_values"]["messages"][0].text == "one"
            assert memory.admin.verify().problems == ()

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

    @pytest.mark.parametrize("reader", [lambda: None, Pickling, lambda: aes(b"another 16 bytes")])
    def test_what_another_serializer_wrote_is_told(self, url, reader):
        with AgentMemory(url) as memory:
            config = Line(AgentMemorySaver(memory, serde=aes())).put({"a": ["x"], "messages": [HumanMessage("x")]})
            saver = AgentMemorySaver(memory, serde=reader())
            for reading in (lambda: saver.get_tuple(at()), lambda: list(saver.list(at()))):
                with pytest.raises(CheckpointUnreadable, match=f"(?s)'t'.*{id_in(config)}|{id_in(config)}.*'t'"):
                    reading()

    def test_plain_threads_and_encrypted_ones_share_a_database(self, memory):
        plain, encrypted = memory.checkpointer, AgentMemorySaver(memory, serde=aes())
        Line(plain, "plain").put({"a": "x"})
        Line(encrypted, "encrypted").put({"a": "x"})
        assert (
            plain.get(at("plain"))["channel_values"] == encrypted.get(at("encrypted"))["channel_values"] == {"a": "x"}
        )
        assert encrypted.get(at("plain"))["channel_values"] == {"a": "x"}  # LangGraph's serializer reads plain data too


def calls(saver):
    """A call of every method that takes a thread."""
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


class TestClosed:
    async def test_a_closed_saver_says_so(self, url):
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

    async def test_it_may_be_used_with_and_without_with(self, url):
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

    def test_a_saver_of_a_memory_closes_with_it_and_not_before(self, url):
        with AgentMemory(url) as memory:
            with memory.checkpointer as saver:
                Line(saver).put({"a": 1})
            assert memory.checkpointer.get(at())["channel_values"] == {"a": 1}
        with pytest.raises(MemoryClosed):
            saver.get_tuple(at())


class TestReadOnly:
    def test_a_database_that_may_not_be_written_is_read(self, tmp_path):
        path = tmp_path / "a.db"
        with AgentMemory(path) as memory:
            Line(memory.checkpointer).put({"a": 1}, run_id="r")
        with AgentMemory(f"file:{path}?mode=ro") as memory:
            saver = memory.checkpointer
            saver.setup()
            assert saver.get(at())["channel_values"] == {"a": 1}
            assert len(ids(saver.list(at()))) == 1
            for name in ("put", "put_writes", "delete_thread", "delete_for_runs", "copy_thread", "prune"):
                if name != "prune":  # there is nothing to prune
                    with pytest.raises(DatabaseReadOnly):
                        calls(saver)[name]()
            assert saver.get(at())["channel_values"] == {"a": 1}


BAD_IDS = [None, "", "nul \x00", b"bytes", 1.5, ["t"], "\ud800"]


class TestBadInput:
    @pytest.mark.parametrize("bad", BAD_IDS, ids=repr)
    def test_a_bad_thread_id_is_refused_by_every_method(self, saver, memory, bad):
        stats = memory.admin.stats()
        config = at(bad, "id")
        for call in (
            lambda: saver.get_tuple(config),
            lambda: list(saver.list(config)),
            lambda: saver.put(at(bad), new_checkpoint({"a": 1}, {"a": "1"}), {}, {"a": "1"}),
            lambda: saver.put_writes(config, [("a", 1)], "task"),
            lambda: saver.delete_thread(bad),
            lambda: saver.copy_thread(bad, "t"),
            lambda: saver.copy_thread("t", bad),
            lambda: saver.prune([bad]),
        ):
            with pytest.raises(InvalidInput):
                call()
        assert memory.admin.stats()["contents"] == stats["contents"]
        assert list(saver.list(None)) == []

    @pytest.mark.parametrize("config", [{}, {"configurable": {}}, {"configurable": {"checkpoint_ns": ""}}], ids=repr)
    async def test_a_config_without_a_thread_is_refused(self, saver, config):
        checkpoint = new_checkpoint({}, {})
        for call in (
            lambda: saver.get_tuple(config),
            lambda: saver.put(config, checkpoint, {}, {}),
            lambda: saver.put_writes(config, [("a", 1)], "task"),
        ):
            with pytest.raises(InvalidInput, match="thread_id"):
                call()
        with pytest.raises(InvalidInput, match="thread_id"):
            await saver.aput(config, checkpoint, {}, {})
        with pytest.raises(InvalidInput, match="thread_id"):
            await saver.aget_tuple(config)

    def test_writes_need_a_checkpoint(self, saver):
        with pytest.raises(InvalidInput, match="checkpoint_id"):
            saver.put_writes(at(), [("a", 1)], "task")

    @pytest.mark.parametrize("bad", ["nul \x00", 7, b"bytes"], ids=repr)
    def test_other_bad_ids_are_refused(self, saver, bad):
        for call in (
            lambda: saver.get_tuple(at("t", bad)),
            lambda: saver.get_tuple(at(ns=bad)),
            lambda: saver.put(at(), new_checkpoint({}, {}, id=bad), {}, {}),
            lambda: saver.put_writes(at("t", bad), [("a", 1)], "task"),
            lambda: saver.put_writes(at("t", "id"), [("a", 1)], bad),
        ):
            with pytest.raises(InvalidInput):
                call()
        assert list(saver.list(None)) == []

    @pytest.mark.parametrize("limit", ["1", 1.5], ids=repr)
    def test_a_bad_limit_is_refused(self, saver, limit):
        Line(saver).put()
        with pytest.raises(InvalidInput, match="limit"):
            list(saver.list(at(), limit=limit))

    @pytest.mark.parametrize(
        "value",
        [threading.Lock(), [threading.Lock()], [HumanMessage("x", additional_kwargs={"x": threading.Lock()})], 2**70],
        ids=["lock", "within a list", "within a message", "number"],
    )
    def test_a_value_that_cannot_be_stored_is_refused_whole(self, saver, memory, value):
        line = Line(saver)
        config = line.put({"a": 1})
        before, stats = everything(saver), memory.admin.stats()
        with pytest.raises(InvalidInput, match="odd"):
            line.put({"a": 2, "odd": value})
        with pytest.raises(InvalidInput, match="odd"):
            saver.put_writes(config, [("a", 2), ("odd", value)], "task")
        assert everything(saver) == before
        assert memory.admin.stats()["contents"] == stats["contents"]
        assert memory.admin.verify().problems == ()

    def test_a_graph_that_makes_such_a_value_fails_and_can_go_on(self, saver):
        odd = [threading.Lock()]
        nodes = {"a": lambda _: {"log": [odd.pop()] if odd else ["a"]}}
        graph = logging_graph(saver, "a", "b", nodes=nodes)
        with pytest.raises(InvalidInput, match="log"):
            graph.invoke({"log": ["in"]}, at(), durability="sync")
        assert graph.invoke(None, at())["log"] == ["in", "a", "b"]
