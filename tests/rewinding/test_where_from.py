"""Provenance of memory: source, actor and thread."""

from functools import partial

from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory, layer_tools
from tests.support import graphs
from tests.support.graphs import line

NS = ("users", "ada")
at = partial(graphs.at, namespace=NS)


def run(memory, thread, act):
    def node(state, config):
        act(config)

    line(memory.checkpointer, node).invoke({"messages": []}, at(thread))


def told(thing):
    return thing.thread_id, thing.source, thing.actor


def use_tools(memory, config):
    tools = {tool.name: tool for tool in layer_tools(memory)}
    tools["mem_core_set"].invoke({"key": "city", "value": "Lisbon"}, config)
    tools["mem_recall_append"].invoke({"kind": "note", "content": "a note"}, config)
    tools["mem_archival_write"].invoke({"content": "a record"}, config)


def test_tool_writes_have_model_source_and_thread(memory):
    seen = []

    def act(config):
        use_tools(memory, config)
        seen.extend(map(told, memory.layers().core.entries()))  # it is not committed yet

    run(memory, "t", act)
    assert seen == [("t", "model", "mem_core_set")]
    for layers in (memory.layers(namespace=NS), memory.layers(at("u")), memory.layers(at("t"))):
        assert list(map(told, layers.core.entries())) == [("t", "model", "mem_core_set")]
        assert list(map(told, layers.recall.recent())) == [("t", "model", "mem_recall_append")]
        assert list(map(told, layers.archival.all())) == [("t", "model", "mem_archival_write")]
    found = {each.kind: told(each) for each in memory.search("note record", namespace=NS)}
    assert found == {"event": ("t", "model", "mem_recall_append"), "record": ("t", "model", "mem_archival_write")}


def test_writes_by_code_have_no_source(memory):
    memory.layers(namespace=NS).core.set("city", "Lisbon")
    run(memory, "t", lambda config: memory.layers(config).core.set("pet", "cat"))
    assert list(map(told, memory.layers(namespace=NS).core.entries())) == [(None, None, None), ("t", None, None)]


def test_fact_source_follows_the_role(memory):
    for role, source in (("user", "user"), ("assistant", "model"), ("tool", "tool"), ("x", None)):
        memory.facts(namespace=NS).add_fact(role, f"Ada {role}", "lives in", "Lisbon")
        [found] = memory.search(f"Ada {role}", namespace=NS, limit=1)
        assert told(found) == (None, source, None), role


def test_message_source_and_actor_follow_the_author(memory):
    graph = line(memory.checkpointer, lambda _: {"messages": [AIMessage("a heron, I think")]})
    graph.invoke({"messages": [HumanMessage("is that a heron?", name="Ada")]}, at("t"))
    found = {told(each) for each in memory.search("heron", namespace=NS)}
    assert found == {("t", "user", "Ada"), ("t", "model", None)}


def test_provenance_survives_deletion_copy_and_import(memory, new_database, tmp_path):
    run(memory, "t", lambda config: use_tools(memory, config))
    memory.checkpointer.copy_thread("t", "copy")
    memory.within(NS).checkpointer.delete_thread("t")
    expected = [("t", "model", "mem_core_set")]
    assert list(map(told, memory.layers(namespace=NS).core.entries())) == expected
    memory.export(tmp_path / "all.jsonl")
    with AgentMemory(new_database("sqlite")) as other:
        other.import_(tmp_path / "all.jsonl")
        assert list(map(told, other.layers(namespace=NS).core.entries())) == expected
