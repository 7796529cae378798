"""What `RunnableWithMessageHistory` stored comes as it was said."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, message_to_dict, messages_from_dict

from langchain_agentmem import InvalidInput
from tests.emptying import direct

from .sources import DATA, chat_files, chat_history, database

pytestmark = pytest.mark.sqlite_suffices


def rows_of(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("select id, session_id, message from message_store order by id").fetchall()


def said(messages):
    return [each.model_copy(update={"id": None}) for each in messages]


def add(path, session, message):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("insert into message_store (session_id, message) values (?, ?)", (session, message))
        connection.commit()


class TestTables:
    def test_every_message_comes_as_it_was_said(self, memory, tmp_path):
        path = chat_history(tmp_path)
        memory.import_from("chat-history", path)
        for session in ("ada", "bob"):
            theirs = messages_from_dict([json.loads(text) for _, name, text in rows_of(path) if name == session])
            assert said(memory.conversation(session).messages) == said(theirs)

    def test_ids_are_kept_and_others_are_those_of_the_rows(self, memory, tmp_path):
        memory.import_from("chat-history", chat_history(tmp_path))
        assert [each.id for each in memory.conversation("ada").messages][:2] == ["m1", "message_store-2"]

    def test_what_was_said_since_comes_with_the_next_import(self, memory, tmp_path):
        path = chat_history(tmp_path)
        memory.import_from("chat-history", path)
        add(path, "ada", json.dumps(message_to_dict(HumanMessage("And Bo?"))))
        report = memory.import_from("chat-history", path)
        assert (report.added, report.known) == ({"messages": 1}, {"messages": 12})
        assert memory.conversation("ada").messages[-1].text == "And Bo?"

    def test_what_was_edited_here_stays_edited(self, memory, tmp_path):
        path = chat_history(tmp_path)
        memory.import_from("chat-history", path)
        memory.conversation("ada").update("m1", content="My sister lives in Porto.")
        assert memory.import_from("chat-history", path).added == {}
        assert memory.conversation("ada").messages[0].text == "My sister lives in Porto."

    @pytest.mark.parametrize("bad", ["{", "[]", "null", '{"type": "nonsense", "data": {}}', '{"type": "human"}', "7"])
    def test_a_malformed_message_leaves_out_its_conversation_and_no_other(self, memory, tmp_path, bad):
        path = chat_history(tmp_path)
        add(path, "ada", bad)
        report = memory.import_from("chat-history", path)
        assert (report.added, report.left) == ({"messages": 6}, 7)
        assert report.left_out[0].what == "the conversation 'ada'"
        assert [each.conversation_id for each in memory.conversations()] == ["bob"]

    @pytest.mark.parametrize("session", [None, "", "x" * 600])
    def test_an_id_that_no_conversation_can_have_leaves_it_out(self, memory, tmp_path, session):
        path = chat_history(tmp_path)
        add(path, session, json.dumps(message_to_dict(HumanMessage("Hi"))))
        report = memory.import_from("chat-history", path)
        assert (report.added, report.left) == ({"messages": 12}, 1)

    def test_an_id_that_is_taken_by_other_content_leaves_it_out(self, memory, tmp_path):
        memory.conversation("ada").add_messages([HumanMessage("Something else", id="m1")])
        report = memory.import_from("chat-history", chat_history(tmp_path))
        assert (report.added, report.left) == ({"messages": 6}, 6)
        assert "m1" in report.left_out[0].why
        assert len(memory.conversation("ada").messages) == 1

    def test_one_id_twice_is_two_messages(self, memory, tmp_path):
        path = chat_history(tmp_path)
        for text in ("Once", "Twice"):
            add(path, "eve", json.dumps(message_to_dict(HumanMessage(text, id="same"))))
        memory.import_from("chat-history", path)
        assert [each.id for each in memory.conversation("eve").messages] == ["same", "same-2"]

    def test_another_table_name_is_found(self, memory, tmp_path):
        script = (DATA / "sql_chat_message_history.sql").read_text().replace("message_store", "chats")
        assert memory.import_from("chat-history", database(tmp_path / "x.db", script)).added == {"messages": 12}

    def test_urls_of_sqlalchemy_are_understood(self, memory, tmp_path):
        path = chat_history(tmp_path)
        assert memory.import_from("chat-history", f"sqlite:///{path}").added == {"messages": 12}

    def test_tables_of_postgresql_come_with_their_times(self, memory, new_database):
        url = direct(new_database("postgres"))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop table if exists chat")
            connection.execute(
                "create table chat (id serial primary key, session_id uuid, message jsonb, created_at timestamptz)"
            )
            session = "0b0f4e8e-8d4b-4cb6-8b1c-2d9f3f6c2f10"
            for message in (HumanMessage("Hi"), AIMessage("Hello")):
                told = json.dumps(message_to_dict(message))
                values = (session, told, datetime(2025, 5, 1, tzinfo=UTC))
                connection.execute("insert into chat (session_id, message, created_at) values (%s, %s, %s)", values)
            try:
                report = memory.import_from("chat-history", url.replace("postgresql://", "postgresql+psycopg://"))
            finally:
                connection.execute("drop table chat")
        assert report.added == {"messages": 2}
        [listed] = memory.conversations()
        assert (listed.conversation_id, listed.last_at.year) == (session, 2025)

    def test_a_database_without_histories_is_refused(self, memory, tmp_path):
        path = database(tmp_path / "x.db", "create table notes (id integer);")
        with pytest.raises(InvalidInput, match="no table with session_id and message"):
            memory.import_from("chat-history", path)


class TestFiles:
    def test_a_file_is_a_conversation_of_its_name(self, memory, tmp_path):
        path = chat_files(tmp_path) / "monday.json"
        memory.import_from("chat-history", path)
        theirs = messages_from_dict(json.loads(path.read_text()))
        assert said(memory.conversation("monday").messages) == said(theirs)

    def test_of_a_folder_each_file_comes_by_its_path(self, memory, tmp_path):
        folder = chat_files(tmp_path)
        (folder / "notes.json").write_text('{"no": "messages"}')
        (folder / "broken.json").write_text("[")
        report = memory.import_from("chat-history", folder)
        assert {each.conversation_id for each in memory.conversations()} == {"monday", "bob/monday"}
        assert {each.what for each in report.left_out} == {"the file 'notes.json'", "the file 'broken.json'"}

    def test_a_file_that_was_named_must_be_one(self, memory, tmp_path):
        path = tmp_path / "x.json"
        path.write_text('{"no": "messages"}')
        with pytest.raises(InvalidInput, match="no list of messages"):
            memory.import_from("chat-history", path)

    def test_a_list_that_grows_brings_what_is_new(self, memory, tmp_path):
        path = chat_files(tmp_path) / "monday.json"
        memory.import_from("chat-history", path)
        more = [HumanMessage("Look."), AIMessage("", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c"}])]
        messages = [*json.loads(path.read_text()), *map(message_to_dict, [*more, ToolMessage("1", tool_call_id="c")])]
        path.write_text(json.dumps(messages))
        assert memory.import_from("chat-history", path).added == {"messages": 3}
        assert memory.conversation("monday").messages[-2].tool_calls[0]["args"] == {"x": 1}
