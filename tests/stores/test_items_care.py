"""Verification, erasure, export and import of items."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from langgraph.store.base import PutOp

from langchain_agentmem import AgentMemory

pytestmark = pytest.mark.sqlite_suffices

NS = ("users", "ana")


@pytest.fixture
def filled(memory):
    memory.store.put(NS, "home", {"city": "Lisbon", "at": datetime(2026, 5, 1, tzinfo=UTC), "pair": (1, "x")})
    memory.store.put(NS, "named", {"title": "apples", "body": "pears"}, index=["title"])
    memory.store.put(NS, "hidden", {"text": "plums"}, index=False)
    memory.store.put(("users", "bob"), "soon", {"text": "mangos"}, ttl=10)
    memory.store.put(("other",), "home", {"city": "Porto \ud800"})
    return memory


def found(memory, question):
    return [item.key for item in memory.store.search((), query=question, refresh_ttl=False)]


def everything(memory):
    return [item.dict() for item in memory.store.search((), limit=100, refresh_ttl=False)]


@pytest.fixture
def another(new_database, clock, url):
    with AgentMemory(new_database("postgres" if url.startswith("postgres") else "sqlite"), clock=clock) as memory:
        yield memory


def test_verify_finds_damage(filled, raw, tmp_path):
    for change, says in (
        ("document_id = 7", "is not in the index"),
        ("document_id = null", "of the search index has no owner"),
    ):
        raw(filled, f"update item set {change} where key = 'named'")
        assert says in str(filled.admin.verify().problems)
    raw(filled, "update item set value = :value where key = 'named'", value=b'{"city": "Porto"}')
    assert re.search(r"'named'.*is damaged", str(filled.admin.verify().problems))
    with pytest.raises(Exception, match=r"'named'.*is damaged"):
        filled.export(tmp_path / "all.jsonl")
    assert not (tmp_path / "all.jsonl").exists()


class TestErasure:
    def test_namespace_erasure_removes_its_items(self, filled, raw):
        report = filled.erase(namespace=("users",))
        assert report.items == 4
        assert [item.key for item in filled.store.search(())] == ["home"]
        assert found(filled, "Lisbon apples mangos") == []
        assert found(filled, "Porto") == ["home"]
        assert filled.admin.verify().ok
        assert raw(filled, "select path from namespace") == [{"path": "other\x1f"}]
        if filled.database.engine.dialect == "sqlite":
            stored = Path(filled.database.engine.path).read_bytes()
            assert b"Porto" in stored
            for word in (b"Lisbon", b"lisbon", b"apples", b"mangos", b"plums", b"ana\x1f"):
                assert word not in stored

    def test_conversation_and_thread_erasure_keep_items(self, filled):
        filled.conversation("c", NS).add_user_message("Hello")
        assert filled.erase(namespace=NS, conversation_id="c").items == 0
        assert filled.erase(namespace=NS, thread_id="t").items == 0
        assert filled.admin.stats()["items"] == 5

    def test_erase_reports_other_namespaces_of_the_user(self, url):
        with AgentMemory(url, namespace=("users", "{user_id}")) as memory:
            others = (("adam", "facts"), ("a%a",))
            for place in (("ada", "facts"), ("memories", "ada"), ("users", "ada", "notes"), *others):
                memory.store.put(place, "k", {"text": "a fig tree"})
            memory.conversation("ada", ("bob", "ada")).add_user_message("This is no item.")
            ada, elsewhere = ("users", "ada"), (("ada", "facts"), ("memories", "ada"))
            assert memory.within(ada).erase(dry_run=True).other_namespaces == (), "nothing leads out of it"
            for report in (memory.erase(namespace=ada, dry_run=True), memory.erase(namespace=ada)):
                assert (report.items, report.other_namespaces) == (1, elsewhere)
                assert report.counts == {**dict.fromkeys(report.counts, 0), "items": 1}
            assert memory.erase(namespace=ada, thread_id="t").other_namespaces == ()
            assert memory.erase(namespace=("users", "a%"), dry_run=True).other_namespaces == ()
            assert memory.erase(namespace=("ada",)).other_namespaces == ()
            assert memory.erase(namespace=ada).other_namespaces == (("memories", "ada"),)
            memory.store.batch([PutOp((f"n{i}", "ada"), "k", {"text": "many"}) for i in range(12)])
            assert len(memory.erase(namespace=ada, dry_run=True).other_namespaces) == 10


class TestExportAndImport:
    def test_export_and_import_preserve_items(self, filled, another, clock, tmp_path):
        assert filled.export(tmp_path / "all.jsonl").items == filled.admin.verify().checked["items"] == 5
        assert another.import_(tmp_path / "all.jsonl").items == 5
        assert everything(another) == everything(filled)
        assert found(another, "Lisbon") == ["home"]
        assert found(another, "apples") == ["named"]
        assert found(another, "pears plums") == []
        assert another.admin.verify().problems == ()
        # And so does a time to live.
        clock.pass_time(minutes=8)
        assert another.store.get(("users", "bob"), "soon")
        clock.pass_time(minutes=8)
        assert another.store.get(("users", "bob"), "soon")
        clock.pass_time(minutes=11)
        assert another.store.get(("users", "bob"), "soon") is None

    def test_import_keeps_existing_items_and_is_idempotent(self, filled, another, tmp_path):
        filled.export(tmp_path / "all.jsonl")
        another.store.put(NS, "home", {"city": "Coimbra"})
        assert another.import_(tmp_path / "all.jsonl").items == 4
        assert another.import_(tmp_path / "all.jsonl").items == 0
        assert another.store.get(NS, "home").value == {"city": "Coimbra"}
        assert another.admin.verify().ok
