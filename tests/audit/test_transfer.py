"""An audit trail is exported from one database and imported into another, on either engine."""

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_store
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.base.namespaces import path_range
from langchain_agentmem.errors import DatabaseUnreadable
from tests.conftest import ENGINES

from .entries import BEGIN, add, call, entry, entry_with_mark, read, todo, versions, write

EVERYWHERE = path_range(())


def fill(memory):
    history = ["hello", "hi", "more", "less", "again"]
    add(
        memory,
        entry("the heron", "nests", conversation_id="c", junk=("filler",), extra={"raw": b"\0"}),
        call(history[:1], "hi", conversation_id="c", thread_id="t", model="m", input_tokens=3),
        call(history[:3], "less", conversation_id="c"),
    )
    add(memory, call(history, "bye"), path="team\x1f")
    add(memory, todo("fix it"), mark="fix it")
    for text in ("old rules", "new rules"):
        draft = EntryDraft(entry("[REFERENCE] Rules", text, kind="reference", title="Rules"), "rules")
        write(memory, audit_store.put_reference, "", [draft])
    add(memory, entry("gone", "away", conversation_id="gone"))
    write(memory, audit_store.erase, *EVERYWHERE, "gone")
    write(memory, audit_store.archive, *EVERYWHERE, 2**62, limit=2)


def contents_of(memory):
    shown = {path: read(memory, audit_store.load_last, path, 99, include_junk=True) for path in ("", "team\x1f")}
    return shown, write(memory, versions, "rules")


@pytest.fixture
def exported(memory, tmp_path):
    fill(memory)
    path = tmp_path / "export.jsonl"
    assert memory.export(path).audit == 7
    return path


@pytest.mark.sqlite_suffices
def test_a_damaged_message_is_not_exported(memory, raw, tmp_path):
    fill(memory)
    raw(memory, "update content set body = :body where id = (select min(id) from content)", body=b"{}")
    with pytest.raises(DatabaseUnreadable, match="damaged"):
        memory.export(tmp_path / "export.jsonl")
    assert list(tmp_path.glob("*export*")) == []


@pytest.mark.sqlite_suffices
class TestTransfer:
    def test_import_is_complete_and_idempotent(self, memory, exported, new_database, pytestconfig):
        for kind in ENGINES if pytestconfig.option.full else ["sqlite"]:
            self.arrives(memory, exported, new_database(kind))

    @staticmethod
    def arrives(memory, exported, url):
        with AgentMemory(url) as there:
            add(there, entry("was here", "before"))
            head = read(there, audit_store.load_head)
            assert there.import_(exported).audit == 7
            assert there.import_(exported).audit == 0
            shown, versions = contents_of(there)
            expected, expected_versions = contents_of(memory)
            assert shown[""][1:] == expected[""]
            assert (shown["team\x1f"], versions) == (expected["team\x1f"], expected_versions)
            report = read(there, audit_store.verify, head)
            assert (report.problems, report.entries, report.erased) == ((), 8, 0)
            assert there.admin.verify().ok
            assert there.search("heron", kinds=["audit"]) == []
            assert there.search("hello", kinds=["audit"], namespace=("team",)) == []
            assert len(there.search("bye", kinds=["audit"], namespace=("team",))) == 1
            assert write(there, audit_store.add_todos, "", [EntryDraft(todo("fix it"), "fix it")]) == []
            assert there.erase(namespace=()).audit == 8
            assert there.admin.stats()["contents"] == 0

    def test_newer_reference_stays_current(self, exported, new_database):
        def reference(text, at):
            one = entry("[REFERENCE] Rules", text, kind="reference", title="Rules", created_at=at)
            return EntryDraft(one, "rules")

        for at, shown in ((BEGIN.replace(year=2030), "ours"), (BEGIN.replace(year=2020), "new rules")):
            with AgentMemory(new_database("sqlite")) as there:
                write(there, audit_store.put_reference, "", [reference("ours", at)])
                there.import_(exported)
                assert write(there, entry_with_mark, "", "reference", "rules").reply == shown
                assert [each.reply for each in read(there, audit_store.load_last, "", 9, kinds=["reference"])] == [
                    shown
                ]
                assert len(write(there, versions, "rules")) == 3
                assert there.admin.verify().ok

    def test_messages_of_known_entries_leave_no_orphans(self, exported, new_database):
        with AgentMemory(new_database("sqlite")) as there:
            there.import_(exported)
            before = there.admin.stats()["contents"]
            there.erase(thread_id="t")
            assert there.import_(exported).audit == 1
            assert there.admin.stats()["contents"] == before
            assert there.admin.verify().ok
