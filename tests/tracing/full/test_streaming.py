"""Whoever streams the words of models hears the agent, and never the models of memory."""

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage

from langchain_agentmem import AgentMemory
from tests.tracing.agent import ANSWERS, CONFIG, OWN_WORDS, TURNS, agent


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "withheld"])
class TestMessages:
    """Everybody streams the words of a model by `stream_mode="messages"` into a chat window."""

    def test_only_the_agent_is_heard(self, tmp_path, shown):
        with AgentMemory(tmp_path / "a.db", trace_content=shown) as memory:
            graph = agent(memory, tmp_path / "experience")
            streamed = [
                each
                for turn in TURNS
                for each in graph.stream({"messages": [HumanMessage(turn)]}, CONFIG, stream_mode="messages")
            ]
        self.only_the_agent(streamed)

    async def test_only_the_agent_is_heard_by_those_who_await(self, tmp_path, shown):
        with AgentMemory(tmp_path / "a.db", trace_content=shown) as memory:
            graph = agent(memory, tmp_path / "experience")
            streamed = [
                each[1]
                for turn in TURNS
                async for each in graph.astream(
                    {"messages": [HumanMessage(turn)]}, CONFIG, stream_mode="messages", subgraphs=True
                )
            ]
        self.only_the_agent(streamed)

    def only_the_agent(self, streamed):
        chunks = [message for message, metadata in streamed if isinstance(message, AIMessageChunk)]
        assert " ".join("".join(each.text for each in chunks).split()) == " ".join(ANSWERS)
        assert {metadata["langgraph_node"] for _, metadata in streamed} == {"agent", "tools"}
        everything = "".join(message.text for message, _ in streamed)
        assert not [word for word in OWN_WORDS if word in everything]


async def test_what_memorys_own_models_say_is_left_out_by_their_tag(tmp_path):
    with AgentMemory(tmp_path / "a.db") as memory:
        graph = agent(memory, tmp_path / "experience")
        events = [
            each
            for turn in TURNS[:2]
            async for each in graph.astream_events(
                {"messages": [HumanMessage(turn)]}, CONFIG, version="v2", exclude_tags=["agentmem"]
            )
        ]

    spoken = [each["data"]["chunk"].text for each in events if each["event"] == "on_chat_model_stream"]
    assert "".join(spoken).split() == " ".join(ANSWERS[:2]).split()
