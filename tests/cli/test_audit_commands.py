"""`agentmem audit`: the report, entries and todos, the chain, files, digests; plain text, JSON, and exit codes."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit.audit_trail import AuditTrail

from .commands import execute, fine, told


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


def test_a_call_is_shown_with_all_that_the_model_was_given(audit, tmp_path):
    path = tmp_path / "calls.db"
    with AgentMemory(path) as memory:
        model = FakeMessagesListChatModel(responses=[AIMessage("In the sun.")])
        asked = [("system", "You are\n\x1b[31ma gardener."), ("user", "Where do I plant a quince?")]
        model.invoke(asked, {"callbacks": [memory.audit.handler()]})
    shown = fine(audit("list", path, "--messages"))
    assert "   You are\n" in shown
    assert "gardener" not in fine(audit("list", path, "--limit", "1"))
    [entry] = told(audit("list", path, "--messages", "--json"))
    assert [(each["role"], each["text"]) for each in entry["messages"]] == [
        ("system", asked[0][1]),
        ("user", asked[1][1]),
        ("assistant", "In the sun."),
    ]
    assert "messages" not in told(audit("list", path, "--limit", "1", "--json"))[0]


class TestReport:
    def test_it_says_how_the_trail_fares(self, audit, database):
        lines = fine(audit("report", database)).splitlines()
        assert lines[0].startswith("5 entries, ")
        assert "1 open todo:" in lines
        assert any("done, it seems: id-4 says: I fixed the gate." in line for line in lines)
        for path in ("ada", "ada/private"):
            assert fine(audit("report", database, "--namespace", path)).startswith("1 entry, ")

    def test_as_json_it_is_whole(self, audit, database):
        said = told(audit("report", database, "--json"))
        assert said["entries"] == 5
        assert said["size"] > 0
        assert (said["todos"][0]["done_by"], said["todos"][0]["quote"]) == ("id-4", "I fixed the gate.")


class TestEntries:
    def test_the_last_are_printed_oldest_first_on_plain_lines(self, audit, database):
        assert fine(audit("list", database, "--limit", "2")) == (
            "2026-01-01 12:00  todo-capture  todo  id-3\n   > [TODO] Please fix the gate.\n   < \n"
            "2026-01-01 12:00  tuesday  exchange  id-4\n   > Is it done?\n   < I fixed the gate.\n"
        )

    def test_those_of_a_conversation_hidden_ones_with_their_reasons(self, audit, database):
        shown = fine(audit("list", database, "--conversation", "monday"))
        assert "Where is \\x1b[31mthe ladder?" in shown
        assert "   < Behind the barn.\n" in shown
        assert "Thanks!" not in shown
        every = fine(audit("list", database, "--conversation", "monday", "--include-junk"))
        assert "   hidden: small talk" in every

    def test_as_json_they_are_whole(self, audit, database):
        [entry] = told(audit("list", database, "--limit", "1", "--json"))
        assert (entry["id"], entry["reply"], entry["junk"]) == ("id-4", "I fixed the gate.", [])
        assert datetime.fromisoformat(entry["created_at"]).tzinfo is not None

    def test_who_finds_no_entries_is_told_where_there_are_some(self, audit, database):
        said = fine(audit("list", database, "--limit", "3", "--namespace", "ben"))
        assert said == "There are no entries. Elsewhere there is something: --namespace /, --namespace ada/private.\n"


class TestTodos:
    def test_they_are_listed_completed_and_reopened(self, audit, database):
        listed = "id-3  2026-01-01\n   [TODO] Please fix the gate.\n"
        assert fine(audit("todos", database)) == listed
        assert fine(audit("todos", database, "--complete", "id-3")) == "Nothing is to be done.\n"
        assert fine(audit("todos", database, "--done")) == listed
        assert fine(audit("todos", database, "--reopen", "id-3")) == listed
        [found] = told(audit("todos", database, "--json"))
        assert found["status"] == "open"


class TestCare:
    def test_the_chain_is_verified_and_a_change_is_found(self, audit, database):
        *_, head = fine(audit("verify", database)).split()
        assert fine(audit("verify", database, "--since", head)).startswith(
            "All is well: checked 5 entries, of which 0 are erased."
        )
        execute(database, "update audit set created_at = created_at + 1 where sequence = 2")
        run = audit("verify", database)
        assert (run.returncode, run.stderr) == (1, "")
        assert "1 problem" in run.stdout
        run = audit("verify", database, "--json")
        assert run.returncode == 1
        assert json.loads(run.stdout)["ok"] is False

    def test_all_is_judged_anew(self, audit, database):
        execute(database, "update audit set hidden = 0, junk = null")
        assert fine(audit("filter-junk", database)) == "1 entry judged otherwise than before.\n"
        assert fine(audit("filter-junk", database)) == "0 entries judged otherwise than before.\n"


class TestFiles:
    def test_a_document_goes_out_and_in_again(self, audit, database, tmp_path):
        file, other = tmp_path / "agent_memory.json", tmp_path / "other.db"
        assert fine(audit("export", database, file)) == "4 entries written.\n"
        assert len(json.loads(file.read_text(encoding="utf-8"))["history"]) == 4
        done = "4 entries added; 0 were there already.\n"
        assert fine(audit("import", other, file, "--namespace", "bob")) == done
        done = told(audit("import", other, file, "--namespace", "bob", "--json"))
        assert done == {"added": 0, "known": 4, "lost": [], "copy_path": None}
        assert "Please fix the gate." in fine(audit("todos", other, "--namespace", "bob"))

    def test_of_a_damaged_one_it_says_what_was_lost(self, audit, tmp_path):
        file, other = tmp_path / "agent_memory.json", tmp_path / "other.db"
        whole = json.dumps({"history": [{"prompt": f"Where {i}?", "reply": "There."} for i in range(3)]})
        file.write_text(whole[:-20], encoding="utf-8")
        run = audit("import", other, file)
        assert (run.returncode, run.stderr) == (1, "")
        assert "The damaged file is kept as" in run.stdout
        assert run.stdout.endswith(" added; 0 were there already.\n")
