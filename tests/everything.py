"""A database that holds something of every kind, so that nearly every table has rows."""

from __future__ import annotations

from datetime import UTC, datetime

from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.audit import audit_store as audit
from langchain_agentmem.audit.audit_entry import AuditEntry
from langchain_agentmem.audit.audit_rows import EntryDraft
from langchain_agentmem.compaction import ManagedMemoryConfig
from langchain_agentmem.messages.message import Message
from langchain_agentmem.storage.background import Lease, TaskKey
from tests.threads.filled import fill as fill_saver
from tests.upkeep.test_integrity import fill as talk
from tests.word_embeddings import WordEmbeddings

from .rewinding import test_care as remembered

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
DIMS = 16


def fill(memory: AgentMemory) -> None:
    """Fill a memory."""
    talk(memory)
    remembered.fill(memory)
    fill_saver(memory.checkpointer)
    memory.byte_store().mset([("k\ud800", b"value"), ("a" * 2000, b"\0" * 2000)])
    memory.store.put(("docs", "ana"), "one", {"text": "Ana grows quinces", "n": 1.5}, ttl=60.0)
    memory.store.put(("docs", "ana"), "read", {"text": "Ana grows medlars"})
    with memory.written_by("tool", "web_search"):
        memory.store.put(("docs", "ana"), "read", {"text": "Ana grows figs"})
    facts = memory.facts("user-42", ("a",))
    facts.add_fact("user", "Ana", "lives in", "Lisbon", valid_from=datetime(2024, 1, 8, tzinfo=UTC), source="m1")
    facts.add_fact("user", "Ana", "lives in", "Porto", valid_from=datetime(2024, 4, 1, tzinfo=UTC))
    memory.corrections.core("city", "Porto \0", by="Maria", namespace=("a",), branch="user-42")
    asked = Message(role="user", content="what was asked", message_id="m")
    for number in range(140):  # some are settled, the others are not
        entry = AuditEntry(id=f"a{number}", kind="call", prompt="what was asked", reply=f"answer {number}",
                           created_at=WHEN, conversation_id="c", messages=(asked,))  # fmt: skip
        memory.database.write("audit", lambda tx, entry=entry: audit.add(tx, "", [EntryDraft(entry, "what was asked")]))
    config = ManagedMemoryConfig(threshold_tokens=400, token_counter="estimate")
    managed = memory.managed_conversation("managed", config=config)
    for number in range(60):
        managed.add(role="user", content=f"number {number} of many things that were said here about herons and quinces")
    asked_now = [HumanMessage("Herons?", id="q")]
    memory.inject("user-42", namespace=("a",)).invoke(asked_now, {"configurable": {"thread_id": "c"}})
    assert Lease(memory.database.background, TaskKey("", "tidy", "whatever")).take()


def with_vectors(url: str) -> AgentMemory:
    """The memory at a place, which embeds."""
    return AgentMemory(url, index={"embed": WordEmbeddings(DIMS), "dims": DIMS})
