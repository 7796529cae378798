"""Traces of conversations and sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory, Message, MessageError
from tests.tracing.trees import Collector, traced

AT = {"conversation_id": "chat", "namespace": ["ada"]}
TALK = "add add update update replace retrieve retrieve retrieve history remove reset clear"
STEPS = "create_round add_post finish_round read read"
MARK = "xyzzy-content"


@pytest.fixture
def open_memory(tmp_path, clock, new_id):
    opened = []

    def make(**options: Any) -> AgentMemory:
        opened.append(AgentMemory(tmp_path / "m.db", clock=clock, new_id=new_id, **options))
        return opened[-1]

    yield make
    for memory in opened:
        memory.close()


def told(tracer: Collector) -> list[tuple[str, Any, Any]]:
    return [
        (run.name.removeprefix("memory."), run.inputs, run.outputs) for run in tracer.ours()
    ]  # in the order in which they began


async def talk(memory: AgentMemory, do: Any) -> None:
    """Call every traced operation of a conversation."""
    chat = memory.conversation("chat", ("ada",))
    await do(chat, "add", Message(role="user", content=MARK, message_id="1"))
    await do(chat, "add_messages", [AIMessage("b" * 400, id="2"), HumanMessage(MARK, id="1")])
    await do(chat, "update", "1", content="A")
    await do(chat, "update", "1", content="A")
    await do(chat, "replace_memory", 1, role="assistant", content="B")
    await do(chat, "retrieve_all", include_ids=True)
    await do(chat, "retrieve_by_role", "user", 1)
    await do(chat, "messages")
    await do(chat, "history_of", "2")
    await do(chat, "remove_by_id", "1")
    await do(chat, "reset_memory")
    await do(chat, "clear")


class TestConversations:
    async def test_every_operation_is_one_traced_run(self, open_memory, do):
        memory = open_memory()
        steps = told(await traced(lambda: talk(memory, do)))
        assert [name for name, _, _ in steps] == [f"conversation.{name}" for name in TALK.split()]
        assert all(given.items() >= AT.items() for _, given, _ in steps)
        assert [each["key"] for each in steps[1][1]["messages"]] == ["2", "1"]
        assert steps[1][1]["messages"][0]["text"] == "b" * 300 + "… (400 characters)"
        assert steps[1][2]["keys"] == ["2"]
        assert [given["changes"] for _, given, _ in steps[2:4]] == [{"content": "A"}] * 2
        assert [each["result"] for _, _, each in steps[2:5]] == ["1", None, "2"]
        assert steps[6][1:] == (
            {**AT, "role": "user", "n": 1}, {"count": 1, "items": [{"role": "user", "content": "A"}]}
        )  # fmt: skip
        assert steps[9][1:] == ({**AT, "message_id": "1"}, {"count": 1, "items": ["1"]})

    async def test_error_is_traced_and_raised(self, open_memory, do, collector):
        chat = open_memory().conversation("chat")
        with pytest.raises(MessageError):
            await collector.aunder(lambda: do(chat, "update", "unknown", content="x"))
        assert "MessageError" in collector.run("memory.conversation.update").error


async def test_every_operation_is_one_traced_run(open_memory, do):
    session, ids = open_memory().session("chat", ("ada",)), {}

    async def act() -> None:
        ids["round"] = (await do(session, "create_round", "Plot it.")).id
        post = await do(session, "add_post", ids["round"], send_from="User", send_to="Planner", message="Go")
        ids["post"] = post.id
        await do(session, "finish_round", ids["round"])
        await do(session, "get_role_rounds", "Planner")
        await do(session, "get_role_rounds_with_compaction", "Planner")

    steps = told(await traced(act))
    where, read = {**AT, "round_id": ids["round"]}, {**AT, "role": "Planner"}
    assert [name for name, _, _ in steps] == [f"session.{name}" for name in STEPS.split()]
    assert steps[0][1] == {**where, "user_query": "Plot it."}
    assert steps[1][1].items() >= where.items()
    assert (steps[1][1]["post"]["id"], steps[1][2]["keys"]) == (ids["post"], [ids["post"]])
    assert steps[2][1:] == (where, {"result": True})
    assert [given for _, given, _ in steps[3:]] == [read, read]


@pytest.mark.parametrize("content", [False, lambda text: f"{len(text)} letters"], ids=["withheld", "masked"])
async def test_trace_content_can_be_disabled(open_memory, do, tmp_path, content):
    memory = open_memory(trace_content=content)
    chat, session = memory.conversation("other"), memory.session("third")

    async def act() -> None:
        await talk(memory, do)
        chat.add(role="user", content=MARK)
        await do(chat, "retrieve_recent", 1)
        await do(chat, "save_to_file", tmp_path / MARK)
        await do(session, "create_round", MARK)
        await do(session, "add_post", session.rounds[0].id, send_from="a", send_to="b", message=MARK)
        with pytest.raises(MessageError):
            await do(chat, "update", MARK, content="x")

    tracer = await traced(act)
    shown = [
        json.dumps([run.inputs, run.outputs, run.error])
        for run in tracer.ours()
        if run.name != "memory.conversation.update"
    ]
    assert len(shown) == 16
    assert not any(MARK in each for each in shown)
