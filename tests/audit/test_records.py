"""Stored audit entries are read back unchanged and in order, and take little space."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_rows, audit_store
from langchain_agentmem.audit.audit_entry import KINDS, AuditEntry
from langchain_agentmem.audit.audit_report import make_report
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.base.namespaces import path_range
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.message import Message
from langchain_agentmem.storage.queries import load_queries
from langchain_agentmem.threads.value_store import MOST_RANGES, to_ranges

from .entries import BEGIN, add, call, entry, read, without_ids, write

pytestmark = pytest.mark.verified

EVERYWHERE = path_range(())
ALL_KINDS = {
    "exchange": {"extra": {"of": ["a", "b"], "share": 0.5, "when": BEGIN, "raw": b"\x00\xff", "pair": (1, 2)}},
    "call": {"model": "m-1", "input_tokens": 12, "output_tokens": 3, "duration": 0.25, "run_id": "r", "thread_id": "t"},
    "todo": {"status": "open"},
    "reflection": {"conversation_id": "self-reflection"},
    "reference": {"title": "Rules"},
}


def ids(entries):
    return [each.id for each in entries]


def settle(memory):
    write(memory, audit_store.settle)


@pytest.fixture(params=[False, True], ids=["waiting", "settled"])
def settled(request):
    """What was just added is read alike, whether it waits for the indexes or has entered them."""
    return request.param


@pytest.mark.sqlite_suffices
class TestStoredEntries:
    def test_every_field_of_every_kind_round_trips(self, memory):
        for kind in KINDS:
            fields = {"parent_run_id": "p", "error": "none", "junk": ("rule", "other"), **ALL_KINDS[kind]}
            kept = entry(kind=kind, namespace=("team", "ana"), **fields)
            add(memory, kept, path="team\x1fana\x1f")
            assert read(memory, audit_store.get, "team\x1fana\x1f", kept.id) == kept

    def test_times_are_converted_to_utc(self, memory):
        at = datetime(2026, 5, 1, 12, 0, tzinfo=timezone(timedelta(hours=2)))
        [kept] = add(memory, entry(created_at=at))
        [found] = read(memory, audit_store.load_last, "", 1)
        assert (found.created_at, found.created_at.tzinfo, kept.created_at.hour) == (at, UTC, 10)
        assert entry(created_at=datetime(2026, 5, 1)).created_at == datetime(2026, 5, 1, tzinfo=UTC)

    def test_invalid_entry_is_rejected(self):
        for wrong in (
            {"kind": "message"}, {"kind": "todo"}, {"status": "open"}, {"kind": "todo", "status": "later"},
        ):  # fmt: skip
            with pytest.raises(InvalidInput):
                AuditEntry(**{"id": "a", "kind": "exchange", "prompt": "", "reply": "", "created_at": BEGIN, **wrong})

    def test_unstorable_entry_adds_nothing(self, memory):
        with pytest.raises(InvalidInput, match="object"):
            write(memory, audit_store.add, "", [EntryDraft(entry()), EntryDraft(entry(extra={"it": object()}))])
        stats = memory.admin.stats()
        assert (read(memory, audit_store.load_head).sequence, stats["audit"], stats["namespaces"]) == (0, 0, 0)


@pytest.mark.sqlite_suffices
class TestLastEntries:
    def test_last_entries_are_read_through_an_index(self, memory, raw):
        if memory.database.engine.dialect != "sqlite":
            return
        sql = load_queries("sqlite")
        for name in ("audit_newest", "audit_conversation_newest", "audit_next", "audit_conversation_next"):
            plan = raw(
                memory, f"explain query plan {sql[name]}",
                path="", kind="call", hidden=0, before=9, after=0, limit=5, conversation="c",
            )  # fmt: skip
            told = " ".join(row["detail"] for row in plan)
            assert "INDEX audit_" in told, told
            assert not re.search("TEMP B-TREE|SCAN", told), told


@pytest.mark.sqlite_suffices
class TestModelCalls:
    def test_call_round_trips_with_messages_and_custom_prompt(self, memory):
        said = replace(call(["hello"], "hi"), prompt="(cut) hel", reply="(cut) h")
        two = call(["hello", "hi there", "and now?"], "now this", conversation_id="c", error="none")
        add(memory, said, two)
        assert list(map(without_ids, read(memory, audit_store.load_last, "", 2))) == [
            without_ids(said),
            without_ids(two),
        ]

    def test_growing_history_costs_only_new_messages(self, memory):
        def stored():
            sizes = read(memory, make_report, *EVERYWHERE, now=BEGIN, rules=()).size
            return memory.admin.stats()["contents"], sizes

        def cost(turns):
            history, before = [], stored()
            for n in range(turns):
                history.append(f"{turns} {n} " + "a longer question " * 10)
                made = add(memory, call(history, f"{turns} answer {n} " * 20, conversation_id=f"c{turns}"))
                history.append(made[0].reply)
            assert list(map(without_ids, read(memory, audit_store.load_last, "", 1))) == list(map(without_ids, made))
            return [after - first for after, first in zip(stored(), before, strict=True)]

        few, few_bytes = cost(25)
        many, many_bytes = cost(100)
        assert (few, many) == (50, 200)
        assert many_bytes < 4.4 * few_bytes

    def test_alternating_agents_store_few_ranges(self, memory, raw):
        one, two = ["system one"], ["system two"]
        for n in range(60):
            for agent in (one, two):
                agent += [f"question {n} of {agent[0]}", f"answer {n} of {agent[0]}"]
                said = [Message(role="user", content=text, message_id=f"{text}") for text in agent]
                add(memory, entry(agent[-2], agent[-1], kind="call", messages=tuple(said), conversation_id="c"))
        stored = raw(memory, "select messages from audit order by sequence")
        assert max(len(to_ranges(audit_rows.part_numbers(row["messages"]))) for row in stored) <= MOST_RANGES
        [rows] = raw(memory, "select count(*) as rows from part")
        assert rows["rows"] < 6 * 242
        found = read(memory, audit_store.load_last, "", 120)
        assert [each.text for each in found[-1].messages] == two
        assert [each.text for each in found[-2].messages] == one

    def test_messages_of_conversations_are_not_stored_again(self, memory):
        said = Message(role="user", content="what we said " * 50, message_id="m")
        memory.conversation("c").add(said)
        before = memory.admin.stats()["contents"]
        add(memory, entry(said.text, "fine", kind="call", messages=(said,), conversation_id="c"))
        assert memory.admin.stats()["contents"] == before
        memory.conversation("c").reset_memory()
        [kept] = read(memory, audit_store.load_last, "", 1)
        assert [each.text for each in kept.messages] == [said.text]

    def test_erasure_frees_unreferenced_content(self, memory):
        long = ["q0", "a0", "q1", "a1", "q2"]
        add(
            memory,
            call(long[:1], "a0", conversation_id="c", thread_id="t1"),
            call(long[:3], "a1", conversation_id="c", thread_id="t2"),
            call(long, "a2", conversation_id="c", thread_id="t3"),
        )
        assert memory.admin.stats()["contents"] == 6
        assert write(memory, audit_store.erase, *EVERYWHERE, "t3") == 1
        assert memory.admin.stats()["contents"] == 4
        assert write(memory, audit_store.erase, *EVERYWHERE, "t1") == 1
        assert memory.admin.stats()["contents"] == 4
        [left] = read(memory, audit_store.load_last, "", 9)
        assert [each.text for each in left.messages] == ["q0", "a0", "q1", "a1"]
        assert memory.admin.verify().ok
        assert write(memory, audit_store.erase, *EVERYWHERE, "c") == 1
        assert {memory.admin.stats()[each] for each in ("contents", "namespaces", "audit")} == {0}


@pytest.mark.sqlite_suffices
class TestSearch:
    def test_entries_are_found_only_by_audit_search(self, memory, settled):
        memory.conversation("c").add(role="user", content="The heron nests in the reeds.")
        [kept] = add(memory, entry("Where does the heron nest?", "In the reeds.", conversation_id="c"))
        if settled:
            settle(memory)
        assert [each.kind for each in memory.search("heron")] == ["message"]
        [found] = memory.search("heron", kinds=["audit"])
        assert (found.kind, found.id, found.value, found.conversation_id) == ("audit", kept.id, kept, "c")
        assert found.text == "Where does the heron nest?\nIn the reeds."
        assert {each.kind for each in memory.search("heron", kinds=["audit", "message"])} == {"audit", "message"}
        assert len(memory.search("heron", kinds=["audit"], conversation_id="c")) == 1
        assert memory.search("heron", kinds=["audit"], conversation_id="d") == []
        assert memory.search("heron", kinds=["audit"], namespace=("other",)) == []

    def test_call_is_indexed_by_newest_question_and_reply(self, memory):
        add(memory, call(["about herons", "they wade", "about egrets"], "they are white"))
        assert len(memory.search("egrets", kinds=["audit"])) == len(memory.search("white", kinds=["audit"])) == 1
        assert memory.search("herons", kinds=["audit"]) == []

    def test_pending_entries_are_indexed_in_batches(self, memory, monkeypatch, raw):
        monkeypatch.setattr(audit_store, "INDEX_THRESHOLD", 4)
        add(memory, *(entry(f"word{n}", "a") for n in range(10)))
        assert raw(memory, "select count(document_id) as n from audit") == [{"n": 8}]
        assert read(memory, audit_store.has_unindexed)
        assert len(memory.search("word9", kinds=["audit"])) == 1
        assert not read(memory, audit_store.has_unindexed)

    def test_entries_are_never_embedded(self, url):
        asked = []

        def embed(texts):
            asked.extend(texts)
            return [[1.0, 0.0] for _ in texts]

        with AgentMemory(url) as memory:
            add(memory, entry("the heron before", "wades"))
            settle(memory)
        with AgentMemory(url, index={"dims": 2, "embed": embed}) as memory:
            add(memory, entry("the heron after", "wades"))
            settle(memory)
            memory.conversation("c").add_user_message("A message is embedded.")
            memory.settle()
            assert asked == ["A message is embedded."]
            assert len(memory.search("heron", kinds=["audit"])) == 2
            assert memory.admin.verify().ok

    def test_reindexing_includes_the_trail(self, url, monkeypatch):
        from langchain_agentmem.search import analysis

        with AgentMemory(url) as memory:
            add(memory, entry("the heron", "wades"))
            settle(memory)
        monkeypatch.setattr(analysis, "VERSION", analysis.VERSION + 1)
        with AgentMemory(url) as memory:
            assert len(memory.search("heron", kinds=["audit"])) == 1
            assert memory.admin.verify().ok
