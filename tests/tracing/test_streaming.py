"""A step of memory in a graph is streamed as a run."""

from .trees import aremember, graph_of

ADD = "memory.conversation.add"


async def test_step_is_streamed_as_a_run(tracing):
    async def node(state):
        await aremember(tracing)

    events = [each async for each in graph_of(node).astream_events({"text": ""}, version="v2")]

    start, end = [each for each in events if each["name"] == ADD]
    assert (start["event"], end["event"]) == ("on_chain_start", "on_chain_end")
    assert start["data"] == {"input": {"messages": 2}}
    assert end["data"]["output"] == {"ids": ["m1", "m2"]}
    (around,) = [each for each in events if each["name"] == "node" and each["event"] == "on_chain_start"]
    assert start["parent_ids"][-1] == around["run_id"]
    assert start["metadata"]["langgraph_node"] == "node"
