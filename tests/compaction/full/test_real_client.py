"""Long agent runs with the providers' real clients, on a server that refuses requests as the providers do.

The server refuses what the provider would refuse, and each request is checked for the user's first instruction,
word for word.
"""

from __future__ import annotations

import base64
import json
import re

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool

from langchain_agentmem import Experience
from langchain_agentmem.compaction.compaction_config import ManagedMemoryConfig
from langchain_agentmem.compaction.compaction_middleware import CompactionMiddleware
from langchain_agentmem.experiences.experience_middleware import ExperienceMiddleware
from langchain_agentmem.injection.memory_middleware import MemoryMiddleware
from tests.compaction.loopback import CLIENTS, calls, chat_client, loopback

pytestmark = pytest.mark.sqlite_suffices
FIRST = "Turn 0. My ship is called Persephone; whatever I ask, never sell it."
SYSTEM = "You look after a harbour."
SUMMARIZER = "You keep the record of a conversation"
TALK = "The harbour master looks at the list, the sky and the sea, and then tells what he thinks of all three. " * 9
LINE = "Berth {0} is held by the trawler Alma {0}, 31 m, 4 crew, until the tide of the {0}th. "
LIMIT = 4_000
OVERFLOWS = {"context_length_exceeded", "prompt is too long"}
TURNS = 200


@tool
def berths(turn: int, lines: int) -> str:
    """The list of berths."""
    return f"[BL{turn:04}] " + "".join(LINE.format(n) for n in range(lines))


@tool
def weather(turn: int) -> str:
    """The weather in the harbour."""
    return f"Turn {turn}: rain, wind from the west."


class Harbour:
    """A scripted model that uses its tools: its answer depends on the turn and on the messages in it.

    Attributes:
        summaries: How often it was asked to summarize.
        seen: What it was given to summarize.
    """

    def __init__(self):
        self.summaries = 0
        self.seen: list[str] = []

    def __call__(self, request):
        messages = request["messages"]
        if is_summarizing(request):
            return self.summary(messages)
        place = max(n for n, each in enumerate(messages) if each["role"] == "user" and turn_in(each) is not None)
        turn = turn_in(messages[place])
        rounds = sum(each["role"] == "assistant" for each in messages[place + 1 :])
        wished = self.plan(turn)
        if rounds < len(wished):
            return calls(*((f"call_{turn}_{rounds}_{n}", *each) for n, each in enumerate(wished[rounds])))
        told = [text_of(each) for each in messages[place + 1 :] if each["role"] == "tool"]
        return f"Answer {turn}. {TALK}" + " ".join(each[:300] for each in told)

    def plan(self, turn):
        """The calls of a turn, by rounds."""
        long = ("berths", {"turn": turn, "lines": 25})
        short = ("berths", {"turn": turn, "lines": 3})
        look = ("weather", {"turn": turn})
        if turn and turn % 50 == 0:
            return [[("recall_dropped", {"query": f"list BL{turn - 46:04}"})]]
        return ([], [[look]], [[look, short, short]], [[short], [look, look]], [[long, look]])[turn % 5]

    def summary(self, messages):
        text = "\n".join(map(text_of, messages))
        self.seen.append(text)
        self.summaries += 1
        return json.dumps(
            {
                "user_request_summary": "Look after the harbour, and never sell the ship Persephone.",
                "summary": f"Lists of berths were made; this is record {self.summaries}.",
                "salient_facts": ["The wind is from the west."],
                "open_threads": [],
                "keep_images": [{"image_id": each} for each in re.findall(r"img_[0-9a-f]{8}", text)[-2:]],
            }
        )


def is_summarizing(request):
    return SUMMARIZER in text_of(request["messages"][0])


def text_of(message):
    content = message["content"] or ""
    return content if isinstance(content, str) else " ".join(block.get("text", "") for block in content)


def turn_in(message):
    found = re.match(r"Turn (\d+)\.", text_of(message))
    return None if found is None else int(found.group(1))


def said(turn):
    return HumanMessage(FIRST if turn == 0 else f"Turn {turn}. {TALK}", id=f"said-{turn}")


def picture(turn):
    """A photograph of some 30,000 bytes."""
    data = base64.b64encode(bytes([turn % 256]) * 22_000).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    return HumanMessage([{"type": "text", "text": said(turn).text}, image], id=f"said-{turn}")


def agent_on(server, memory, config=None, *, client=chat_client, after=(), **options):
    return create_agent(
        client(server),
        [berths, weather],
        system_prompt=SYSTEM,
        middleware=[CompactionMiddleware(memory, config=config, **options), *after],
        checkpointer=memory.checkpointer,
    )


RUN = {"configurable": {"thread_id": "harbour"}, "recursion_limit": 50}


def check(server, agent, turns):
    """Check that every request begins with the first instruction, and that the state holds all messages unchanged."""
    asked = [request["messages"] for request in server.requests if not is_summarizing(request)]
    assert len(asked) >= turns
    assert all([*map(text_of, messages[:2])] == [SYSTEM, FIRST] for messages in asked)
    check_state(agent, turns)


def check_state(agent, turns):
    messages = agent.get_state(RUN).values["messages"]
    spoken = [message.id for message in messages if isinstance(message, HumanMessage)]
    assert spoken == [f"said-{turn}" for turn in range(turns)]
    answers = [message for message in messages if message.type == "ai" and not message.tool_calls]
    assert [answer.text.split(".")[0] for answer in answers] == [f"Answer {turn}" for turn in range(turns)]
    assert all(message.text.startswith("[BL") for message in messages if message.name == "berths")
    return messages


@pytest.mark.slow
def test_agent_within_budget_is_never_refused(memory):
    harbour = Harbour()
    with loopback(limit_tokens=LIMIT, script=harbour) as server:
        agent = agent_on(server, memory, ManagedMemoryConfig(threshold_tokens=3_000, token_counter="estimate"))
        for turn in range(TURNS):
            state = agent.invoke({"messages": [said(turn)]}, RUN)
            assert state["messages"][-1].text.startswith(f"Answer {turn}.")
            if turn and turn % 50 == 0:  # what left the context long ago is brought back
                told = [each.text for each in state["messages"] if isinstance(each, ToolMessage)][-1]
                assert f"[BL{turn - 46:04}]" in told
    assert server.refusals == []
    assert harbour.summaries > 5
    check(server, agent, TURNS)


def invoke(agent, turn):
    agent.invoke({"messages": [said(turn)]}, RUN)


async def ainvoke(agent, turn):
    await agent.ainvoke({"messages": [said(turn)]}, RUN)


async def astream(agent, turn):
    parts = agent.astream({"messages": [said(turn)]}, RUN, stream_mode="messages")
    told = [part.text async for part, _ in parts]
    assert f"Answer {turn}." in "".join(told)


@pytest.mark.slow("in every form")
@pytest.mark.parametrize("turns", [40, pytest.param(150, marks=pytest.mark.deep)])
@pytest.mark.parametrize(("client", "way"), [(client, way) for client in CLIENTS for way in (invoke, ainvoke, astream)])
async def test_only_overflows_are_refused_and_nothing_is_lost(memory, tmp_path, client, way, turns):
    harbour = Harbour()
    library = memory.experiences(tmp_path)
    library.add(Experience("storms", when="Use when the harbour master looks at the sea.", what="Mention storms."))
    after = [MemoryMiddleware(memory), ExperienceMiddleware(library)]
    with loopback(limit_tokens=LIMIT, script=harbour) as server:
        agent = agent_on(server, memory, client=client, after=after)
        for turn in range(turns):
            done = way(agent, turn)
            if done is not None:
                await done
    assert harbour.summaries
    assert server.refusals
    assert {code for _, code in server.refusals} <= OVERFLOWS
    assert len(server.refusals) < 10, "what was refused is remembered"
    check_state(agent, turns)
    told = "\n".join([*harbour.seen, *map(text_of, server.requests[-1]["messages"])])
    assert {*map(int, re.findall(r"Turn (\d+)\.", told))} == {*range(turns)}
    assert "Mention storms." in "\n".join(map(text_of, server.requests[-1]["messages"]))


@pytest.mark.slow
def test_large_payload_drops_images_but_no_text(memory):
    with loopback(limit_bytes=200_000, script=Harbour()) as server:
        agent = agent_on(server, memory)
        for turn in range(30):
            agent.invoke({"messages": [picture(turn) if turn % 2 else said(turn)]}, RUN)
    assert {status for status, _ in server.refusals} == {413}
    assert len(server.refusals) < 10
    check(server, agent, 30)
    assert sum(isinstance(each.content, list) for each in check_state(agent, 30)) == 15
