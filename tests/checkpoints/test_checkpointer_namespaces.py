"""Threads belong to the namespace of the run that made them."""

import pytest
from langchain_core.messages import AIMessage

from langchain_agentmem.errors import InvalidInput
from tests.support.graphs import at, line


def said(graph, config):
    return [message.content for message in graph.get_state(config).values.get("messages", [])]


def config(thread="t", *namespace):
    return at(thread, namespace=namespace or None)


@pytest.fixture
def graph(memory):
    return line(memory.checkpointer, lambda _: {"messages": [AIMessage("and so on")]})


def say(graph, text, where):
    graph.invoke({"messages": [("user", text)]}, where)


@pytest.fixture
def both(graph):
    """A graph with one thread id in two namespaces."""
    say(graph, "I am Alice", config("t", "alice"))
    say(graph, "I am Bob", config("t", "bob"))
    return graph


class TestNamespaces:
    def test_one_id_in_two_namespaces_is_two_threads(self, both):
        assert said(both, config("t", "alice")) == ["I am Alice", "and so on"]
        assert said(both, config("t", "bob")) == ["I am Bob", "and so on"]
        assert said(both, config("t", "carol")) == []

    def test_namespace_defaults_to_the_only_matching_thread(self, graph):
        say(graph, "I am Alice", config("t", "alice"))
        assert said(graph, config("t")) == ["I am Alice", "and so on"]
        say(graph, "still me", config("t"))
        assert len(said(graph, config("t", "alice"))) == 4

    def test_the_root_namespace_takes_precedence(self, graph):
        say(graph, "nobody's", config("t"))
        say(graph, "I am Alice", config("t", "alice"))
        say(graph, "more of nobody's", config("t"))
        assert len(said(graph, config("t"))) == 4
        assert len(said(graph, config("t", "alice"))) == 2

    def test_an_ambiguous_thread_id_is_rejected(self, both, memory):
        with pytest.raises(InvalidInput, match="several namespaces"):
            both.get_state(config("t"))
        with pytest.raises(InvalidInput, match="several namespaces"):
            memory.checkpointer.copy_thread("t", "u")

    def test_returned_configs_contain_the_namespace(self, both, memory):
        state = both.get_state(config("t", "alice"))
        assert state.config["configurable"]["agentmem_namespace"] == ("alice",)
        assert said(both, state.config) == [*said(both, state.parent_config), "and so on"]
        for found in memory.checkpointer.list(None):
            assert memory.checkpointer.get_tuple(found.config).checkpoint == found.checkpoint
        later = both.update_state(state.config, {"messages": [("user", "Alice again")]})
        assert said(both, later)[-1] == "Alice again"
        assert len(said(both, config("t", "bob"))) == 2

    def test_list_is_limited_to_the_runs_namespace(self, both, memory):
        everything = list(memory.checkpointer.list(None))
        assert {each.config["configurable"]["agentmem_namespace"] for each in everything} == {("alice",), ("bob",)}
        seen = []

        def look(state):
            seen.extend(memory.checkpointer.list(None))
            memory.checkpointer.delete_thread("t")
            return {"messages": [AIMessage("looked")]}

        line(None, look).invoke({"messages": [("user", "what is there?")]}, config("x", "bob"))
        assert {each.config["configurable"]["agentmem_namespace"] for each in seen} == {("bob",)}
        assert said(both, config("t", "bob")) == []
        assert len(said(both, config("t", "alice"))) == 2

    def test_invalid_namespaces_are_rejected(self, graph):
        for namespace in ("alice", ("",), (3,), ("a\x1fb",)):
            with pytest.raises(InvalidInput):
                say(graph, "hello", {"configurable": {"thread_id": "t", "agentmem_namespace": namespace}})

    def test_a_namespace_without_threads_is_removed(self, graph, memory):
        say(graph, "I am Alice", config("t", "alice"))
        memory.checkpointer.delete_thread("t")
        counts = memory.admin.stats()
        assert {counts[name] for name in ("namespaces", "threads", "checkpoints", "writes", "parts", "contents")} == {0}
