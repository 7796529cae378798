"""Retention of conversations by count and age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_agentmem import AgentMemory, ConversationMemory, InvalidInput, Retention


def texts(chat: ConversationMemory) -> list[str]:
    return [str(message.text) for message in chat.messages]


def numbered(*numbers: int) -> list[BaseMessage]:
    return [HumanMessage(str(number)) for number in numbers]


def call(*ids: str) -> AIMessage:
    return AIMessage("call", tool_calls=[{"name": "look", "args": {}, "id": each} for each in ids])


@pytest.mark.sqlite_suffices
class TestKeepLast:
    async def test_keep_last_keeps_the_newest_messages(self, memory, do):
        chat = memory.conversation("chat", retention=Retention(keep_last=2))
        for number in range(4):
            await do(chat, "add", role="user", content=str(number))
        assert texts(chat) == ["2", "3"]
        await do(chat, "add_messages", numbered(4, 5, 6))
        assert texts(chat) == ["5", "6"]
        assert memory.search("0") == []
        assert memory.admin.verify().ok
        assert memory.admin.stats()["messages"] == 2

    def test_existing_conversation_is_trimmed_on_next_add(self, memory):
        memory.conversation("chat").add_messages([HumanMessage(str(n), id=str(n)) for n in range(10)])
        chat = memory.conversation("chat", retention=Retention(keep_last=3))
        chat.add_messages([HumanMessage("0", id="0")])  # which is there
        assert len(chat) == 10
        chat.add_user_message("10")
        assert texts(chat) == ["8", "9", "10"]

    def test_trimming_never_separates_tool_calls_and_results(self, memory):
        for keep in range(1, 6):
            chat = memory.conversation(f"chat{keep}", retention=Retention(keep_last=keep))
            for number in range(6):
                ids = [f"{number}-{each}" for each in range(number % 3 + 1)]
                results = [ToolMessage(each, tool_call_id=each) for each in ids]
                for message in [HumanMessage("q"), call(*ids), *results, AIMessage("done")]:
                    chat.add_message(message)
                    kept = chat.messages
                    assert kept[0].type != "tool"
                    assert len(kept) >= min(keep, len(kept))
                    open_calls = {each["id"] for one in kept if isinstance(one, AIMessage) for each in one.tool_calls}
                    assert {one.tool_call_id for one in kept if isinstance(one, ToolMessage)} <= open_calls


@pytest.mark.sqlite_suffices
class TestMaxAge:
    async def test_older_messages_are_removed_on_next_add(self, memory, do, clock):
        chat = memory.conversation("chat", description="Be kind.", retention=Retention(max_age=timedelta(days=7)))
        await do(chat, "add", role="user", content="first")
        clock.pass_time(days=6)
        await do(chat, "add", role="user", content="second")
        assert texts(chat) == ["Be kind.", "first", "second"]
        clock.pass_time(days=2)
        await do(chat, "add", role="user", content="third")
        assert texts(chat) == ["Be kind.", "second", "third"]

    def test_max_age_uses_created_at(self, memory):
        chat = memory.conversation("chat", retention=Retention(max_age=timedelta(days=7)))
        old = HumanMessage("old", additional_kwargs={"created_at": datetime(2020, 1, 1, tzinfo=UTC)})
        chat.add_messages([old, HumanMessage("new")])
        assert texts(chat) == ["new"]

    def test_late_tool_result_keeps_its_call(self, memory, clock):
        chat = memory.conversation("chat", retention=Retention(max_age=timedelta(days=7)))
        chat.add_messages([*numbered(*range(100)), call("a")])
        clock.pass_time(days=30)
        chat.add_messages([ToolMessage("1", tool_call_id="a")])
        assert texts(chat) == ["call", "1"]


class TestConfiguration:
    def test_retention_is_off_by_default(self, memory, clock):
        for retention in (None, Retention()):
            chat = memory.conversation("chat", retention=retention)
            chat.add_messages(numbered(*range(50)))
            clock.pass_time(days=10_000)
        assert len(memory.conversation("chat")) == 100

    def test_memory_retention_is_a_default(self, url):
        with AgentMemory(url, retention=Retention(keep_last=1)) as memory:
            chat = memory.conversation("chat")
            chat.add_messages(numbered(1, 2))
            assert texts(chat) == ["2"]
            own = memory.conversation("own", retention=Retention(keep_last=2))
            own.add_messages(numbered(1, 2, 3))
            assert texts(own) == ["2", "3"]

    def test_invalid_retention_is_rejected(self, memory):
        for given in (5, "7 days", {"keep_last": 1}):
            with pytest.raises(InvalidInput, match="retention"):
                memory.conversation("chat", retention=given)
            with pytest.raises(InvalidInput, match="retention"):
                AgentMemory(retention=given)
