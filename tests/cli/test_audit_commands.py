"""`agentmem audit`: report, entries, todos, chain and files, as plain text and JSON with exit codes."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit.audit_trail import AuditTrail

from .commands import execute, read_json, stdout_of


@pytest.fixture
def audit(agentmem):
    return lambda *arguments: agentmem("audit", *arguments)


@pytest.fixture
def database(path, clock, new_id) -> str:
    with AgentMemory(path, clock=clock, new_id=new_id) as memory:
        trail = memory.audit
        trail.add("Where is \x1b[31mthe ladder?", "Behind\nthe barn.", "monday")
        trail.add("Thanks!", "You're welcome!", "monday")
        trail.add_todo_from_chat("Please fix the gate.")
        trail.add("Is it done?", "I fixed the gate.", "tuesday")
        AuditTrail(memory, ("ada", "private")).add("And the key?", "Here.", "monday")
    return path


def test_messages_option_shows_the_model_input(audit, tmp_path):
    path = tmp_path / "calls.db"
    with AgentMemory(path) as memory:
        model = FakeMessagesListChatModel(responses=[AIMessage("In the sun.")])
        asked = [("system", "You are\n\x1b[31ma gardener."), ("user", "Where do I plant a quince?")]
        model.invoke(asked, {"callbacks": [memory.audit.handler()]})
    shown = stdout_of(audit("list", path, "--messages"))
    assert "   You are\n" in shown
    assert "gardener" not in stdout_of(audit("list", path, "--limit", "1"))
    [entry] = read_json(audit("list", path, "--messages", "--json"))
    assert [(each["role"], each["text"]) for each in entry["messages"]] == [
        ("system", asked[0][1]),
        ("user", asked[1][1]),
        ("assistant", "In the sun."),
    ]
    assert "messages" not in read_json(audit("list", path, "--limit", "1", "--json"))[0]


class TestReport:
    def test_report_shows_counts_and_open_todos(self, audit, database):
        lines = stdout_of(audit("report", database)).splitlines()
        assert lines[0].startswith("5 entries, ")
        assert "1 open todo:" in lines
        assert any("seems done, see id-4: I fixed the gate." in line for line in lines)
        for path in ("ada", "ada/private"):
            assert stdout_of(audit("report", database, "--namespace", path)).startswith("1 entry, ")

    def test_report_json_has_every_field(self, audit, database):
        said = read_json(audit("report", database, "--json"))
        assert said["entries"] == 5
        assert said["size"] > 0
        assert (said["todos"][0]["done_by"], said["todos"][0]["quote"]) == ("id-4", "I fixed the gate.")


class TestEntries:
    def test_last_entries_are_printed_oldest_first(self, audit, database):
        assert stdout_of(audit("list", database, "--limit", "2")) == (
            "2026-01-01 12:00  todo-capture  todo  id-3\n   > [TODO] Please fix the gate.\n   < \n"
            "2026-01-01 12:00  tuesday  exchange  id-4\n   > Is it done?\n   < I fixed the gate.\n"
        )

    def test_conversation_entries_include_junk_with_reasons_on_request(self, audit, database):
        shown = stdout_of(audit("list", database, "--conversation", "monday"))
        assert "Where is \\x1b[31mthe ladder?" in shown
        assert "   < Behind the barn.\n" in shown
        assert "Thanks!" not in shown
        every = stdout_of(audit("list", database, "--conversation", "monday", "--include-junk"))
        assert "   hidden: small talk" in every

    def test_list_json_has_every_field(self, audit, database):
        [entry] = read_json(audit("list", database, "--limit", "1", "--json"))
        assert (entry["id"], entry["reply"], entry["junk"]) == ("id-4", "I fixed the gate.", [])
        assert datetime.fromisoformat(entry["created_at"]).tzinfo is not None

    def test_empty_list_names_namespaces_with_entries(self, audit, database):
        said = stdout_of(audit("list", database, "--limit", "3", "--namespace", "ben"))
        assert said == "There are no entries. Entries exist under --namespace /, --namespace ada/private.\n"


def test_todos_are_listed_completed_and_reopened(audit, database):
    listed = "id-3  2026-01-01\n   [TODO] Please fix the gate.\n"
    assert stdout_of(audit("todos", database)) == listed
    assert stdout_of(audit("todos", database, "--complete", "id-3")) == "No open todos.\n"
    assert stdout_of(audit("todos", database, "--done")) == listed
    assert stdout_of(audit("todos", database, "--reopen", "id-3")) == listed
    [found] = read_json(audit("todos", database, "--json"))
    assert found["status"] == "open"


class TestMaintenance:
    def test_verify_finds_a_changed_entry(self, audit, database):
        *_, head = stdout_of(audit("verify", database)).split()
        assert stdout_of(audit("verify", database, "--since", head)).startswith(
            "No problems found: checked 5 entries, of which 0 erased."
        )
        execute(database, "update audit set created_at = created_at + 1 where sequence = 2")
        run = audit("verify", database)
        assert (run.returncode, run.stderr) == (1, "")
        assert "1 problem" in run.stdout
        run = audit("verify", database, "--json")
        assert run.returncode == 1
        assert json.loads(run.stdout)["ok"] is False

    def test_filter_junk_classifies_all_entries_again(self, audit, database):
        execute(database, "update audit set hidden = 0, junk = null")
        assert stdout_of(audit("filter-junk", database)) == "1 entry changed.\n"
        assert stdout_of(audit("filter-junk", database)) == "0 entries changed.\n"


class TestFiles:
    def test_export_is_imported_into_another_database(self, audit, database, tmp_path):
        file, other = tmp_path / "agent_memory.json", tmp_path / "other.db"
        assert stdout_of(audit("export", database, file)) == "4 entries written.\n"
        assert len(json.loads(file.read_text(encoding="utf-8"))["history"]) == 4
        done = "4 entries added; 0 already existed.\n"
        assert stdout_of(audit("import", other, file, "--namespace", "bob")) == done
        done = read_json(audit("import", other, file, "--namespace", "bob", "--json"))
        assert done == {"added": 0, "known": 4, "lost": [], "copy_path": None}
        assert "Please fix the gate." in stdout_of(audit("todos", other, "--namespace", "bob"))

    def test_damaged_import_reports_lost_entries(self, audit, tmp_path):
        file, other = tmp_path / "agent_memory.json", tmp_path / "other.db"
        whole = json.dumps({"history": [{"prompt": f"Where {i}?", "reply": "There."} for i in range(3)]})
        file.write_text(whole[:-20], encoding="utf-8")
        run = audit("import", other, file)
        assert (run.returncode, run.stderr) == (1, "")
        assert "The damaged file is kept as" in run.stdout
        assert run.stdout.endswith(" added; 0 already existed.\n")
