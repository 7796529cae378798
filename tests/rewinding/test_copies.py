"""Memory on several branches (subgraphs, forks, copies) is shown once, in order, and found."""

import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from langgraph.checkpoint.base.id import uuid6

from langchain_agentmem import AgentMemory, Retention
from langchain_agentmem.base.clock import to_micros
from langchain_agentmem.rewinding.sealing import parse_id_time
from langchain_agentmem.search import memory_search
from tests.support.graphs import at, line

from .minds import EMPTY, State

pytestmark = pytest.mark.sqlite_suffices
TABLES = "memory memory_group sealed_group finished_task finished_group checkpoint_position branch_base base_group"


@pytest.fixture
def note(memory):
    """Return a function that makes nodes which remember texts."""

    def make(*texts):
        def node(state):
            for text in texts:
                memory.layers().recall.append("note", text)
            return {"log": list(texts)}

        return node

    return make


def graph(*nodes, memory=None):
    """Return a graph of sequential nodes."""
    return line(memory and memory.checkpointer, *nodes, state=State)


def begun(runs, thread="t"):
    """Return the config of the first checkpoint of a thread."""
    return next(each.config for each in runs.get_state_history(at(thread)) if each.metadata["source"] == "input")


def texts(things):
    return sorted(getattr(each, "content", None) or each.text for each in things)


def shown(memory, thread="t"):
    return [each.content for each in memory.layers(at(thread)).recall.recent(limit=None)]


def found(memory, word, thread="t"):
    """Return the hits of a thread's own search; `memory.search` must find them too."""
    own = texts(memory.layers(at(thread)).recall.search(word, limit=100))
    assert set(own) <= set(texts(memory.search(word, config=at(thread), kinds=["event"], limit=100)))
    return own


class TestSubgraphs:
    def test_subgraph_memory_is_searchable_from_outside(self, memory, note):
        graph(graph(note("an apple", "an apple pie")), memory=memory).invoke(EMPTY, at())
        assert texts(memory.search("apple", kinds=["event"])) == ["an apple", "an apple pie"]
        assert texts(memory.search("apple", config=at("another"), kinds=["event"])) == []

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_a_node_may_read_its_own_subgraphs_checkpoint(self, memory, note, durability):
        def look(state, config):
            note("before")(state)
            own = config["configurable"]["checkpoint_ns"].rpartition("|")[0]
            here = {**config["configurable"], "checkpoint_ns": own, "checkpoint_id": None}
            memory.checkpointer.get_tuple({"configurable": here})
            return note("after")(state)

        graph(graph(look, note("then")), memory=memory).invoke(EMPTY, at(), durability=durability)
        assert shown(memory) == ["before", "after", "then"]

    def test_memory_survives_deletion_of_its_subgraphs_checkpoints(self, memory, note):
        run = uuid.uuid4()
        graph(graph(note("an apple")), memory=memory).invoke(EMPTY, at(run_id=run, metadata={"run_id": str(run)}))
        graph(note("a pear"), memory=memory).invoke(EMPTY, at())
        memory.checkpointer.delete_for_runs([str(run)])
        assert shown(memory) == ["an apple", "a pear"]
        assert found(memory, "apple") == ["an apple"]


class TestCopiedThreads:
    def test_a_copy_of_a_copy_inherits_all_memory(self, memory, note):
        for old, new in (("0", "1"), ("1", "2"), ("2", "3")):
            memory.checkpointer.copy_thread(old, new)
            graph(note(f"apple {new}"), memory=memory).invoke(EMPTY, at(new))
        assert [len(found(memory, "apple", thread)) for thread in "123"] == [1, 2, 3]
        for thread in "12":
            memory.checkpointer.delete_thread(thread)
        assert len(shown(memory, "3")) == len(found(memory, "apple", "3")) == 3

    @pytest.mark.parametrize("back", [False, True])
    def test_deleting_a_thread_and_copies_leaves_no_rows(self, memory, note, raw, back):
        """Also if a copy was rewound before its copied checkpoints after the thread was deleted."""
        runs = graph(graph(note("an apple")), note("a pear"), memory=memory)
        runs.invoke(EMPTY, at())
        memory.checkpointer.copy_thread("t", "copy")
        memory.checkpointer.delete_thread("t")
        assert shown(memory, "copy") == ["an apple", "a pear"]
        if back:
            runs.update_state(begun(runs, "copy"), None, as_node="__end__")
            memory.checkpointer.prune(["copy"])
        memory.checkpointer.delete_thread("copy")
        for table in [*TABLES.split(), "content"]:
            assert raw(memory, f"select * from {table}") == [], table


def test_memory_committed_during_a_search_is_found(memory, note, monkeypatch):
    looking, placed, found = threading.Event(), threading.Event(), []

    def search(tx, *arguments, **options):
        hits = real_search(tx, *arguments, **options)
        looking.set()
        assert placed.wait(120)
        return hits

    def put(config, checkpoint, metadata, versions):
        if metadata["step"] == 1:
            assert looking.wait(120)
        stored = type(memory.checkpointer).put(memory.checkpointer, config, checkpoint, metadata, versions)
        if metadata["step"] == 1:
            placed.set()
        return stored

    def node(state):
        found.extend(memory.search("apple", kinds=["event"]))

    real_search = memory_search.search
    monkeypatch.setattr(memory_search, "search", search)
    monkeypatch.setattr(memory.checkpointer, "put", put)
    graph(note("an apple"), node, memory=memory).invoke(EMPTY, at(), durability="async")
    assert texts(found) == ["an apple"]


def test_overwritten_versions_are_deleted_with_their_checkpoints(memory, raw):
    def setting(value):
        return lambda state: memory.layers().core.set("key", value)

    graph(*map(setting, ("one", "two", "three")), memory=memory).invoke(EMPTY, at())
    assert raw(memory, "select count(*) as versions from memory") == [{"versions": 3}]
    memory.checkpointer.prune(["t"])
    assert memory.layers(at()).core.get() == {"key": "three"}
    assert raw(memory, "select count(*) as versions from memory") == [{"versions": 1}]


def test_expired_memory_is_hidden_from_reads_and_search(url, clock):
    now = [clock()]
    with AgentMemory(url, clock=lambda: now[0]) as memory:
        layers = memory.layers("branch")
        layers.archival.write("an apple")
        layers.core.set("key", "short-lived", ttl=600)
        layers.core.set("filling", "x" * 1_990)  # the other goes to archival memory, and keeps its end
        layers.core.set("more", "here", ttl=600)

        for seconds, there in ((599, True), (1, False)):
            now[0] += timedelta(seconds=seconds)
            records = texts(layers.archival.search("short-lived"))
            assert (len(records), "more" in layers.core.get()) == (there, there)
            assert texts(memory.search("short-lived")) == records
            assert ("an apple" in texts(layers.archival.all(limit=2))) is not there


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_keep_last_drops_versions_of_removed_checkpoints(url, durability):
    def node(state, config):
        layers = memory.layers(config)
        assert len(layers.recall.recent(limit=None)) == len(state["messages"]) - 1
        layers.recall.append("turn", f"turn {len(state['messages'])}")
        layers.core.set("newest", state["messages"][-1].text)

    with AgentMemory(url, retention=Retention(keep_last=1)) as memory:
        for turn in range(24):
            given = {"messages": [("user", f"said {turn}")]}
            line(memory.checkpointer, node).invoke(given, at(), durability=durability)
        layers = memory.layers(at())
        assert [event.content for event in layers.recall.recent(limit=None)] == [f"turn {n}" for n in range(1, 25)]
        assert layers.core.get() == {"newest": "said 23"}
        assert memory.admin.stats()["checkpoints"] == 1
        assert memory.admin.stats()["memories"] < 24 + 24
        assert memory.admin.verify().ok


def test_checkpoint_time_reads_uuid6_and_ignores_other_ids():
    """The example of RFC 9562, and one a microsecond later."""
    made = to_micros(datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC))
    assert parse_id_time("1ec9414c-232a-6b00-b3c8-9f6bdeced846") == made
    assert parse_id_time("1ec9414c-232a-6b0a-b3c8-9f6bdeced846") == made + 1
    assert parse_id_time(str(uuid6())) > made
    for other in ("5b2c1b0e-8f0e-4e63-9d5c-0c2a8a1f6f11", "c8a2f6d2-c74c-11f0-9b3e-0242ac120002", "a checkpoint", ""):
        assert parse_id_time(other) == 0, other
