"""The MARSYS interface of all memories: files, event bus and compaction."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_agentmem import AgentMemory, Attachment, ConversationMemory, InvalidInput, Message
from langchain_agentmem.base import files as files_module
from langchain_agentmem.base.events import MemoryResetEvent
from langchain_agentmem.errors import DatabaseUnreadable

pytestmark = pytest.mark.sqlite_suffices


def fill(memory: AgentMemory, conversation_id: str = "chat") -> ConversationMemory:
    """A conversation with every kind of message and field."""
    chat = memory.conversation(conversation_id, description="Be kind.")
    chat.add(Message(role="user", content="See \ud800\0", message_id="1", images=["a.png"], created_at="2020-01-01"))
    more = {
        "tool_calls": [{"id": "c", "name": "look", "arguments": "{}"}],
        "agent_calls": [{"agent_name": "B", "request": {"a": (1, b"x")}}],
        "structured_data": {"when": datetime(2020, 1, 1, tzinfo=UTC)},
        "reasoning_details": [{"type": "reasoning.text", "text": "hm"}],
    }
    chat.add(Message(role="assistant", content=None, message_id="2", **more))
    chat.add(Message(role="tool", content={"output": "42"}, tool_call_id="c", message_id="3", name="look"))
    chat.add_messages([AIMessage("done", id="4", response_metadata={"model_name": "m"})])
    chat.update("1", content="See, edited")
    session = memory.session(conversation_id)
    each = session.create_round("q")
    session.add_post(each.id, send_from="A", send_to="B", attachments=[Attachment.create("plan", "p")])
    session.finish_round(each.id)
    return chat


def everything(memory: AgentMemory, conversation_id: str = "chat") -> Any:
    chat = memory.conversation(conversation_id)
    messages = chat.messages
    versions = [chat.history_of(message.id) for message in messages]
    return messages, versions, memory.session(conversation_id).rounds


def memory_files(folder: Path) -> list[str]:
    """The saved files of a folder, partially written ones included."""
    return [each.name for each in folder.iterdir() if "memory.json" in each.name]


class TestFiles:
    async def test_save_and_load_round_trip_is_lossless(self, memory, do, tmp_path: Path):
        fill(memory)
        before, path = everything(memory), tmp_path / "memory.json"
        state = {"step": 3, "nested": {"a": [1, None, "\ud800"]}}
        await do(memory.conversation("chat"), "save_to_file", path, MappingProxyType(state))
        other = memory.conversation("other", description="To be replaced.")
        other.add(role="user", content="to be replaced")
        assert await do(other, "load_from_file", str(path)) == state
        assert everything(memory, "other") == before
        assert memory.admin.verify().ok
        await do(memory.conversation("other"), "reset_memory")
        assert memory.conversation("other").retrieve_all() == [{"role": "system", "content": "Be kind."}]

    async def test_file_contains_the_current_description(self, memory, do, tmp_path: Path):
        memory.conversation("spoken", description="one").add(role="user", content="Hello")
        for name, left in (("spoken", ["two", "Hello"]), ("silent", ["two"]), ("empty", [])):
            chat, path = memory.conversation(name, description="two" if left else None), tmp_path / f"{name}.json"
            await do(chat, "save_to_file", path)
            other = memory.conversation("other")
            await do(other, "load_from_file", path)
            assert [each.content for each in other.messages] == left
            assert other.messages == chat.messages

    async def test_managed_and_plain_files_are_interchangeable(self, memory, do, tmp_path: Path):
        path = tmp_path / "memory.json"
        await do(fill(memory), "save_to_file", path, {"step": 1})
        before = everything(memory)
        managed = memory.managed_conversation("managed")
        assert await do(managed, "load_from_file", path) == {"step": 1}
        assert everything(memory, "managed") == before
        assert [message.id for message in managed.messages if message.id in "1234"] == ["1", "2", "3", "4"]
        await do(managed, "save_to_file", path)
        await do(memory.conversation("plain"), "load_from_file", path)
        assert everything(memory, "plain") == before
        with pytest.raises(InvalidInput, match="'managed_conversation' memory, not"):
            memory.facts("facts").load_from_file(path)

    async def test_non_json_state_is_rejected(self, memory, do, tmp_path: Path):
        path = tmp_path / "memory.json"
        path.write_text("old", encoding="utf-8")
        for state in ({"a": object()}, {"a": float("nan")}, [1], 5, "text", {"a": b"x"}):
            with pytest.raises(InvalidInput, match=r"additional.state"):
                await do(memory.conversation("chat"), "save_to_file", path, state)
        assert path.read_text(encoding="utf-8") == "old"
        assert memory_files(tmp_path) == ["memory.json"]

    async def test_failed_write_keeps_the_old_file(self, memory, do, tmp_path: Path, monkeypatch):
        chat, path = fill(memory), tmp_path / "memory.json"
        await do(chat, "save_to_file", path)
        before = path.read_bytes()
        chat.add(role="user", content="more")

        def fail(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(files_module.os, "fsync", fail)
        with pytest.raises(InvalidInput, match="No space left"):
            await do(chat, "save_to_file", path)
        assert path.read_bytes() == before
        assert memory_files(tmp_path) == ["memory.json"]

    async def test_damaged_message_keeps_the_old_file(self, memory, do, raw, tmp_path: Path):
        chat, path = memory.conversation("chat"), tmp_path / "memory.json"
        chat.add(role="user", content="Hello")
        await do(chat, "save_to_file", path)
        before = path.read_bytes()
        raw(memory, "update entry set body = :body", body=b'{"role":5}')
        with pytest.raises(DatabaseUnreadable, match="needs a role"):
            await do(chat, "save_to_file", path)
        assert path.read_bytes() == before

    async def test_invalid_files_are_rejected_without_changes(self, memory, do, tmp_path: Path):
        chat = fill(memory)
        before = everything(memory)
        path = tmp_path / "memory.json"
        chat.save_to_file(path)
        whole = path.read_text(encoding="utf-8")
        good = json.loads(whole)
        for text in (
            "", "null", "[]", "{}", "5", whole[:-20], whole[: len(whole) // 2], "\x89PNG", "[" * 100_000,
            *(json.dumps(good | other) for other in (
                {"format": "other"}, {"version": 99}, {"memory_type": "session"}, {"entries": None}, {"entries": [5]},
                {"entries": [{}]},
            )),
            json.dumps({key: value for key, value in good.items() if key != "entries"}),
        ):  # fmt: skip
            path.write_text(text, encoding="utf-8")
            with pytest.raises(InvalidInput):
                await do(chat, "load_from_file", path)
        path.write_bytes(b"\xff\xfe\x00")
        for source in (path, tmp_path, tmp_path / "missing.json", None, 5, "a\0b"):
            with pytest.raises(InvalidInput):
                await do(chat, "load_from_file", source)
        assert everything(memory) == before


@pytest.mark.parametrize("verb", ["reset_memory", "clear"])
async def test_reset_emits_an_event(memory, do, verb, clock):
    chat, events = fill(memory), []
    chat.set_event_context("Researcher", events.append, session_id="run-1")
    clock.now = datetime(2030, 1, 1, tzinfo=UTC)
    await do(chat, verb)
    [event] = events
    assert isinstance(event, MemoryResetEvent)
    assert event.agent_name == "Researcher"
    assert event.timestamp.year == 2030
    assert event.timestamp.tzinfo is UTC
    assert set(event.__dataclass_fields__) == {"agent_name", "timestamp"}


async def test_plain_memory_compaction_does_nothing(memory, do):
    chat = memory.conversation("chat")
    chat.add_messages([HumanMessage("x" * 1_000)] * 5)
    for part in (chat, memory.session("chat")):
        for verb in ("compact_if_needed", "compact_for_payload_error"):
            assert await do(part, verb) is False
            assert await do(part, verb, {"model": None}) is False
    assert len(chat) == 5
