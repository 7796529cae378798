"""Listing of conversations, and the messages around one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory, InvalidInput, Message, MessageError

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


def at(minute: int, text: str) -> Message:
    return Message(role="user", content=text, message_id=text, created_at=NOON.replace(minute=minute))


@pytest.fixture
def populated_memory(memory: AgentMemory) -> AgentMemory:
    for minute, (namespace, name) in enumerate(
        [((), "root"), (("a",), "one"), (("a", "b"), "two"), (("ab",), "three")]
    ):
        chat = memory.conversation(name, namespace)
        chat.add(at(minute, f"{name} begins"))
        chat.add(at(minute + 20, f"{name} ends"))
    memory.conversation("one", ("a",)).add(at(50, "one goes on"))
    return memory


class TestConversations:
    async def test_conversations_are_paged_by_latest_message(self, populated_memory, do):
        every = [each.conversation_id for each in await do(populated_memory, "conversations")]
        assert every == ["one", "three", "two", "root"]
        assert [
            each.conversation_id for each in await do(populated_memory, "conversations", limit=2, offset=1)
        ] == every[1:3]
        assert await do(populated_memory, "conversations", offset=4) == []

    async def test_namespace_listing_includes_children_counts_and_times(self, populated_memory, do):
        one, two = await do(populated_memory, "conversations", ("a",))
        assert one == ("one", ("a",), 3, NOON.replace(minute=1), NOON.replace(minute=50))
        assert two[:2] == ("two", ("a", "b"))

    def test_edits_keep_order_and_cleared_conversations_disappear(self, populated_memory):
        populated_memory.conversation("root").update("root begins", content="changed")
        populated_memory.conversation("one", ("a",)).clear()
        assert [each.conversation_id for each in populated_memory.conversations()] == ["three", "two", "root"]

    def test_invalid_arguments_are_rejected(self, memory):
        for given in ({"limit": -1}, {"offset": True}, {"limit": "2"}, {"namespace": "a"}):
            with pytest.raises(InvalidInput):
                memory.conversations(**given)


class TestAround:
    @pytest.fixture
    def chat(self, memory):
        chat = memory.conversation("chat")
        for minute in range(9):
            chat.add(at(minute, f"m{minute}"))
        return chat

    async def test_around_returns_neighbours_with_times(self, chat, do):
        found = await do(chat, "around", "m4", before=2, after=1)
        assert [each.text for each in found] == ["m2", "m3", "m4", "m5"]
        assert found[0].created_at == NOON.replace(minute=2)

    async def test_around_stops_at_the_conversation_ends(self, chat, do):
        for around, expected in (
            ({"before": 3}, ["m6", "m7", "m8"]),  # of no message, the end
            ({"message_id": "m0", "before": 5, "after": 1}, ["m0", "m1"]),
            ({"message_id": "m8", "before": 0, "after": 5}, ["m8"]),
        ):
            assert [each.text for each in await do(chat, "around", **around)] == expected

    def test_around_keeps_the_order_of_a_batch(self, memory):
        chat = memory.conversation("many")
        chat.add_messages([HumanMessage(f"m{number}", id=f"m{number}") for number in range(5)])
        assert [each.text for each in chat.around("m2", before=1, after=1)] == ["m1", "m2", "m3"]

    def test_invalid_arguments_are_rejected(self, chat, memory):
        memory.conversation("other").add(at(0, "theirs"))
        with pytest.raises(MessageError, match="no message"):
            chat.around("theirs")
        for given in ({"before": -1}, {"after": True}, {"message_id": ""}, {"message_id": 1.5}):
            with pytest.raises(MessageError):
                chat.around(**given)
