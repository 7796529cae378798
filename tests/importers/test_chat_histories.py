"""Messages stored by `RunnableWithMessageHistory` are imported unchanged."""

import json
import sqlite3
from contextlib import closing

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, message_to_dict, messages_from_dict

from langchain_agentmem import InvalidInput

from .sources import DATA, chat_files, chat_history, database

pytestmark = pytest.mark.sqlite_suffices


def rows_of(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("select id, session_id, message from message_store order by id").fetchall()


def without_message_ids(messages):
    return [each.model_copy(update={"id": None}) for each in messages]


def add(path, session, message):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("insert into message_store (session_id, message) values (?, ?)", (session, message))
        connection.commit()


class TestTables:
    def test_every_message_is_imported_unchanged(self, memory, tmp_path):
        path = chat_history(tmp_path)
        add(path, "eve", json.dumps(message_to_dict(HumanMessage("Once", id="same"))))
        add(path, "eve", json.dumps(message_to_dict(HumanMessage("Twice", id="same"))))
        memory.import_from("chat-history", f"sqlite:///{path}")  # as SQLAlchemy has it
        assert [each.id for each in memory.conversation("ada").messages][:2] == ["m1", "message_store-2"]
        assert [each.id for each in memory.conversation("eve").messages] == ["same", "same-2"]
        for session in ("ada", "bob"):
            theirs = messages_from_dict([json.loads(text) for _, name, text in rows_of(path) if name == session])
            assert without_message_ids(memory.conversation(session).messages) == without_message_ids(theirs)

    def test_reimport_adds_new_messages_keeps_local_edits(self, memory, tmp_path):
        path = chat_history(tmp_path)
        memory.import_from("chat-history", path)
        memory.conversation("ada").update("m1", content="My sister lives in Porto.")
        add(path, "ada", json.dumps(message_to_dict(HumanMessage("And Bo?"))))
        report = memory.import_from("chat-history", path)
        assert (report.added, report.known) == ({"messages": 1}, {"messages": 12})
        said = [each.text for each in memory.conversation("ada").messages]
        assert (said[0], said[-1]) == ("My sister lives in Porto.", "And Bo?")

    def test_malformed_message_skips_only_its_conversation(self, memory, tmp_path):
        path = chat_history(tmp_path)
        memory.conversation("bob").add_messages([HumanMessage("Something else", id="message_store-8")])
        bad = ("{", "[]", "null", '{"type": "nonsense", "data": {}}', '{"type": "human"}', "7")
        for number, message in enumerate(bad):
            add(path, f"bad {number}", message)
        for session in (None, "", "x" * 600):
            add(path, session, json.dumps(message_to_dict(HumanMessage("Hi"))))
        report = memory.import_from("chat-history", path)
        assert (report.added, report.left) == ({"messages": 6}, 15)
        told = {each.what: each.why for each in report.left_out}
        assert {f"the conversation 'bad {number}'" for number in range(6)} <= told.keys()
        assert "message_store-8" in told["the conversation 'bob'"]
        assert len(memory.conversation("bob").messages) == 1
        assert {each.conversation_id for each in memory.conversations()} == {"ada", "bob"}

    def test_any_table_name_works_missing_table_is_rejected(self, memory, tmp_path):
        script = (DATA / "sql_chat_message_history.sql").read_text().replace("message_store", "chats")
        assert memory.import_from("chat-history", database(tmp_path / "y.db", script)).added == {"messages": 12}
        path = database(tmp_path / "x.db", "create table notes (id integer);")
        with pytest.raises(InvalidInput, match="has no chat history: no table has the columns session_id and message"):
            memory.import_from("chat-history", path)


class TestFiles:
    def test_folder_files_are_imported_by_path(self, memory, tmp_path):
        folder = chat_files(tmp_path)
        (folder / "notes.json").write_text('{"no": "messages"}')
        (folder / "broken.json").write_text("[")
        report = memory.import_from("chat-history", folder)
        assert {each.conversation_id for each in memory.conversations()} == {"monday", "bob/monday"}
        assert {each.what for each in report.left_out} == {"the file 'notes.json'", "the file 'broken.json'"}
        with pytest.raises(InvalidInput, match="not a list of messages"):
            memory.import_from("chat-history", folder / "notes.json")

    def test_grown_list_adds_new_messages(self, memory, tmp_path):
        path = chat_files(tmp_path) / "monday.json"
        memory.import_from("chat-history", path)
        assert without_message_ids(memory.conversation("monday").messages) == without_message_ids(
            messages_from_dict(json.loads(path.read_text()))
        )
        more = [HumanMessage("Look."), AIMessage("", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c"}])]
        messages = [*json.loads(path.read_text()), *map(message_to_dict, [*more, ToolMessage("1", tool_call_id="c")])]
        path.write_text(json.dumps(messages))
        assert memory.import_from("chat-history", path).added == {"messages": 3}
        assert memory.conversation("monday").messages[-2].tool_calls[0]["args"] == {"x": 1}
