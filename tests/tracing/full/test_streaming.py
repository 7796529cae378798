"""Message streams contain the agent, and never the models of memory."""

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage

from langchain_agentmem import AgentMemory
from tests.tracing.agent import ANSWERS, CONFIG, OWN_WORDS, TURNS, agent

SAID = [{"messages": [HumanMessage(turn)]} for turn in TURNS]
WORDS = "".join(ANSWERS).replace(" ", "")


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "withheld"])
class TestMessages:
    """Everybody streams the words of a model by `stream_mode="messages"` into a chat window."""

    async def test_message_stream_contains_only_the_agent(self, tmp_path, shown):
        with AgentMemory(tmp_path / "a.db", trace_content=shown) as memory:
            graph = agent(memory, tmp_path / "experience")
            streamed = [each for said in SAID for each in graph.stream(said, CONFIG, stream_mode="messages")]
        options = {"stream_mode": "messages", "subgraphs": True}
        with AgentMemory(tmp_path / "b.db", trace_content=shown) as memory:
            graph = agent(memory, tmp_path / "experience")
            awaited = [each[1] for said in SAID async for each in graph.astream(said, CONFIG, **options)]
        for told in (streamed, awaited):
            chunks = [message.text for message, _ in told if isinstance(message, AIMessageChunk)]
            assert "".join(chunks).replace(" ", "") == WORDS
            assert {metadata["langgraph_node"] for _, metadata in told} == {"agent", "tools"}
            everything = "".join(message.text for message, _ in told)
            assert not [word for word in OWN_WORDS if word in everything]


async def test_agentmem_tag_excludes_memory_models_from_events(tmp_path):
    options = {"version": "v2", "exclude_tags": ["agentmem"]}
    with AgentMemory(tmp_path / "a.db") as memory:
        graph = agent(memory, tmp_path / "experience")
        events = [each for said in SAID async for each in graph.astream_events(said, CONFIG, **options)]
    spoken = [each["data"]["chunk"].text for each in events if each["event"] == "on_chat_model_stream"]
    assert "".join(spoken).replace(" ", "") == WORDS
