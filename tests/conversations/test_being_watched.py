"""Hook events of conversations."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory, Message, MessageError
from langchain_agentmem.base.events import (
    MemoryEvent,
    MemoryResetEvent,
    MessagesRemoved,
    MessagesStored,
    MessageUpdated,
    StepFinished,
    StepStarted,
)


@pytest.mark.sqlite_suffices
class TestHooks:
    @pytest.fixture
    def events(self) -> list[MemoryEvent]:
        return []

    @pytest.fixture
    def memory(self, url, clock, new_id, events) -> Any:
        def keep(event: MemoryEvent) -> None:
            if not isinstance(event, StepStarted | StepFinished):
                events.append(event)

        with AgentMemory(url, clock=clock, new_id=new_id, hooks=[keep]) as memory:
            yield memory

    async def test_hooks_receive_conversation_events(self, memory, events, do):
        chat = memory.conversation("chat", ("ada",))
        where: dict[str, Any] = {"namespace": ("ada",), "conversation_id": "chat"}
        await do(chat, "add", Message(role="user", content="a", message_id="1"))
        await do(chat, "add_messages", [AIMessage("b", id="2"), HumanMessage("a", id="1"), AIMessage("c", id="3")])
        await do(chat, "update", "1", content="A")
        await do(chat, "replace_memory", 1, role="assistant", content="B")
        await do(chat, "remove_by_id", "1")
        await do(chat, "delete_memory", 0)
        await do(chat, "reset_memory")
        assert [event for event in events if not isinstance(event, MemoryResetEvent)] == [
            MessagesStored(message_ids=("1",), **where),
            MessagesStored(message_ids=("2", "3"), **where),
            MessageUpdated(message_id="1", **where),
            MessageUpdated(message_id="2", **where),
            MessagesRemoved(message_ids=("1",), **where),
            MessagesRemoved(message_ids=("2",), **where),
        ]
        assert isinstance(events[-1], MemoryResetEvent)
        assert events[-1].agent_name == ""

    async def test_hooks_receive_post_events(self, memory, events, do):
        session = memory.session("chat")
        post = await do(session, "add_post", (await do(session, "create_round", "q")).id, send_from="a", send_to="b")
        assert events == [MessagesStored(namespace=(), conversation_id="chat", message_ids=(post.id,))]

    async def test_unchanged_writes_emit_no_events(self, memory, events, do):
        chat = memory.conversation("chat")
        await do(chat, "add", Message(role="user", content="a", message_id="1"))
        events.clear()
        await do(chat, "add", Message(role="user", content="a", message_id="1"))
        await do(chat, "update", "1", content="a")
        await do(chat, "replace_memory", 0, role="user", content="a")
        await do(chat, "remove_by_id", "unknown")
        await do(chat, "add_messages", [])
        with pytest.raises(MessageError):
            await do(chat, "add_messages", [HumanMessage("new"), HumanMessage("b", id="1")])
        assert events == []

    def test_hooks_run_after_the_commit(self, url):
        seen: list[int] = []

        def look(event: MemoryEvent) -> None:
            if isinstance(event, MessagesStored):
                with AgentMemory(url) as other:
                    seen.append(len(other.conversation("chat")))

        with AgentMemory(url, hooks=[look]) as memory:
            memory.conversation("chat").add_messages([HumanMessage("a"), AIMessage("b")])
        assert seen == [2]
