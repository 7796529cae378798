"""Queries of layered memory use indexes: reading does not depend on the amount of other memory."""

import json

import pytest

from langchain_agentmem.layers.layered_memory import LayeredMemory
from tests.support.plans import plan_of

pytestmark = pytest.mark.sqlite_suffices

NAMED = {"path": "", "name": "user 7"}
QUERY_PARAMETERS = {
    "current_memory": {"kind": "event"},
    "newest_memory": {"kind": "event", "label": None, "limit": 10},
    "count_memory": {"kind": "event"},
    "memory_of_keys": {"kind": "event", "keys": json.dumps(["id-1", "id-2"])},
    "visible_memory": {"ids": json.dumps([1, 2, 3])},
    "expired_memory": {"limit": 20},
    "branch_lineage": {"with_bases": 1},
    "branch_memory": {"kind": "event", "up_to": 1},
    "branch_memory_of_keys": {"kind": "event", "up_to": 1, "keys": json.dumps(["id-1", "id-2"])},
    "branch_sizes": {"kind": "core", "up_to": 1, "keys": json.dumps(["k"])},
    "named_branch": NAMED,
    "named_branch_memory": NAMED | {"kind": "core", "shared": 1},
    "named_branch_memory_of_key": NAMED | {"kind": "core", "shared": 1, "key": "k"},
    "advance_named_branch": NAMED | {"now": 1},
    "versions_to_end": {"keys": json.dumps([("core", "k")]), "scope": 1, "now": 1, "checkpoints": 1},
}


@pytest.fixture
def view(memory):
    """Return the view of a fork in a database in which others have much more memory."""
    for number in range(20):
        LayeredMemory(memory, f"user {number}").write(core={"k": "v"}, recall=["event"] * 25)
    fork = LayeredMemory(memory, "user 7").fork("fork")
    fork.recall.append("k", "event")
    return memory.database.engine.read(lambda tx: fork._context.point.view(tx, memory.database.now()))


def test_queries_use_indexes_instead_of_table_scans(memory, raw, view):
    branch, position = view.branches[0][:2]
    here = {**view.parameters(), "at": view.time, "branch": branch, "position": position}
    for name, more in QUERY_PARAMETERS.items():
        plan = plan_of(memory, raw, name, here | more)
        if memory.database.engine.dialect == "sqlite":
            tables = ("memory", "m", "n", "b")
            read = [line for line in plan if line.startswith("SCAN") and line.split()[1] in tables]
            read += [line for line in plan if "INDEX memory_" in line and line.endswith("(branch_id=?)")]
            # Old versions that a fork still shows are behind the index that current memory is read by.
            passed_over = [line for line in plan if "memory_current (branch_id=? AND kind=? AND until>?)" in line]
            assert passed_over or name != "current_memory"
        else:  # of a page of branches a scan is the quicker way: only the table of memory counts
            read = [line for line in plan if "Seq Scan on memory" in line]
        assert plan, name
        assert read == [], name
