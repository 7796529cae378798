"""Which conversations there are, and what stands around a message of one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory, InvalidInput, Message, MessageError

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


def at(minute: int, text: str) -> Message:
    return Message(role="user", content=text, message_id=text, created_at=NOON.replace(minute=minute))


@pytest.fixture
def full(memory: AgentMemory) -> AgentMemory:
    for minute, (namespace, name) in enumerate(
        [((), "root"), (("a",), "one"), (("a", "b"), "two"), (("ab",), "three")]
    ):
        chat = memory.conversation(name, namespace)
        chat.add(at(minute, f"{name} begins"))
        chat.add(at(minute + 20, f"{name} ends"))
    memory.conversation("one", ("a",)).add(at(50, "one goes on"))
    return memory


class TestConversations:
    async def test_they_come_in_pages_by_what_was_said_last(self, full, do):
        every = [each.conversation_id for each in await do(full, "conversations")]
        assert every == ["one", "three", "two", "root"]
        assert [each.conversation_id for each in await do(full, "conversations", limit=2, offset=1)] == every[1:3]
        assert await do(full, "conversations", offset=4) == []

    async def test_a_namespace_shows_its_own_and_those_below_with_how_much_was_said_and_when(self, full, do):
        one, two = await do(full, "conversations", ("a",))
        assert one == ("one", ("a",), 3, NOON.replace(minute=1), NOON.replace(minute=50))
        assert two[:2] == ("two", ("a", "b"))

    def test_an_edit_moves_nothing_and_what_was_cleared_is_listed_no_more(self, full):
        full.conversation("root").update("root begins", content="changed")
        full.conversation("one", ("a",)).clear()
        assert [each.conversation_id for each in full.conversations()] == ["three", "two", "root"]

    def test_what_is_wrong_is_refused(self, memory):
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

    async def test_a_message_is_shown_with_its_neighbours_and_their_times(self, chat, do):
        found = await do(chat, "around", "m4", before=2, after=1)
        assert [each.text for each in found] == ["m2", "m3", "m4", "m5"]
        assert found[0].created_at == NOON.replace(minute=2)

    async def test_neighbours_end_where_the_conversation_does(self, chat, do):
        for around, expected in (
            ({"before": 3}, ["m6", "m7", "m8"]),  # of no message, the end
            ({"message_id": "m0", "before": 5, "after": 1}, ["m0", "m1"]),
            ({"message_id": "m8", "before": 0, "after": 5}, ["m8"]),
        ):
            assert [each.text for each in await do(chat, "around", **around)] == expected

    def test_what_one_call_wrote_keeps_its_order(self, memory):
        chat = memory.conversation("many")
        chat.add_messages([HumanMessage(f"m{number}", id=f"m{number}") for number in range(5)])
        assert [each.text for each in chat.around("m2", before=1, after=1)] == ["m1", "m2", "m3"]

    def test_what_is_wrong_is_refused(self, chat, memory):
        memory.conversation("other").add(at(0, "theirs"))
        with pytest.raises(MessageError, match="no message"):
            chat.around("theirs")
        for given in ({"before": -1}, {"after": True}, {"message_id": ""}, {"message_id": 1.5}):
            with pytest.raises(MessageError):
                chat.around(**given)
