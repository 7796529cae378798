"""Conversations with arbitrary and very large messages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, RemoveMessage

from langchain_agentmem import MessageError
from langchain_agentmem.messages.langchain_messages import from_langchain
from langchain_agentmem.messages.message import message_time
from tests.messages.test_messages import LANGCHAIN, MESSAGES

pytestmark = pytest.mark.sqlite_suffices
PROPERTY_SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def is_valid_message(message: BaseMessage) -> bool:
    """Whether a message can be added: no `RemoveMessage`, and no invalid timestamp."""
    try:
        message_time(from_langchain(message))
    except MessageError:
        return False
    return not isinstance(message, RemoveMessage)


@pytest.mark.encrypted_too
class TestAnyMessage:
    @PROPERTY_SETTINGS
    @given(messages=st.lists(LANGCHAIN.filter(is_valid_message), min_size=1, max_size=4))
    def test_langchain_messages_round_trip(self, memory, messages):
        chat = memory.conversation()
        given = [message.model_copy(update={"id": f"m{number}"}) for number, message in enumerate(messages)]
        for _ in range(2):
            chat.add_messages(given)
            assert chat.messages == given

    @PROPERTY_SETTINGS
    @given(message=MESSAGES.map(lambda each: replace(each, message_id="m", created_at=None, langchain=None)))
    def test_own_messages_round_trip(self, memory, message):
        chat, again = memory.conversation(), memory.conversation()
        chat.add(message)
        again.add_messages(chat.messages)
        for each in (chat, again):
            assert [version.message for version in each.history_of(message.message_id)] == [message]


async def test_fifty_megabyte_message_round_trips(memory):
    text = "0123456789abcdef " * (50_000_000 // 17)
    chat = memory.conversation("huge")
    message_id = await chat.aadd(role="user", content=text)
    assert (await chat.aretrieve_by_id(message_id))["content"] == text
