"""Tools with which an agent keeps its own memory; errors are returned as messages."""

import json

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage

from langchain_agentmem import InvalidInput
from langchain_agentmem.layers.layer import LayersConfig
from langchain_agentmem.layers.layer_tools import OPERATIONS, layer_tools
from langchain_agentmem.layers.layered_memory import LayeredMemory
from tests.support.graphs import at
from tests.support.models import ScriptedModel, calling
from tests.support.tools import check_mistakes, check_schemas

from .hostile import CASES

pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def tools(memory):
    return {tool.name: tool for tool in layer_tools(memory, "user-42")}


def agent(memory, *script):
    return create_agent(ScriptedModel(*script), tools=layer_tools(memory), checkpointer=memory.checkpointer)


def says(text):
    return {"messages": [("user", text)]}


def results(state):
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


class TestUse:
    def test_each_operation_has_a_tool_with_valid_schema(self, tools):
        assert sorted(tools) == sorted(each.name for each in OPERATIONS)
        check_schemas(tools.values())

    def test_documented_argument_aliases_are_accepted(self, tools):
        tools["mem_archival_write"].invoke({"text": "The zebra is called Ada.", "tags": "animals"})
        [record] = json.loads(tools["mem_archival_search"].invoke({"query": "zebra", "k": "1"}))["records"]
        assert record["tags"] == ["animals"]
        tools["mem_archival_update"].invoke({"id": record["id"], "text": "The zebra is called Bob."})
        for given in ({"id": record["id"]}, {"record_id": record["id"]}, record["id"]):
            assert json.loads(tools["mem_archival_get"].invoke(given))["content"] == "The zebra is called Bob."
        assert tools["mem_recall_append"].invoke("It rained.").startswith("The event is recorded")
        tools["mem_recall_append"].invoke({"kind": "a", "event_type": "b", "content": "Both."})
        events = json.loads(tools["mem_recall_search"].invoke({"query": "*"}))["events"]
        assert [event["kind"] for event in events] == ["a", "note"]
        assert tools["mem_node_write"].invoke({"recall": "", "core": {"a": "b"}}) == "The entries are written."
        assert tools["mem_node_write"].invoke({"recall": ""}).endswith("Give core, recall or archival.")

    def test_tools_can_be_made_from_layered_memory(self, memory):
        layers = LayeredMemory(memory, "x", settings=LayersConfig(core_max_chars=10))
        [keeping] = [tool for tool in layer_tools(layers) if tool.name == "mem_core_set"]
        assert keeping.invoke({"key": "a long key", "value": "b"}).startswith("mem_core_set was not done: ")
        keeping.invoke({"key": "a", "value": "b"})
        assert layers.core.get() == {"a": "b"}

    def test_namespace_defaults_to_that_of_the_run(self, memory):
        config = {"configurable": {"agentmem_namespace": ("alice",)}}
        for namespace, owner in ((None, ("alice",)), (("bob",), ("bob",))):
            [keeping] = [t for t in layer_tools(memory, "x", namespace) if t.name == "mem_core_set"]
            keeping.invoke({"key": "owner", "value": owner[0]}, config)
            assert LayeredMemory(memory, "x", namespace=owner).core.get() == {"owner": owner[0]}
        assert LayeredMemory(memory, "x").core.get() == {}

    def test_invalid_arguments_are_rejected(self, memory):
        mine = LayeredMemory(memory, "x")
        wrong = [(memory, *given) for given in ((5,), ("",), (None, "ns"), ("x", ("",)))]
        for given in (*wrong, (object(),), (mine, "y"), (mine, None, ("ns",))):
            with pytest.raises(InvalidInput):
                layer_tools(*given)


class TestToolErrors:
    async def test_invalid_calls_return_an_error_message(self, tools):
        await check_mistakes(tools, CASES["mistakes"])

    def test_lone_surrogates_are_stored_and_returned_escaped(self, tools):
        tools["mem_core_set"].invoke({"key": "a", "value": "x\ud800"})
        text = tools["mem_core_get"].invoke({})
        text.encode()
        assert json.loads(text) == {"core": {"a": "x\ud800"}}

    async def test_a_closed_memory_returns_an_error_message(self, tools, memory):
        memory.close()
        for name in ("mem_core_get", "consolidate"):
            assert "closed" in tools[name].invoke({})
            assert "closed" in await tools[name].ainvoke({})

    def test_a_missing_thread_returns_an_error_message(self, memory):
        for tool in layer_tools(memory):
            if tool.name in ("mem_core_get", "consolidate"):
                assert "needs config[" in tool.invoke({})


class TestInAGraph:
    async def test_an_agents_memory_rewinds_with_its_thread(self, memory):
        noting = [calling("mem_core_set", key="user_name", value=name) for name in ("Ada", "Bob")]
        wrong = calling("mem_core_set", "c2", key=1, wrong=2)
        looking = calling("mem_core_get", keys="user_name")
        graph = agent(memory, noting[0], wrong, looking, AIMessage("Hello Ada."), noting[1], AIMessage("Hello Bob."))
        state = await graph.ainvoke(says("I am Ada."), at())
        kept, refused, shown = [message.text for message in results(state)]
        assert kept == "The note 'user_name' is kept."
        assert "value is missing" in refused
        assert json.loads(shown) == {"core": {"user_name": "Ada"}}
        before = (await graph.aget_state(at())).config
        graph.invoke(says("I am Bob."), at())
        assert memory.layers(at()).core.get() == {"user_name": "Bob"}
        assert await memory.layers(before).core.aget() == {"user_name": "Ada"}
        assert memory.layers(at("u")).core.get() == {}

    def test_forking_thread_memory_returns_tool_errors(self, memory):
        forking, reading = calling("mem_node_fork", name="b"), calling("mem_node_read", node_id="b")
        told = results(agent(memory, forking, reading, AIMessage("x")).invoke(says("Hi."), at()))
        assert [message.status for message in told] == ["error"] * 2
        assert all("is forked by LangGraph" in message.text for message in told)
