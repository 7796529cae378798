"""The checkpointer's contract through its synchronous methods: put, get, list and pending writes.

The conformance suite calls only the asynchronous ones, and does not look at order, versions or what is carried over.
"""

import asyncio
import itertools
import random
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import get_checkpoint_metadata, writes_sort_key
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, SCHEDULED
from langgraph.types import Interrupt, Send

from langchain_agentmem.errors import InvalidInput

from .graphs import NOTHING, Line, at, id_in, ids, new_checkpoint


@pytest.mark.sqlite_suffices
class TestPut:
    def test_unchanged_channels_are_carried_over(self, saver):
        line = Line(saver)
        first, second, third = line.put({"a": "old", "b": 1}), line.put({"b": 2}), line.put({"a": "new"})
        values = [saver.get(config)["channel_values"] for config in (first, second, third)]
        assert values == [{"a": "old", "b": 1}, {"a": "old", "b": 2}, {"a": "new", "b": 2}]

    def test_a_channel_may_have_no_value(self, saver):
        line = Line(saver)
        full, empty, none = line.put({"a": "x", "b": 1}), line.put({"a": NOTHING}), line.put({"a": None})
        assert saver.get(full)["channel_values"] == {"a": "x", "b": 1}
        assert saver.get(empty)["channel_values"] == {"b": 1}
        assert saver.get(empty)["channel_versions"].keys() == {"a", "b"}
        assert saver.get(none)["channel_values"] == {"a": None, "b": 1}

    def test_putting_a_checkpoint_again_replaces_it(self, saver):
        checkpoint = new_checkpoint({"a": 1}, {"a": "1"})
        saver.put(at(), checkpoint, {"step": 1}, {"a": "1"})
        saver.put(at(), checkpoint, {"step": 1, "again": True}, {"a": "1"})
        [found] = saver.list(at())
        assert found.metadata == {"step": 1, "again": True}
        assert found.checkpoint == checkpoint

    def test_threads_and_namespaces_are_separate(self, saver):
        for thread, ns in itertools.product(("t", "T", "t1", "%", "t_"), ("", "child:1", "child:1|grand:2")):
            Line(saver, thread, ns).put({"a": f"{thread} {ns}"})
        for thread, ns in itertools.product(("t", "T", "t1", "%", "t_"), ("", "child:1", "child:1|grand:2")):
            assert saver.get(at(thread, ns=ns))["channel_values"] == {"a": f"{thread} {ns}"}

    def test_metadata_is_merged_from_the_config(self, saver):
        config = at(
            user="not in configurable",
            metadata={"run_id": "r", "cut": "a\x00b", "step": 99, "langgraph_node": "n", "deep": {"no": 1}, "__x": 1},
        )
        config["configurable"] |= {"user_id": "u", "score": 1.5, "yes": True, "none": None, "__pregel_x": "hidden"}
        metadata = {"source": "loop", "step": 1, "writes": None, "cut2": "c\x00d", "parents": {"": "x"}}
        saver.put(config, new_checkpoint({}, {}), metadata, {})
        assert saver.get_tuple(at()).metadata == get_checkpoint_metadata(config, metadata)

    def test_metadata_preserves_special_characters(self, saver):
        odd = {"text": 'it\'s "quoted" \\ é 日本 🐈 \n', "deep": {"list": [1, None, "nul \x00 byte", {"": 1.5}]}}
        saver.put(at(), new_checkpoint({}, {}), {"source": "loop"} | odd, {})
        assert saver.get_tuple(at()).metadata == {"source": "loop"} | odd


VALUES = {
    "none": None,
    "true": [True, 1, 1.0, False, 0, -0.0],
    "numbers": [2**63 - 1, -(2**63), 1e300, float("inf"), Decimal("1.10")],
    "text": "nul \x00, é 日本 🐈 \r\n",
    "empty": ["", b"", [], {}, (), set()],
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"\x00\xff"),
    "tuple": (1, (2, [3, (4,)])),
    "sets": [{1, 2}, frozenset({"x"})],
    "order": {"b": 1, "a": {"z": 1, "c": 2}},
    "keys": {1: "int", "1": "str", None: "none"},
    "uuid": UUID(int=7),
    "path": Path("/a/b"),
    "document": Document("text", metadata={"n": 1}, id="d"),
    "send": Send("node", {"x": (1, 2), "say": [("x", HumanMessage("x"))]}),
    "interrupt": (Interrupt(value="Why?", id="i"),),
}


@pytest.mark.sqlite_suffices
class TestValues:
    def test_values_match_the_stock_serializer(self, saver):
        serde = JsonPlusSerializer(allowed_msgpack_modules=None)
        given = {f"{how} {name}": made for name, each in VALUES.items() for how, made in (("a", each), ("in", [each]))}
        expected = {channel: serde.loads_typed(serde.dumps_typed(value)) for channel, value in given.items()}
        config = Line(saver).put(given)
        saver.put_writes(config, list(given.items()), "task")
        found = saver.get_tuple(config)
        written = {channel: value for _, channel, value in found.pending_writes}
        for got in (found.checkpoint["channel_values"], written):
            assert got.keys() == expected.keys()
            for channel, value in expected.items():
                assert type(got[channel]) is type(value), channel
                assert repr(got[channel]) == repr(value), channel  # which shows types and order within


@pytest.mark.sqlite_suffices
class TestPendingWrites:
    def test_writes_are_ordered_by_path_and_task(self, saver):
        config = Line(saver).put()
        pulls = ("~__pregel_pull, b", "~__pregel_pull, B", "~__pregel_pull, _a", "~__pregel_push, 10")
        paths = ["", *pulls, "é", "Z", "z"]
        puts = [(path, f"{letter}{n}") for path in paths for n, letter in enumerate("bA_a")]
        random.Random(1).shuffle(puts)
        for path, task in puts:
            saver.put_writes(config, [(f"c{n}", f"{path}/{task}/{n}") for n in range(12)], task + path, path)
        keys = sorted(writes_sort_key(path, task + path, n) for path, task in puts for n in range(12))
        expected = [(task, f"c{n}", f"{path}/{task.removesuffix(path)}/{n}") for path, task, n in keys]
        assert saver.get_tuple(config).pending_writes == expected
        [listed] = saver.list(at())
        assert listed.pending_writes == expected

    def test_special_writes_precede_other_writes_of_a_task(self, saver):
        config = Line(saver).put()
        saver.put_writes(config, [("a", 1), ("b", 2)], "task")
        for channel in (ERROR, SCHEDULED, INTERRUPT, RESUME):
            saver.put_writes(config, [(channel, channel)], "task")
        channels = [channel for _, channel, _ in saver.get_tuple(config).pending_writes]
        assert channels == [RESUME, INTERRUPT, SCHEDULED, ERROR, "a", "b"]

    def test_a_special_write_replaces_its_predecessor(self, saver):
        for channel in (ERROR, INTERRUPT, RESUME, SCHEDULED):
            config = Line(saver).put()
            for value, task in (("old", "task"), ("new", "task"), ("of another", "task 2")):
                saver.put_writes(config, [(channel, value)], task)
            found = saver.get_tuple(config).pending_writes
            assert found == [("task", channel, "new"), ("task 2", channel, "of another")]

    def test_ordinary_writes_are_not_replaced(self, saver):
        config = Line(saver).put()
        saver.put_writes(config, [("a", 1), ("a", 2)], "task", "path")
        before = saver.get_tuple(config).pending_writes
        saver.put_writes(config, [("a", 1), ("a", 2)], "task", "path")
        assert saver.get_tuple(config).pending_writes == before == [("task", "a", 1), ("task", "a", 2)]
        saver.put_writes(config, [("b", 0), ("b", 0), ("b", 3)], "task", "path")
        assert saver.get_tuple(config).pending_writes == [*before, ("task", "b", 3)]

    def test_writes_may_precede_their_checkpoint(self, saver):
        checkpoint = new_checkpoint({"a": 1}, {"a": "1"})
        early = at(checkpoint_id=checkpoint["id"])
        saver.put_writes(early, [("a", "early")], "task")
        assert saver.get_tuple(early) is None
        assert list(saver.list(at())) == []
        saver.put(at(), checkpoint, {}, {"a": "1"})
        assert saver.get_tuple(at()).pending_writes == [("task", "a", "early")]

    def test_put_writes_rejects_invalid_ids(self, saver):
        config = Line(saver).put()
        for channel, task, path in ((None, "t", ""), (["a"], "t", ""), ("a", None, ""), ("a", "t", None)):
            with pytest.raises(InvalidInput, match="cannot be the id"):
                saver.put_writes(config, [("b", "before"), (channel, 1)], task, path)
        saver.put_writes(config, [], "task")  # which is no error
        assert saver.get_tuple(config).pending_writes == []


class TestList:
    def test_list_supports_limit_and_before(self, saver):
        line = Line(saver)
        put = [line.put() for _ in range(6)]
        newest = [id_in(config) for config in put[::-1]]
        assert ids(saver.list(at(), limit=0)) == []
        assert ids(saver.list(at(), limit=2)) == newest[:2]
        assert ids(saver.list(at(), limit=99)) == newest
        assert ids(saver.list(at(), before=put[3])) == newest[3:]
        assert ids(saver.list(at(), before=put[3], limit=2)) == newest[3:5]
        assert ids(saver.list(at(), before=put[0])) == []
        assert ids(saver.list(put[2])) == [id_in(put[2])]
        assert ids(saver.list(put[2], before=put[2])) == []

    def test_list_rejects_invalid_filters_limits_and_cursors(self, saver):
        Line(saver).put()
        no_id = ({}, {"configurable": {}}, at(), {"checkpoint_id": "1"})
        befores = (*no_id, at(checkpoint_id=7), at(checkpoint_id=""), "1", 7)
        limits = ("1", 1.5, True, -1)
        wrongs = [{"filter": ["step"]}, *({"limit": each} for each in limits), *({"before": each} for each in befores)]
        for wrong in wrongs:
            with pytest.raises(InvalidInput):
                next(saver.list(at(), **wrong))
            with pytest.raises(InvalidInput):
                asyncio.run(anext(saver.alist(at(), **wrong)))

    def test_filter_compares_whole_metadata_values(self, saver):
        line = Line(saver)
        dotted = line.put({}, **{"a.b": 1})
        nested = line.put({}, a={"b": 1})
        quoted = line.put({}, **{'it\'s "odd" -- $.x': "y"})
        assert ids(saver.list(at(), filter={"a.b": 1})) == [id_in(nested), id_in(dotted)]
        assert ids(saver.list(at(), filter={"a": {"b": 1}})) == [id_in(nested)]
        assert ids(saver.list(at(), filter={'it\'s "odd" -- $.x': "y"})) == [id_in(quoted)]
        assert ids(saver.list(at(), filter={"a": {"b": 2}})) == ids(saver.list(at(), filter={"a": 1})) == []
        assert len(ids(saver.list(at(), filter={}))) == 3

    def test_dotted_filter_keys_match_literal_or_nested_keys(self, saver):
        """The literal match is as in InMemorySaver and PostgresSaver, the nested one as in SqliteSaver."""
        metadata = {"access-level": "public", "user": {"access-level": "nested", "123abc": "ok"}}
        nested = id_in(Line(saver).put({"a": 1}, **metadata))
        literal = id_in(Line(saver, "t2").put({"a": 1}, **metadata, **{"user.access-level": "literal"}))
        for wanted, found in (("nested", [nested]), ("literal", [literal]), ("public", [])):
            assert ids(saver.list(None, filter={"user.access-level": wanted})) == found
        assert ids(saver.list(at(), filter={"user.123abc": "ok"})) == [nested]
        assert ids(saver.list(None, filter={"user.none": "x"})) == []

    def test_threads_sharing_ids_are_listed_completely(self, saver, monkeypatch):
        monkeypatch.setattr("langchain_agentmem.checkpoints.checkpoint_listing.FIRST_BATCH", 1)
        monkeypatch.setattr("langchain_agentmem.checkpoints.checkpoint_listing.LARGEST_BATCH", 5)
        line = Line(saver)
        put = [id_in(line.put({"n": n}, odd=n % 2)) for n in range(7)]
        for copy in ("u", "v"):
            saver.copy_thread("t", copy)
        assert ids(saver.list(None)) == [name for name in put[::-1] for _ in range(3)]
        assert len({str(found.config) for found in saver.list(None)}) == 21
        assert ids(saver.list(None, limit=10)) == [name for name in put[::-1] for _ in range(3)][:10]
        assert ids(saver.list(None, filter={"odd": 1}, limit=4)) == [put[5]] * 3 + [put[3]]
        assert ids(saver.list(None, before=at(checkpoint_id=put[1]))) == [put[0]] * 3
        assert ids(saver.list({"configurable": {"thread_id": "u"}})) == ids(saver.list(at("u"))) == put[::-1]


@pytest.mark.sqlite_suffices
class TestVersions:
    def test_unstorable_versions_are_rejected(self, saver):
        for version in (b"1", object()):
            with pytest.raises(InvalidInput, match="cannot be stored"):
                saver.put(at(), new_checkpoint({"a": 1}, {"a": version}), {}, {"a": version})
            assert saver.get_tuple(at()) is None

    def test_next_versions_are_unique(self, saver):
        for current in (None, f"{5:032}.{0.123:016}", 5):
            assert len({saver.get_next_version(current, None) for _ in range(1_000)}) == 1_000
