"""Statistics of a database: `memory.admin.stats()`."""

import inspect
import json
import os
import re

import numpy as np
import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage import sqlite
from langchain_agentmem.upkeep.admin import Admin, tables_by_part
from tests.checkpoints.graphs import Line

TABLES = {
    "sqlite": "select name from sqlite_master where type = 'table'",
    "postgres": "select tablename as name from pg_tables where schemaname = 'agentmem'",
}


@pytest.mark.sqlite_suffices
class TestParts:
    def test_every_table_belongs_to_one_part(self, memory, raw):
        dialect = memory.database.engine.dialect
        tables = {row["name"] for row in raw(memory, TABLES[dialect])}
        placed = [table for part in tables_by_part().values() for table in part]
        assert tables - set(placed) == set(), "say in `tables` of a PART what these tables are part of"
        assert len(placed) == len(set(placed))

    def test_parts_sum_to_the_total_size(self, memory):
        fill(memory)
        told = memory.admin.stats()
        assert sum(told["bytes_by_part"].values()) == told["bytes"] - told["free_bytes"]
        assert set(told["bytes_by_part"]) == set(tables_by_part())
        assert min(told["bytes_by_part"].values()) >= 0
        assert told["bytes_by_part"]["layers"] > 0

    def test_stored_data_counts_in_its_part(self, memory):
        text = "".join(map(chr, np.random.default_rng(7).integers(0x4E00, 0x9000, 300_000)))
        for part, store in (
            ("blobs", lambda: memory.byte_store().mset([("a", os.urandom(1_000_000))])),
            ("items", lambda: memory.store.put(("a",), "k", {"text": text[:100_000]})),
            ("shared content", lambda: memory.conversation("c").add(role="user", content=os.urandom(500_000).hex())),
        ):
            before = memory.admin.stats()["bytes_by_part"]
            store()
            after = memory.admin.stats()["bytes_by_part"]
            assert after[part] > before[part] + 100_000, part

    def test_size_is_other_without_dbstat(self, new_database, monkeypatch):
        with AgentMemory(new_database("sqlite")) as memory:
            failing = {"table_sizes": ("select name, bytes from no_dbstat_here", tuple)}
            get = sqlite.sqlite_query
            monkeypatch.setattr(sqlite, "sqlite_query", lambda name: failing.get(name) or get(name))
            memory.byte_store().mset([("a", os.urandom(1_000_000))])
            told = memory.admin.stats()
            assert sum(told["bytes_by_part"].values()) == told["bytes"] - told["free_bytes"]
            assert told["bytes_by_part"]["other"] > 1_000_000


def fill(memory):
    chat = memory.conversation("c")
    for n in range(50):
        chat.add(role="user", content=f"What is {n}? " * 20)
    Line(memory.checkpointer).put({"a": 1, "messages": [HumanMessage("hello", id="1")]})
    memory.layers("b").archival.write("The sky is blue.")
    memory.facts("b").add_fact("user", "Ana", "lives in", "Lisbon")
    memory.byte_store().mset([("a", b"1" * 10_000)])
    memory.conversation("d").add(role="user", content="x" * 50_000)
    memory.conversation("d").clear()


@pytest.mark.sqlite_suffices
class TestReport:
    def test_stats_match_their_documentation(self, memory):
        fill(memory)
        told = memory.admin.stats()
        assert {type(value) for name, value in told.items() if name != "bytes_by_part"} == {int}
        described = re.findall(r"\w+", inspect.getdoc(Admin.stats))
        assert set(told) <= set(described)
        assert json.loads(json.dumps(told)) == told
