"""The LangChain interface of `ConversationMemory`."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory

from langchain_agentmem import AgentMemory, ConversationMemory, MessageError
from tests.support.models import ScriptedModel

pytestmark = [pytest.mark.sqlite_suffices, pytest.mark.encrypted_too]


@pytest.fixture
def chat(memory: AgentMemory) -> ConversationMemory:
    return memory.conversation("chat")


def texts(messages: list[BaseMessage]) -> list[str]:
    return [str(message.text) for message in messages]


class TestChatHistory:
    async def test_add_message_methods_append_messages(self, chat, do):
        assert isinstance(chat, BaseChatMessageHistory)
        await do(chat, "add_user_message", "Hello")
        await do(chat, "add_ai_message", AIMessage("Hi"))
        await do(chat, "add_message", SystemMessage("x"))
        assert texts(chat.messages) == ["Hello", "Hi", "x"]
        assert str(chat).startswith("Human: Hello")

    def test_messages_returns_a_new_list(self, chat):
        chat.add_user_message("Hello")
        first = chat.messages
        first[0].content = "changed"
        first.clear()
        assert texts(chat.messages) == ["Hello"]

    async def test_assigned_ids_are_stable(self, chat, do):
        await do(chat, "add_messages", [HumanMessage("a"), AIMessage("b"), HumanMessage("c", id="mine")])
        first = [message.id for message in await do(chat, "messages")]
        assert len(set(first)) == 3
        assert all(first)
        assert first[2] == "mine"
        assert [message.id for message in await do(chat, "messages")] == first


class TestAtomicity:
    async def test_invalid_message_rejects_the_whole_batch(self, chat, do):
        chat.add_messages([HumanMessage("Hello", id="taken")])
        for bad in (
            None, "text", HumanMessage("x", id="a\0b"), HumanMessage("Bye", id="taken"),
            ToolMessage("x", tool_call_id="c", artifact=object()),
            HumanMessage("x", additional_kwargs={"created_at": "yesterday"}),
        ):  # fmt: skip
            with pytest.raises(MessageError):
                await do(chat, "add_messages", [HumanMessage("before"), bad, HumanMessage("after")])
        for other in (None, 5, "text", HumanMessage("x"), {"role": "user"}):
            with pytest.raises(MessageError):
                await do(chat, "add_messages", other)
        await do(chat, "add_messages", [])
        assert texts(chat.messages) == ["Hello"]
        await do(chat, "add_messages", iter([HumanMessage("a")]))
        assert texts(chat.messages) == ["Hello", "a"]

    async def test_duplicates_in_a_batch_are_merged_or_rejected(self, chat, do):
        with pytest.raises(MessageError, match="other content under the id 'm'"):
            await do(chat, "add_messages", [HumanMessage("a", id="m"), HumanMessage("b", id="m")])
        assert chat.messages == []
        await do(chat, "add_messages", [HumanMessage("a", id="m"), AIMessage("b"), HumanMessage("a", id="m")])
        assert texts(chat.messages) == ["a", "b"]


class TestTimestamps:
    async def test_created_at_of_message_is_used(self, memory, chat, do):
        for told, expected in (
            (datetime(2020, 1, 1, 10, tzinfo=UTC), datetime(2020, 1, 1, 10, tzinfo=UTC)),
            ("2020-01-01T10:00:00+02:00", datetime(2020, 1, 1, 8, tzinfo=UTC)),
            ("2020-01-01T10:00:00Z", datetime(2020, 1, 1, 10, tzinfo=UTC)),
            ("1969-12-31T23:59:59.999999Z", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ):
            chat.clear()
            await do(chat, "add_messages", [HumanMessage("orchard", additional_kwargs={"created_at": told})])
            [found] = memory.search("orchard")
            assert found.created_at == expected
            [back] = await do(chat, "messages")
            assert back.additional_kwargs == {"created_at": told}

    async def test_invalid_created_at_is_rejected(self, memory, chat, do):
        for told in ("yesterday", 5, [], "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"):
            with pytest.raises(MessageError, match="created_at"):
                await do(chat, "add_messages", [HumanMessage("x", additional_kwargs={"created_at": told})])
        assert chat.messages == []
        assert memory.search("x") == []


class TestRunnableWithMessageHistory:
    @staticmethod
    def wrapped(memory: AgentMemory, runnable: Any, **keys: str) -> RunnableWithMessageHistory:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*RunnableWithMessageHistory.*")
            return RunnableWithMessageHistory(
                runnable,
                lambda session_id: memory.conversation(session_id),  # noqa: PLW0108 - its parameters are read
                **keys,
            )

    @staticmethod
    async def run(chain: RunnableWithMessageHistory, how: str, given: Any) -> str:
        config: Any = {"configurable": {"session_id": "chat"}}
        if how == "invoke":
            return chain.invoke(given, config).text
        if how == "ainvoke":
            return (await chain.ainvoke(given, config)).text
        if how == "stream":
            return "".join(chunk.text for chunk in chain.stream(given, config))
        return "".join([chunk.text async for chunk in chain.astream(given, config)])

    @pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
    async def test_model_receives_the_stored_history(self, memory, how):
        model = ScriptedModel("answer 1", "answer 2")
        prompt = ChatPromptTemplate.from_messages(
            [("system", "Be kind."), MessagesPlaceholder("past"), ("human", "{q}")]
        )
        chain = self.wrapped(memory, prompt | model, input_messages_key="q", history_messages_key="past")
        for question in ("first", "second"):
            await self.run(chain, how, {"q": question})
        assert [texts(each) for each in model.asked] == [
            ["Be kind.", "first"], ["Be kind.", "first", "answer 1", "second"]
        ]  # fmt: skip
        chain = self.wrapped(memory, ScriptedModel("answer 3"))
        assert await self.run(chain, how, [HumanMessage("third"), HumanMessage("fourth")]) == "answer 3"
        said = ["first", "answer 1", "second", "answer 2", "third", "fourth", "answer 3"]
        assert texts(memory.conversation("chat").messages) == said
