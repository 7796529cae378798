"""What lies on several branches, of subgraphs, forks and copied threads, is shown once, in its order, and found."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta
from typing import Annotated, TypedDict

import pytest
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from langchain_agentmem import AgentMemory
from langchain_agentmem.rewinding.thread_memory import ThreadPoint
from langchain_agentmem.search import memory_search
from tests.support.graphs import line

from .graphs import merged

pytestmark = pytest.mark.sqlite_suffices


class State(TypedDict):
    log: Annotated[list[str], merged]


EMPTY: State = {"log": []}


def at(thread, **more):
    return {"configurable": {"thread_id": thread}, **more}


@pytest.fixture
def memory(url):
    with AgentMemory(url) as memory:
        yield memory


@pytest.fixture
def note(memory):
    """Makes a node that remembers texts."""

    def make(*texts):
        def node(state):
            for text in texts:
                memory.layers().recall.append("note", text)
            return {"log": list(texts)}

        return node

    return make


def graph(*nodes, checkpointer=None):
    """The nodes, one after the other."""
    return line(checkpointer, *nodes, state=State)


def texts(things):
    return sorted(getattr(each, "content", None) or each.text for each in things)


def shown(memory, thread):
    return [each.content for each in memory.layers(at(thread)).recall.recent(limit=None)]


def found(memory, word, thread):
    """What a thread's own search finds; `memory.search` must find that too."""
    own = texts(memory.layers(at(thread)).recall.search(word, limit=100))
    assert set(own) <= set(texts(memory.search(word, config=at(thread), kinds=["event"], limit=100)))
    return own


def inner_checkpoints(memory):
    """Of subgraphs, the newest first."""
    return [each.config for each in memory.checkpointer.list(at("t")) if each.config["configurable"]["checkpoint_ns"]]


def test_what_a_copy_was_given_goes_with_the_last_that_needs_it(memory):
    def note(state, config):
        memory.layers(config).core.set("beside", "a question")
        return EMPTY

    def ask(state):
        interrupt("?")
        return EMPTY

    built = StateGraph(State).add_node(note).add_node(ask).add_edge(START, "note").add_edge(START, "ask")
    built.compile(checkpointer=memory.checkpointer).invoke(EMPTY, at("t"))
    memory.checkpointer.copy_thread("t", "copy")
    for thread in ("t", "copy"):
        memory.checkpointer.delete_thread(thread)
        assert memory.admin.verify().problems == ()
    assert memory.admin.stats()["memories"] == 0


class TestSubgraphs:
    def test_what_only_a_subgraph_remembered_is_found_from_outside(self, memory, note):
        inner = graph(note("an apple", "an apple pie"))
        graph(inner, checkpointer=memory.checkpointer).invoke(EMPTY, at("t"))
        assert texts(memory.search("apple", kinds=["event"])) == ["an apple", "an apple pie"]
        assert texts(memory.search("apple", config=at("another"), kinds=["event"])) == []

    def test_the_newest_are_the_newest_also_behind_a_subgraph(self, memory, note):
        inner = graph(note("1", "2", "3"))

        def caller(state):
            inner.invoke(EMPTY)
            return note("4", "5", "6")(state)

        graph(caller, checkpointer=memory.checkpointer).invoke(EMPTY, at("t"))
        recall = memory.layers(at("t")).recall
        for limit in range(1, 7):
            assert [each.content for each in recall.recent(limit=limit)] == list("123456")[-limit:]

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_a_node_may_look_at_the_one_that_it_runs_in(self, memory, note, durability):
        def look(state, config):
            note("before")(state)
            own = config["configurable"]["checkpoint_ns"].rpartition("|")[0]
            here = {**config["configurable"], "checkpoint_ns": own, "checkpoint_id": None}
            memory.checkpointer.get_tuple({"configurable": here})
            return note("after")(state)

        outer = graph(graph(look, note("then")), checkpointer=memory.checkpointer)
        outer.invoke(EMPTY, at("t"), durability=durability)
        assert shown(memory, "t") == ["before", "after", "then"]

    def test_what_one_showed_that_was_left_does_not_come_back_for_being_looked_at(self, memory, note):
        def look(state, config):
            for each in left:
                there = {**config["configurable"], **each["configurable"]}
                seen.append(memory.checkpointer.get_tuple({"configurable": there}).checkpoint["channel_values"])
            return note("look")(state)

        left, seen = [], []
        outer = graph(look, graph(note("inside")), checkpointer=memory.checkpointer)
        outer.invoke(EMPTY, at("t"), durability="sync")
        assert shown(memory, "t") == ["look", "inside"]
        left += inner_checkpoints(memory)
        begun = next(each for each in outer.get_state_history(at("t")) if each.metadata["source"] == "input")
        graph(look, checkpointer=memory.checkpointer).invoke(None, begun.config, durability="sync")
        assert seen[0]["log"] == ["look", "inside"]
        assert shown(memory, "t") == ["look"]

    def test_what_is_shown_is_found_when_the_checkpoints_of_its_subgraph_are_gone(self, memory, note):
        run = uuid.uuid4()
        with_inner = graph(graph(note("an apple")), checkpointer=memory.checkpointer)
        with_inner.invoke(EMPTY, at("t", run_id=run, metadata={"run_id": str(run)}))
        graph(note("a pear"), checkpointer=memory.checkpointer).invoke(EMPTY, at("t"))
        memory.checkpointer.delete_for_runs([str(run)])
        assert shown(memory, "t") == ["an apple", "a pear"]
        assert found(memory, "apple", "t") == ["an apple"]

    def test_nothing_is_left_of_a_thread_that_is_deleted(self, memory, note, raw):
        inner = graph(note("an apple"))
        graph(inner, note("a pear"), checkpointer=memory.checkpointer).invoke(EMPTY, at("t"))
        memory.checkpointer.copy_thread("t", "copy")
        for thread in ("t", "copy"):
            memory.checkpointer.delete_thread(thread)
        tables = "memory memory_group seal finished_task finished_group place branch_base base_group content"
        for table in tables.split():
            assert raw(memory, f"select * from {table}") == [], table

    def test_what_a_caller_had_remembered_its_subgraphs_checkpoints_show_when_its_own_are_gone(self, memory, note):
        inner = graph(note("inside"))

        def caller(state):
            note("before")(state)
            inner.invoke(EMPTY)
            return EMPTY

        outer = graph(note("a first"), caller, checkpointer=memory.checkpointer)
        outer.invoke(EMPTY, at("t"))
        below = inner_checkpoints(memory)
        before = [texts(memory.layers(each).recall.recent()) for each in below]
        assert before[0] == ["a first", "before", "inside"]
        begun = next(each for each in outer.get_state_history(at("t")) if each.metadata["source"] == "input")
        outer.update_state(begun.config, None, as_node="__end__")  # the newest, where nothing was remembered
        memory.checkpointer.prune(["t"])
        assert shown(memory, "t") == []
        left = inner_checkpoints(memory)
        assert [texts(memory.layers(each).recall.recent()) for each in left] == before[:1]


class TestCopiedThreads:
    def test_a_copy_of_a_copy_finds_what_each_of_them_remembered(self, memory, note):
        for old, new in (("0", "1"), ("1", "2"), ("2", "3")):
            memory.checkpointer.copy_thread(old, new)
            graph(note(f"apple {new}"), checkpointer=memory.checkpointer).invoke(EMPTY, at(new))
        assert [len(found(memory, "apple", thread)) for thread in "123"] == [1, 2, 3]
        memory.checkpointer.delete_thread("1")
        memory.checkpointer.delete_thread("2")
        assert len(shown(memory, "3")) == len(found(memory, "apple", "3")) == 3

    def test_a_copy_finds_what_a_task_had_remembered_that_finished_before(self, memory, note):
        @task
        def piece():
            return note("apple peeled")(None)["log"]

        @entrypoint(checkpointer=memory.checkpointer)
        def function(given):
            log = piece().result()
            interrupt("?")
            return [*log, *note("apple eaten")(None)["log"]]

        function.invoke(1, at("1"))
        memory.checkpointer.copy_thread("1", "2")
        for thread in "21":
            assert function.invoke(Command(resume="yes"), at(thread)) == ["apple peeled", "apple eaten"]
        for thread in "21":
            assert shown(memory, thread) == ["apple peeled", "apple eaten"]
            assert found(memory, "apple", thread) == ["apple eaten", "apple peeled"]


class TestSearching:
    def test_what_comes_to_its_place_while_a_search_looks_is_found(self, memory, note, monkeypatch):
        looking, placed, found = threading.Event(), threading.Event(), []

        def search(*arguments, **options):
            hits = yield from real_search(*arguments, **options)
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
            return EMPTY

        real_search = memory_search.search
        monkeypatch.setattr(memory_search, "search", search)
        monkeypatch.setattr(memory.checkpointer, "put", put)
        runs = graph(note("an apple"), node, checkpointer=memory.checkpointer)
        runs.invoke(EMPTY, at("t"), durability="async")
        assert texts(found) == ["an apple"]


class TestReadingWhileACheckpointIsPut:
    def test_the_newest_are_read_from_one_view(self, memory, note, monkeypatch):
        """A second look at the task could know of a checkpoint that the transaction does not see yet."""
        asked, found = [], []
        view = ThreadPoint.view

        def counted(self, *given):
            asked.append(given)
            return view(self, *given)

        def node(state):
            monkeypatch.setattr(ThreadPoint, "view", counted)
            found.extend(memory.layers().recall.recent(limit=3))
            monkeypatch.undo()
            return EMPTY

        runs = graph(note("an apple"), node, checkpointer=memory.checkpointer)
        runs.invoke(EMPTY, at("t"))
        assert texts(found) == ["an apple"]
        assert len(asked) == 1


class TestSweeping:
    def test_what_was_overwritten_goes_when_no_checkpoint_shows_it(self, memory, raw):
        def setting(value):
            def node(state):
                memory.layers().core.set("key", value)
                return EMPTY

            return node

        graph(*map(setting, ("one", "two", "three")), checkpointer=memory.checkpointer).invoke(EMPTY, at("t"))
        assert raw(memory, "select count(*) as versions from memory") == [{"versions": 3}]
        memory.checkpointer.prune(["t"])
        assert memory.layers(at("t")).core.get() == {"key": "three"}
        assert raw(memory, "select count(*) as versions from memory") == [{"versions": 1}]

    def test_what_a_fork_shows_stays_when_what_it_was_forked_from_is_gone(self, memory, note):
        runs = graph(note("first"), note("second"), checkpointer=memory.checkpointer)
        runs.invoke(EMPTY, at("t"))
        middle = next(each for each in runs.get_state_history(at("t")) if each.next == ("node1",))
        runs.invoke(None, middle.config)
        memory.checkpointer.prune(["t"])
        assert shown(memory, "t") == ["first", "second"]
        assert found(memory, "first", "t") == ["first"]
        assert len(memory.search("second", kinds=["event"])) == 1

    def test_of_a_thread_that_is_deleted_nothing_stays_for_the_sake_of_a_copy_that_is_gone(self, memory, note, raw):
        runs = graph(graph(note("an apple")), checkpointer=memory.checkpointer)
        runs.invoke(EMPTY, at("1"))
        memory.checkpointer.copy_thread("1", "2")
        begun = next(each for each in runs.get_state_history(at("2")) if each.metadata["source"] == "input")
        memory.checkpointer.delete_thread("1")
        assert shown(memory, "2") == ["an apple"]
        runs.update_state(begun.config, None, as_node="__end__")
        memory.checkpointer.prune(["2"])
        memory.checkpointer.delete_thread("2")
        assert raw(memory, "select id, origin from memory") == []


class TestLimits:
    def test_what_has_expired_takes_nobodys_place(self, url, clock):
        with AgentMemory(url, clock=clock) as memory:
            layers = memory.layers("branch")
            layers.archival.write("an apple")
            layers.core.set("key", "short-lived", ttl=600)
            layers.core.set("filling", "x" * 1_990)  # the other goes to archival memory, and keeps its end
            assert [each.tags[0] for each in layers.archival.all(limit=1)] == ["CORE_EVICT"]
            clock.pass_time(minutes=11)
            assert texts(layers.archival.all(limit=1)) == ["an apple"]

    def test_when_its_time_is_up_it_is_gone(self, url, clock):
        now = [clock()]
        with AgentMemory(url, clock=lambda: now[0]) as memory:
            layers = memory.layers("branch")
            layers.core.set("key", "short-lived", ttl=600)
            layers.core.set("filling", "x" * 1_990)
            layers.core.set("more", "here", ttl=600)

            def there():
                records = texts(layers.archival.search("short-lived"))
                return len(records), texts(memory.search("short-lived")) == records, "more" in layers.core.get()

            now[0] += timedelta(seconds=599)
            assert there() == (1, True, True)
            now[0] += timedelta(seconds=1)
            assert there() == (0, True, False)
