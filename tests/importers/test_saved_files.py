"""Sessions of TaskWeaver, memories that MARSYS saved, and OPUS' prompts and replies."""

import copy
import json
from datetime import UTC, datetime

import pytest
import yaml

from langchain_agentmem import InvalidInput
from langchain_agentmem.messages.role_rounds import Conversation

from .sources import EXAMPLE, SESSION, marsys, opus, taskweaver

pytestmark = pytest.mark.sqlite_suffices


class TestTaskWeaver:
    def test_session_yaml_round_trips(self, memory, tmp_path):
        memory.import_from("taskweaver", taskweaver(tmp_path) / "session.yaml")
        session = memory.session(SESSION["id"])
        assert session.to_conversation().rounds == Conversation.from_dict(SESSION).rounds
        [listed] = memory.conversations()
        assert listed.last_at == datetime(2024, 9, 9, 6, 0, 46, tzinfo=UTC)  # which its ids tell
        (tmp_path / "mine.yaml").write_text(session.to_conversation().to_yaml(), encoding="utf-8")
        memory.import_from("taskweaver", tmp_path / "mine.yaml", namespace=("other",))
        assert memory.session(SESSION["id"], ("other",)).rounds == session.rounds

    def test_folder_imports_sessions_and_reports_the_rest(self, memory, tmp_path):
        path = taskweaver(tmp_path)
        report = memory.import_from("taskweaver", path)
        assert {each.conversation_id for each in memory.conversations()} == {SESSION["id"], "example"}
        [left] = report.left_out
        assert left.what == "the experience in 'handcrafted_exp_1.yaml'"
        assert "memory.experiences(folder)" in left.why
        assert memory.import_from("taskweaver", path, only=["example"]).left == 0

    def test_invalid_or_alias_bomb_yaml_is_rejected(self, memory, tmp_path):
        path, wrong = tmp_path / "x.yaml", ("- 1", "{", "rounds: 7", "rounds: [7]", "rounds: [{}]")
        for text in (*wrong, "!!python/object:os.system {}", "a: &a [*a]\nrounds: []"):
            path.write_text(text)
            with pytest.raises(InvalidInput):
                memory.import_from("taskweaver", path)
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
        path.write_text("\n".join([*lines, "rounds: []"]))
        with pytest.raises(InvalidInput, match="repeated aliases"):
            memory.import_from("taskweaver", path)
        assert memory.conversations() == []

    def test_diverged_session_is_skipped(self, memory, tmp_path):
        path = taskweaver(tmp_path) / "session.yaml"
        memory.import_from("taskweaver", path)
        other = copy.deepcopy(SESSION)
        other["rounds"][0]["post_list"][0]["message"] = "Something else."
        other["rounds"] += [{**EXAMPLE["rounds"][0], "id": "round-new"}]
        path.write_text(yaml.safe_dump(other))
        report = memory.import_from("taskweaver", path)
        assert report.added == {}
        assert len(memory.session(SESSION["id"]).rounds) == 1


class TestMarsys:
    def test_messages_keep_roles_calls_and_save_time(self, memory, tmp_path):
        memory.import_from("marsys", marsys(tmp_path))
        chat = memory.conversation("watcher")
        assert [each.type for each in chat.messages] == ["system", "human", "ai", "tool", "human", "human"]
        assert chat.messages[2].tool_calls[0]["args"] == {"at": "pond"}
        assert chat.messages[3].tool_call_id == "call-1"
        assert memory.conversations()[0].last_at == datetime.fromtimestamp(1_700_000_000.5, UTC)
        saved = json.loads((path := tmp_path / "watcher.json").read_text())
        saved["messages"] += [{"role": "assistant", "content": "At the pond."}]
        path.write_text(json.dumps(saved))
        assert memory.import_from("marsys", path).added == {"messages": 1}

    def test_facts_become_records_and_invalid_data_is_reported(self, memory, tmp_path):
        path = tmp_path / "x.json"
        fact = {"role": "user", "content": "Fact (user): Ana lives in Porto."}
        path.write_text(json.dumps({"memory_type": "kg", "messages": [fact], "timestamp": 1_700_000_000}))
        assert memory.import_from("marsys", path).added == {"memories": 1}
        [record] = memory.layers().archival.all()
        assert (record.content, record.tags) == (fact["content"], ("fact", "role:user"))
        for text in ("[]", "{}", '{"messages": 7}', '{"messages": [], "timestamp": "soon"}'):
            path.write_text(text)
            with pytest.raises(InvalidInput):
                memory.import_from("marsys", path)
        path.write_text(json.dumps({"messages": [{"role": "user", "content": "Hi"}, {"content": "Who?"}]}))
        report = memory.import_from("marsys", path)
        assert (report.added, report.left, memory.conversations()) == ({}, 2, [])


class TestOpus:
    def test_entries_keep_kinds_and_times_junk_is_judged(self, memory, tmp_path):
        memory.import_from("opus", opus(tmp_path))
        first, todo, junk = memory.audit.last(5, include_junk=True)
        assert (first.prompt, first.reply, first.conversation_id) == ("Where are herons?", "At the pond.", "a")
        assert first.created_at == datetime.fromtimestamp(1_700_000_000, UTC)
        assert (todo.kind, bool(junk.junk)) == ("todo", True)
        assert memory.audit.verify().ok

    def test_damaged_file_imports_readable_entries_without_copies(self, memory, tmp_path):
        (tmp_path / "their").mkdir()
        path = opus(tmp_path / "their")
        path.write_text(path.read_text()[:-30])
        report = memory.import_from("opus", path)
        assert (report.added, report.left) == ({"entries": 2}, 1)
        assert "No entry can be read at character" in report.left_out[0].why
        assert [each.name for each in path.parent.iterdir()] == ["agent_memory.json"]
