"""Corrections are exported, imported, erased and verified with everything else."""

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import DatabaseUnreadable
from tests.layers.test_corrections import ADA, BY, SHOWN, Thing, core, talk


class TestUpkeep:
    def fill(self, memory):
        for kind in SHOWN:
            Thing(memory, kind).correct("coffee")

    def test_imported_corrections_are_not_duplicated_and_can_be_undone(self, memory, new_database, tmp_path):
        self.fill(memory)
        memory.export(tmp_path / "all.jsonl")
        with AgentMemory(new_database("sqlite")) as other:
            for _ in range(2):
                other.import_(tmp_path / "all.jsonl")
                assert other.corrections.history() == memory.corrections.history()
            for made in other.corrections.history(namespace=ADA):
                undone = other.corrections.undo(made.id, by=BY, namespace=ADA)
                assert undone.after[SHOWN[made.kind]] == "tea"

    def test_erasing_a_thread_removes_corrections_of_its_memory(self, memory, raw):
        talk(memory, "one", "Lisbon")
        for city in ("Porto", "Faro"):
            made = memory.corrections.core("city", city, by=BY, namespace=ADA)
            memory.corrections.undo(made.id, by=BY, namespace=ADA)
        memory.corrections.core("city", "Lisbon", importance=5, by=BY, namespace=ADA)
        memory.erase(thread_id="one", namespace=ADA)
        assert (memory.corrections.history(), core(memory)) == ([], None)
        assert raw(memory, "select body from content") == []
        assert memory.admin.verify().ok

    def test_verify_reports_damaged_corrections(self, memory, raw):
        self.fill(memory)
        for body in ("{}", "["):
            raw(memory, "update memory set correction = :body where kind = 'core'", body=body)
            with pytest.raises(DatabaseUnreadable, match="damaged"):
                memory.corrections.history()
        assert any("cannot be read" in each for each in memory.admin.verify().problems)
        memory.erase(namespace=ADA)
        assert memory.admin.verify().ok
