"""`AgentMemoryThreadStore`: items that belong to a thread and are rewound with it."""

from __future__ import annotations

import threading
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import RetryPolicy

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.stores.agent_store import AgentMemoryThreadStore
from tests.living import InRuns, InTask, State, live_task, one_node, stop_time, thread
from tests.support.graphs import line
from tests.support.models import calling

NS = ("notes",)
RETRY = RetryPolicy(initial_interval=0.0, backoff_factor=1.0, max_attempts=3, jitter=False)


class Said(TypedDict, total=False):
    said: str


def keys(store: BaseStore, **options: Any) -> list[str]:
    return sorted(item.key for item in store.search((), limit=100, **options))


def note_graph(memory: AgentMemory) -> Any:
    """A graph that stores each input in its store."""

    def node(state: Said, runtime: Runtime) -> Said:
        runtime.store.put(NS, state["said"], {"text": f"heard of {state['said']}"})
        return {}

    return line(memory.checkpointer, node, state=Said, store=memory.thread_store)


def before_last_input(graph: Any, config: Any) -> Any:
    """The config of the checkpoint before the last input."""
    [last, *_] = [each for each in graph.get_state_history(config) if each.metadata["source"] == "input"]
    return last.parent_config


def test_rewound_thread_loses_items_of_replaced_input(memory):
    graph = note_graph(memory)
    for said in ("the dog", "Lisbon"):
        graph.invoke({"said": said}, thread())
    graph.invoke({"said": "Porto"}, before_last_input(graph, thread()))
    assert keys(memory.thread_store.at(thread())) == ["Porto", "the dog"]
    assert {found.id for found in memory.search("Lisbon heard", kinds=["item"])} == {"Porto", "the dog"}
    assert memory.admin.verify().ok


@pytest.mark.sqlite_suffices
class TestParallelNodes:
    @pytest.mark.parametrize("reader_first", [True, False])
    def test_ttl_refresh_does_not_undo_parallel_write(self, memory, reader_first, monkeypatch, clock):
        """Reads refresh the TTL, which must not restore the previous value."""
        stop_time(monkeypatch, clock)
        turn = threading.Event()
        store = AgentMemoryThreadStore(memory, ttl={"default_ttl": 20})

        def begin(state):
            store.put(NS, "k", {"n": 1})
            return {}

        def read(state):
            if not reader_first:
                assert turn.wait(60)
            clock.pass_time(minutes=5)
            assert store.get(NS, "k").value == {"n": 1}
            turn.set()
            return {}

        def write(state):
            if reader_first:
                assert turn.wait(60)
            store.put(NS, "k", {"n": 2})
            turn.set()
            return {}

        builder = StateGraph(State).add_node(begin).add_node(read).add_node(write).add_edge(START, "begin")
        builder.add_edge("begin", "read").add_edge("begin", "write")
        builder.compile(checkpointer=memory.checkpointer).invoke({}, thread())
        assert memory.thread_store.at(thread()).get(NS, "k").value == {"n": 2}


class TestExpiry:
    @pytest.fixture(autouse=True)
    def stopped(self, monkeypatch, clock):
        stop_time(monkeypatch, clock)

    def test_past_checkpoint_shows_items_unexpired_then(self, memory, clock):
        graph = note_graph(memory)
        runs = InRuns(memory.thread_store, memory)
        runs.put(NS, "short", {"text": "short lived"}, ttl=10)
        then = graph.get_state(thread()).config
        clock.pass_time(minutes=20)
        runs.put(NS, "long", {"text": "long lived"})
        assert keys(memory.thread_store.at(then)) == ["short"]
        assert keys(memory.thread_store.at(thread())) == ["long"]
        assert [item.key for item in memory.thread_store.at(then).search((), query="lived")] == ["short"]
        assert [found.id for found in memory.search("lived", kinds=["item"])] == ["long"]
        assert [found.id for found in memory.search("lived", kinds=["item"], config=then)] == ["short"]

    def test_ttl_refresh_in_run_affects_memory_search(self, memory, clock):
        runs = InRuns(memory.thread_store, memory)
        runs.put(NS, "read", {"text": "apples"}, ttl=10)
        runs.put(NS, "left", {"text": "apples"}, ttl=10)
        clock.pass_time(minutes=8)
        runs.get(NS, "read")
        clock.pass_time(minutes=8)
        assert [found.id for found in memory.search("apples", kinds=["item"])] == ["read"]
        assert keys(runs) == ["read"]

    def test_reads_outside_runs_do_not_refresh_ttl(self, memory, clock):
        runs = InRuns(memory.thread_store, memory)
        runs.put(NS, "k", {"n": 1}, ttl=10)
        for _ in range(3):
            clock.pass_time(minutes=4)
            memory.thread_store.at(thread()).get(NS, "k", refresh_ttl=True)
        assert runs.get(NS, "k") is None


class TestUseInGraphs:
    def test_store_works_with_every_langgraph_access(self, memory):
        @tool
        def note(text: str, store: Annotated[Any, InjectedStore()]) -> str:
            """Note a text."""
            store.put(NS, text, {"text": text})
            return "noted"

        def call(state):
            get_store().put(NS, "got", {"text": "got"})
            return {"messages": [calling("note", text="injected")]}

        def deep(state, runtime: Runtime):
            runtime.store.put(NS, "inner", {"text": "inner"})
            return {}

        graph = line(memory.checkpointer, call, ToolNode([note]), line(None, deep), store=memory.thread_store)
        graph.invoke({"messages": []}, thread())
        assert keys(memory.thread_store.at(thread())) == ["got", "injected", "inner"]
        shown = [keys(memory.thread_store.at(each.config)) for each in graph.get_state_history(thread())]
        assert shown == [["got", "injected", "inner"], ["got", "injected"], ["got"], [], []]

    def test_thread_store_works_beside_the_shared_store(self, memory):
        def node(state, runtime: Runtime):
            runtime.store.put(NS, "shared", {"text": "apples"})
            memory.thread_store.put(NS, "own", {"text": "apples"})
            return {"n": 1}

        one_node(node, memory, store=memory.store).invoke({"n": 0}, thread())
        found = memory.search("apples", kinds=["item"], everything=True)
        assert sorted((each.id, each.conversation_id) for each in found) == [("own", "t"), ("shared", None)]
        assert {each.kind for each in memory.search("apples")} == {"item"}
        assert keys(memory.store) == ["shared"]

    def test_threads_and_namespaces_are_isolated(self, memory):
        graph = note_graph(memory)
        configs = [thread("t"), thread("u"), thread("t", agentmem_namespace=("ada",))]
        for number, config in enumerate(configs):
            graph.invoke({"said": str(number)}, config)
        assert [keys(memory.thread_store.at(config)) for config in configs] == [["0"], ["1"], ["2"]]
        assert [found.id for found in memory.search("heard", namespace=("ada",))] == ["2"]

    def test_copied_thread_has_the_items(self, memory):
        graph = note_graph(memory)
        graph.invoke({"said": "a"}, thread())
        memory.checkpointer.copy_thread("t", "copy")
        graph.invoke({"said": "b"}, thread("copy"))
        assert keys(memory.thread_store.at(thread())) == ["a"]
        copy = memory.thread_store.at(thread("copy"))
        assert keys(copy) == ["a", "b"]
        assert sorted(item.key for item in copy.search((), query="heard")) == ["a", "b"]

    def test_thread_erasure_removes_its_items(self, memory):
        note_graph(memory).invoke({"said": "a"}, thread())
        memory.erase(thread_id="t")
        assert memory.search("heard") == []
        assert keys(memory.thread_store.at(thread())) == []
        assert memory.admin.stats()["content_bytes"] == 0
        assert memory.admin.verify().ok


@pytest.mark.sqlite_suffices
class TestInvalidUse:
    async def test_access_outside_a_run_is_rejected(self, memory):
        store, calls = memory.thread_store, {"get": (NS, "k"), "put": (NS, "k", {}), "delete": (NS, "k")}
        for name, arguments in {**calls, "search": (NS,), "list_namespaces": ()}.items():
            with pytest.raises(InvalidInput, match=r"thread_store\.at"):
                getattr(store, name)(*arguments)
            with pytest.raises(InvalidInput, match=r"thread_store\.at"):
                await getattr(store, f"a{name}")(*arguments)

    def test_missing_thread_or_other_checkpointer_is_rejected(self, memory):
        def node(state):
            memory.thread_store.put(NS, "k", {})

        with pytest.raises(InvalidInput, match="thread_id"):
            line(None, node, state=State).invoke({})
        with pytest.raises(InvalidInput, match="checkpointer"):
            line(InMemorySaver(), node, state=State).invoke({}, thread())

    def test_store_outside_a_run_is_read_only(self, memory):
        note_graph(memory).invoke({"said": "a"}, thread())
        store = memory.thread_store.at(thread())
        for write in (lambda: store.put(NS, "k", {}), lambda: store.delete(NS, "a")):
            with pytest.raises(InvalidInput, match="only be read"):
                write()
        assert keys(store) == ["a"]

    def test_config_without_thread_is_rejected(self, memory):
        for wrong in (5, "t", [], {}, {"configurable": {}}, {"configurable": 5}):
            with pytest.raises(InvalidInput, match="thread"):
                memory.thread_store.at(wrong)

    def test_unknown_thread_has_no_items(self, memory):
        store = memory.thread_store.at(thread("never"))
        assert "AgentMemoryThreadStore" in repr(store)
        assert store.get(NS, "k") is None
        assert store.search((), query="anything") == store.search(()) == store.list_namespaces() == []


def test_similar_namespaces_and_keys_are_distinct_items(memory):
    long = ("x" * 200,) * 9
    places = [
        (("a",), "b"), (("a", "b"), "c"), (("a",), "b\x1fc"), (("a", '"'), ","), (("a",), '",","'), (("A",), "b"),
        (long, "é" * 999 + "a"), (long, "é" * 999 + "b"),
    ]  # fmt: skip
    with live_task(memory) as task:
        store = InTask(memory.thread_store, task)
        for number, (namespace, key) in enumerate(places):
            store.put(namespace, key, {"n": number})
        assert [store.get(*place).value["n"] for place in places] == list(range(len(places)))
        store.delete(*places[-1])
        assert [item.key[-1] for item in store.search(long)] == ["a"]
