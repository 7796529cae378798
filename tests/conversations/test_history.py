"""The MARSYS interface of `ConversationMemory`."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_agentmem import AgentMemory, ConversationMemory, InvalidInput, Message, MessageError
from langchain_agentmem.conversations import message_log
from langchain_agentmem.messages.message import AgentCallMsg, ToolCallMsg
from tests.support.models import calling

pytestmark = pytest.mark.sqlite_suffices

CALL = {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}


@pytest.fixture
def chat(memory: AgentMemory) -> ConversationMemory:
    return memory.conversation("chat")


def contents(chat: ConversationMemory) -> list[Any]:
    return [each["content"] for each in chat.retrieve_all()]


def snapshot(chat: ConversationMemory) -> tuple[Any, ...]:
    """All visible state of a conversation."""
    return chat.retrieve_all(include_ids=True), chat.messages, len(chat)


class TestAdding:
    async def test_message_argument_takes_precedence_over_fields(self, chat, do):
        fields = {"role": "user", "content": "Hello", "message_id": "m"}
        for given in (Message(**fields), fields, HumanMessage("Hello", id="m")):
            assert await do(chat, "add", given, role="assistant", content="not this") == "m"
            assert await do(chat, "retrieve_all", include_ids=True) == [fields]
            chat.clear()

    def test_all_message_fields_are_stored(self, chat):
        message_id = chat.add(
            role="assistant",
            content={"thought": "look it up"},
            name="Researcher",
            tool_calls=[CALL, ToolCallMsg(id="call-2", name="find", arguments="{}")],
            agent_calls=[{"agent_name": "Writer", "request": {"topic": "x"}}, AgentCallMsg(agent_name="B")],
            images=["https://example.org/a.png"],
        )
        [version] = chat.history_of(message_id)
        kept = version.message
        assert kept.content == {"thought": "look it up"}
        assert kept.name == "Researcher"
        assert [call.call_id for call in kept.tool_calls] == ["call-1", "call-2"]
        assert [call.agent_name for call in kept.agent_calls] == ["Writer", "B"]
        assert kept.agent_calls[0].request == {"topic": "x"}
        assert kept.images == ["https://example.org/a.png"]

    BAD = (
        {}, {"content": "who says this?"}, {"role": ""}, {"role": "user", "content": {"a": object()}},
        {"role": "assistant", "tool_calls": ["no"]}, {"message": "text"}, {"message": 5}, {"message": {}},
        {"message": {"role": "user", "contnt": "x"}}, {"message": {"role": "user", 1: "x"}},
        *({"message": {"role": "user", "message_id": each}} for each in ("a\0b", "x" * 501, "\ud800")),
        {"message": {"role": "user", "created_at": "yesterday"}},
        {"message": {"role": "user", "langchain": {"additional_kwargs": 5}}},
        {"message": {"role": "assistant", "langchain": {"tool_calls": 5}}},
    )  # fmt: skip

    async def test_invalid_messages_are_rejected_without_writes(self, chat, do):
        for arguments in self.BAD:
            with pytest.raises(MessageError):
                await do(chat, "add", **arguments)
            assert snapshot(chat) == ([], [], 0)


class TestIdentity:
    @pytest.fixture(autouse=True)
    def _held(self, chat):
        chat.add(Message(role="user", content="Hello", message_id="m"))

    async def test_different_content_for_existing_id_is_rejected(self, chat, do):
        before = snapshot(chat)
        for other in (
            Message(role="user", content="Bye", message_id="m"),
            Message(role="assistant", content="Hello", message_id="m"),
            Message(role="user", content="Hello", name="Ada", message_id="m"),
        ):
            with pytest.raises(MessageError, match="already holds other content under the id 'm'"):
                await do(chat, "add", other)
        assert snapshot(chat) == before


class TestReading:
    @pytest.fixture(autouse=True)
    def _talk(self, chat):
        for number in range(3):
            chat.add(Message(role="user", content=f"q{number}", message_id=f"q{number}"))
            chat.add(Message(role="assistant", content=f"a{number}", message_id=f"a{number}"))

    async def test_retrieve_by_role_returns_the_oldest_first(self, chat, do):
        everything = ["q0", "q1", "q2"]
        for n, expected in ((None, everything), (0, []), (2, ["q1", "q2"]), (10**30, everything)):
            for role in ("user", "human"):
                assert [each["content"] for each in await do(chat, "retrieve_by_role", role, n)] == expected
        await do(chat, "update", "q1", role="assistant")
        assert [each["content"] for each in await do(chat, "retrieve_by_role", "user")] == ["q0", "q2"]
        for role in ("nobody", "a\0b", "\ud800"):
            assert await do(chat, "retrieve_by_role", role) == []

    async def test_invalid_counts_and_roles_are_rejected(self, chat, do):
        for n in (-1, True, False, 1.0, "1", -(10**30)):
            for name, arguments in (("retrieve_recent", [n]), ("retrieve_by_role", ["user", n])):
                with pytest.raises(MessageError, match="whole number"):
                    await do(chat, name, *arguments)
        with pytest.raises(MessageError, match="whole number"):
            await do(chat, "retrieve_recent", None)
        for role in (None, "", 5, [], object()):
            with pytest.raises(MessageError, match="role"):
                await do(chat, "retrieve_by_role", role)

    async def test_include_ids_and_unknown_ids(self, chat, do):
        assert (await do(chat, "retrieve_recent", include_ids=True))[0]["message_id"] == "a2"
        assert (await do(chat, "retrieve_by_role", "user", 1, include_ids=True))[0]["message_id"] == "q2"
        assert (await do(chat, "retrieve_by_id", "q0", include_ids=True))["message_id"] == "q0"
        assert await do(chat, "retrieve_by_id", "unknown") is None
        assert await do(chat, "remove_by_id", "unknown") is False
        for name in ("history_of", "update"):
            with pytest.raises(MessageError, match="no message with the id 'unknown'"):
                await do(chat, name, "unknown")

    async def test_invalid_ids_are_rejected(self, chat, do):
        for message_id in (None, "", "a\0b", "\ud800", "x" * 501, 1.5, True, [], object()):
            for name in ("retrieve_by_id", "history_of", "remove_by_id", "update"):
                with pytest.raises(MessageError, match="cannot be the id of a message"):
                    await do(chat, name, message_id)
        assert len(chat) == 6

    def test_ids_accept_numbers_and_uuids(self, chat):
        for value in (7, uuid.uuid4()):
            chat.add(Message(role="user", content="x", message_id=str(value)))
            chat.update(value, content="y")
            assert chat.retrieve_by_id(value)["content"] == "y"
            assert len(chat.history_of(value)) == 2
            assert chat.remove_by_id(value)

    async def test_retrieve_recent_keeps_tool_calls_with_results(self, memory, do):
        for results in (1, 3, 40):
            chat, calls = memory.conversation(f"{results}"), [calling("look", f"c{n}") for n in range(results)]
            call = AIMessage("", tool_calls=[each.tool_calls[0] for each in calls])
            chat.add_messages([AIMessage("before"), call])
            chat.add_messages([*(ToolMessage("ok", tool_call_id=f"c{n}") for n in range(results)), AIMessage("Seen.")])
            assert len(await do(chat, "retrieve_recent", 1)) == 1
            for n in range(2, results + 3):
                recent = await do(chat, "retrieve_recent", n)
                assert [each["role"] for each in recent] == ["assistant", *["tool"] * results, "assistant"]
            assert (await do(chat, "retrieve_recent", results + 3))[0]["content"] == "before"


class TestUpdates:
    @pytest.fixture
    def message_id(self, chat) -> str:
        fields = {"tool_calls": [CALL], "agent_calls": [{"agent_name": "B"}], "images": ["https://example.org/a.png"]}
        return chat.add(role="assistant", content="old", name="Bot", tool_call_id="call-0", **fields)

    NEW: ClassVar[dict[str, Any]] = {
        "role": "user",
        "content": "new",
        "name": "Ada",
        "tool_calls": [ToolCallMsg(id="call-9", name="n", arguments="{}")],
        "agent_calls": [AgentCallMsg(agent_name="C", request=1)],
        "structured_data": {"a": [1]},
        "images": ["https://example.org/b.png"],
        "tool_call_id": "call-9",
        "reasoning_details": [{"type": "reasoning.text", "text": "hm"}],
        "created_at": datetime(2020, 1, 1, tzinfo=UTC),
    }

    async def test_update_changes_only_the_given_field(self, chat, do, message_id):
        for field, value in [*self.NEW.items(), *((field, None) for field in self.NEW if field != "role")]:
            before = chat.history_of(message_id)[-1].message
            await do(chat, "update", message_id, **{field: value})
            after = chat.history_of(message_id)[-1].message
            assert {name for name in self.NEW if getattr(after, name) != getattr(before, name)} == {field}
            assert getattr(after, field) == value
        assert contents(chat) == [""]

    async def test_update_keeps_previous_versions(self, chat, do, message_id, clock):
        await do(chat, "update", message_id, content="newer")
        clock.pass_time(days=1)
        await do(chat, "update", message_id, content="newest")
        versions = await do(chat, "history_of", message_id)
        assert [version.message.content for version in versions] == ["old", "newer", "newest"]
        assert {version.message.message_id for version in versions} == {message_id}
        times = [version.written_at for version in versions]
        assert times == sorted(times)
        assert (times[2] - times[1]).days == 1
        assert contents(chat)[0][0] == {"type": "text", "text": "newest"}

    async def test_invalid_updates_are_rejected(self, chat, do, message_id):
        before = snapshot(chat)
        for changes in (
            {"contnt": "x"}, {"role": None}, {"content": {"a": object()}}, {"created_at": "yesterday"},
            {"langchain": {"tool_calls": 5}},
        ):  # fmt: skip
            with pytest.raises(MessageError):
                await do(chat, "update", message_id, **changes)
        assert snapshot(chat) == before
        assert len(chat.history_of(message_id)) == 1

    def test_updated_timestamp_is_searchable(self, memory, chat):
        message_id = chat.add(role="user", content="the orchard")
        chat.update(message_id, created_at=datetime(2001, 2, 3, tzinfo=UTC))
        [found] = memory.search("orchard")
        assert found.created_at == datetime(2001, 2, 3, tzinfo=UTC)
        chat.update(message_id, content="the old orchard")
        assert memory.search("orchard")[0].created_at == datetime(2001, 2, 3, tzinfo=UTC)


class TestIndexes:
    @pytest.fixture(autouse=True)
    def _three(self, chat):
        for text in "abc":
            chat.add(role="user", content=text)

    async def test_replace_memory_accepts_a_message(self, chat, do):
        ids = [each["message_id"] for each in chat.retrieve_all(include_ids=True)]
        given = Message(role="tool", content="x"), AIMessage("x", id="other"), {"role": "critic"}
        for role, message in zip(("tool", "assistant", "critic"), given, strict=True):
            await do(chat, "replace_memory", 1, message)
            assert [each["message_id"] for each in chat.retrieve_all(include_ids=True)] == ids
            assert chat.retrieve_all()[1]["role"] == role
        assert [version.message.content for version in chat.history_of(ids[1])] == ["b", "x", "x", None]

    async def test_invalid_indexes_and_replacements_are_rejected(self, chat, do):
        for idx in (3, -4, 10**30, -(10**30), True, None, "0", 1.0):
            with pytest.raises(MessageError, match="index"):
                await do(chat, "delete_memory", idx)
            with pytest.raises(MessageError, match="index"):
                await do(chat, "replace_memory", idx, role="user", content="x")
        for fields in ({}, {"content": "x"}, {"role": "user", "bogus": 1}):
            with pytest.raises(MessageError):
                await do(chat, "replace_memory", 0, **fields)
        assert contents(chat) == list("abc")


class TestRemoval:
    async def test_removed_message_is_deleted_with_its_versions(self, memory, chat, do):
        message_id = chat.add(role="user", content="secret")
        chat.update(message_id, content="secret two")
        assert await do(chat, "remove_by_id", message_id) is True
        assert await do(chat, "remove_by_id", message_id) is False
        assert snapshot(chat) == ([], [], 0)
        assert memory.search("secret") == []
        assert memory.admin.verify().ok
        assert memory.admin.stats()["content_bytes"] == 0

    async def test_clear_removes_messages_and_description(self, memory, do):
        for said in (["Hello"], [], []):  # the second description was never written
            chat = memory.conversation("chat", description="Be kind.")
            for text in said:
                chat.add(role="user", content=text)
            await do(chat, "clear")
            assert snapshot(chat) == ([], [], 0)
            assert memory.admin.stats()["content_bytes"] == 0


class TestDescription:
    async def test_description_is_the_first_system_message(self, memory, do):
        chat = memory.conversation("chat", description="Be kind.")
        assert await do(chat, "retrieve_all") == [{"role": "system", "content": "Be kind."}]
        assert await do(chat, "messages") == [
            SystemMessage("Be kind.", id=chat.retrieve_all(include_ids=True)[0]["message_id"])
        ]

    async def test_changed_description_keeps_place_and_id(self, memory, do):
        chat = memory.conversation("chat", description="Be kind.")
        first = chat.retrieve_all(include_ids=True)[0]["message_id"]
        chat.add(role="user", content="Hello")
        again = memory.conversation("chat", description="Be brief.")
        assert await do(again, "retrieve_all") == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
        ]
        assert again.retrieve_all(include_ids=True)[0]["message_id"] == first
        assert again.retrieve_by_id(first)["content"] == "Be brief."
        assert [version.message.content for version in again.history_of(first)] == ["Be kind.", "Be brief."]
        again.reset_memory()
        assert contents(again) == ["Be brief."]
        assert memory.admin.verify().ok

    def test_failed_first_write_leaves_no_description(self, memory):
        chat = memory.conversation("new", description="Be kind.")
        with mock.patch.object(message_log, "append", side_effect=MemoryError), pytest.raises(MemoryError):
            chat.add_user_message("Hello")
        assert memory.admin.stats()["conversations"] == 0
        chat.add_user_message("Hello")
        assert contents(chat) == ["Be kind.", "Hello"]

    def test_description_is_not_added_to_existing_conversation(self, memory, chat):
        chat.add(role="user", content="Hello")
        assert contents(memory.conversation("chat", description="Be kind.")) == ["Hello"]


async def test_tool_call_id_from_content_or_field(chat, do):
    for fields in (
        {"content": '{"tool_call_id": "call-1", "output": "42"}'},
        {"content": {"tool_call_id": "call-1", "output": "42"}},
        {"content": "42", "tool_call_id": "call-1"},
    ):
        key = await do(chat, "add", role="tool", name="look", **fields)
        told = {"role": "tool", "content": "42", "name": "look", "tool_call_id": "call-1"}
        assert await do(chat, "retrieve_by_id", key) == told
        message = (await do(chat, "messages"))[-1]
        assert (message.type, message.content, message.tool_call_id) == ("tool", "42", "call-1")


class TestNamespaces:
    def test_equal_ids_in_namespaces_are_separate(self, memory):
        spaces = [(), ("ada",), ("ada", "work"), ("bob",)]
        for space in spaces:
            memory.conversation("chat", space).add(Message(role="user", content=repr(space), message_id="m"))
        for space in spaces:
            assert contents(memory.conversation("chat", space)) == [repr(space)]
        memory.conversation("chat", ("ada",)).clear()
        assert [len(memory.conversation("chat", space)) for space in spaces] == [1, 0, 1, 1]

    def test_invalid_ids_are_rejected(self, memory):
        for conversation_id in ("", 0.5, "a\0b", "a\nb", "\ud800", "x" * 501, [], True):
            with pytest.raises(InvalidInput, match="cannot be the id of a conversation"):
                memory.conversation(conversation_id)
        with pytest.raises(InvalidInput, match="description"):
            memory.conversation("chat", description=5)
        assert memory.conversation(0).conversation_id == "0"

    def test_missing_id_starts_a_new_conversation(self, memory):
        first, second = memory.conversation(), memory.conversation()
        assert first.conversation_id.startswith("conv-")
        assert first.conversation_id != second.conversation_id


class TestConstructor:
    def test_constructor_accepts_path_url_or_nothing(self, url):
        in_memory = ConversationMemory()
        in_memory.add(role="user", content="Hello")
        assert contents(in_memory) == ["Hello"]
        first, second = ConversationMemory(url, "chat"), ConversationMemory(url, "chat")
        first.add(role="user", content="Hello")
        assert contents(second) == ["Hello"]
        assert first._database is second._database
        if not url.startswith("postgresql"):
            assert contents(ConversationMemory(Path(url), "chat")) == ["Hello"]

    def test_constructor_rejects_other_values(self):
        for given in (None, 5, object(), b"agent.db"):
            with pytest.raises(InvalidInput):
                ConversationMemory(given, "chat")
