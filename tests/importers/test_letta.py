"""Letta agents are imported with blocks, passages and messages, from files and server tables."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from langchain_agentmem import InvalidInput

from .sources import LETTA_BLOCKS, LETTA_SAID, letta, letta_server

pytestmark = pytest.mark.sqlite_suffices


def types_and_texts(memory, name, namespace):
    return [(each.type, each.text) for each in memory.conversation(name, namespace).messages]


def rewritten(tmp_path, change):
    """Return an agent file of which the agent was changed."""
    path = letta(tmp_path)
    document = json.loads(path.read_text())
    change(document["agents"][0])
    path.write_text(json.dumps(document))
    return path


class TestAgentFiles:
    def test_blocks_become_core_memory_and_messages_a_conversation(self, memory, tmp_path):
        memory.import_from("letta", letta(tmp_path), namespace=("users",))
        at = ("users", "watcher")
        assert memory.layers(namespace=at).core.get() == {"human": "Her name is Ada.", "persona": "I watch birds."}
        assert types_and_texts(memory, "watcher", at) == [
            ("human", "Where are herons?"),
            ("ai", "I look into my memory."),
            ("tool", "Herons fish in the morning."),
            ("ai", "At the pond."),
        ]
        _, called, answered, spoke = memory.conversation("watcher", at).messages
        assert called.tool_calls[0]["args"] == {"query": "heron"}
        assert answered.tool_call_id == called.tool_calls[0]["id"]
        assert spoke.content[0] == {"type": "reasoning", "reasoning": "Now I know."}
        [listed] = memory.conversations(namespace=at)
        assert listed.last_at == datetime(2025, 8, 28, 0, 57, 5, 890070, tzinfo=UTC)

    def test_renumbered_export_adds_only_new_messages(self, memory, tmp_path):
        new = {"role": "user", "content": [{"type": "text", "text": "And now?"}], "created_at": "2025-08-29T00:00:00Z"}

        def renumber(agent):
            later = [*agent["messages"][2:], new]
            agent["messages"] = [{**each, "id": f"message-{n}"} for n, each in enumerate(later)]

        memory.import_from("letta", letta(tmp_path))
        report = memory.import_from("letta", rewritten(tmp_path, renumber))
        assert (report.added, report.known) == ({"messages": 1}, {"messages": 4, "memories": 2})

    def test_older_single_agent_file_is_read(self, memory, tmp_path):
        blocks = [{**each, "updated_at": "2025-04-01T10:00:00"} for each in LETTA_BLOCKS]
        path = tmp_path / "old.af"
        path.write_text(json.dumps({"name": "old", "core_memory": blocks, "messages": LETTA_SAID, "version": "0.6.47"}))
        assert memory.import_from("letta", path).added == {"memories": 2, "messages": 4}
        entry = memory.layers(namespace=("old",)).core.entries()[0]
        assert entry.created_at == datetime(2025, 4, 1, 10, tzinfo=UTC)

    def test_listed_passages_become_records(self, memory, tmp_path):
        letta(tmp_path)
        passage = {"id": "passage-1", "text": "Herons fish.", "tags": ["bird"], "created_at": "2025-08-28T01:00:00Z"}
        (tmp_path / "watcher.json").write_text(json.dumps([passage, {"text": 7}]))
        report = memory.import_from("letta", tmp_path)
        assert memory.layers(namespace=("watcher",)).archival.get("passage-1").tags == ("bird",)
        assert "passage" in report.left_out[-1].what

    def test_images_reasoning_and_several_results_are_kept(self, memory, tmp_path):
        shown = {"type": "image", "source": {"type": "base64", "data": "AAAA", "media_type": "image/png"}}
        calls = [{"id": key, "function": {"name": "look", "arguments": "{}"}} for key in ("a", "b")]
        returns = [{"tool_call_id": key, "status": "success", "func_response": f"saw {key}"} for key in ("a", "b")]
        messages = [
            {"role": "user", "content": [{"type": "text", "text": "What is this?"}, shown]},
            {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "Hm."}], "tool_calls": calls},
            {"role": "tool", "content": [], "tool_returns": returns},
            {"role": "approval", "content": None, "approve": True},
        ]
        memory.import_from("letta", rewritten(tmp_path, lambda agent: agent.update(messages=messages)))
        asked, looked, *answers = memory.conversation("watcher", ("watcher",)).messages
        assert asked.content[1] == {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
        assert (looked.content[0]["reasoning"], len(looked.tool_calls)) == ("Hm.", 2)
        assert [(each.tool_call_id, each.text) for each in answers] == [("a", "saw a"), ("b", "saw b")]

    def test_truncated_call_is_kept_agent_maps_to_user(self, memory, tmp_path):
        path = letta(tmp_path)
        path.write_text(
            path.read_text().replace(json.dumps('{"message": "At the pond."}'), json.dumps('{"message": "At'))
        )
        users = ("users", "{user_id}")
        memory.import_from("letta", path, namespace=users, owners={"watcher": "ada"})
        assert memory.layers(namespace=("users", "ada")).core.get("human") == {"human": "Her name is Ada."}
        *_, called, answered = memory.conversation("watcher", ("users", "ada")).messages
        assert called.invalid_tool_calls[0]["name"] == "send_message"
        assert answered.tool_call_id == "call-send_message"

    def test_invalid_file_is_rejected(self, memory, tmp_path):
        path = tmp_path / "x.af"
        for text in ("{}", "[]", '{"agents": [], "blocks": 3}', '{"agents": [3], "blocks": []'):
            path.write_text(text)
            with pytest.raises(InvalidInput):
                memory.import_from("letta", path)


class TestServerTables:
    def test_agents_are_imported_without_deleted_rows(self, memory, tmp_path):
        memory.import_from("letta", letta_server(tmp_path))
        layers = memory.layers(namespace=("watcher",))
        assert layers.core.get("persona") == {"persona": "I watch birds."}
        [record] = layers.archival.all()
        assert (record.id, record.tags, record.details["letta"]) == ("passage-1", ("bird",), {"by": "Ada"})
        assert types_and_texts(memory, "watcher", ("watcher",))[-1] == ("ai", "At the pond.")
        assert types_and_texts(memory, "conv-1", ("watcher-2",)) == [("human", "Any news?")]

    def test_agent_selection_includes_passages_without_archives(self, memory, tmp_path):
        path = letta_server(tmp_path)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("create table agent_passages (id text, text text, agent_id text, created_at text)")
            connection.execute("insert into agent_passages values ('p', 'Old.', 'agent-b', '2024-01-01 00:00:00')")
        report = memory.import_from("letta", path, only=["agent-b", "agent-z"])
        assert report.added == {"messages": 1, "memories": 1}
        assert [each.what for each in report.left_out] == ["'agent-z'"]
        assert memory.layers(namespace=("watcher-2",)).archival.get("p").content == "Old."
