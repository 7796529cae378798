"""Moving from a SQLite file with tables of core, recall and archival memory: every branch, in the order of descent.

Run it with `python examples/move_from_memory_tables.py`. It needs no extra and no key. The tables are those that such
systems publish; where yours have other names, only `move` has to know.
"""

import json
import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from langchain_agentmem import AgentMemory

OLD = """
create table branches (id text primary key, parent_id text, node_name text, created_at real);
create table core_memory (branch_id text, key text, value text, importance integer, ttl integer);
create table recall_memory (branch_id text, event_type text, content text, timestamp real);
create table archival_memory (id text primary key, branch_id text, content text, tags_json text, created_at real);
insert into branches values ('b1', null, 'root', 1), ('b2', 'b1', 'faster loops', 2), ('b3', 'b1', 'less memory', 3);
insert into core_memory values ('b1', 'goal', 'Solve it in 10 s.', 5, null),
    ('b2', 'goal', 'Solve it in 10 s.', 5, null), ('b2', 'best', '12 s with OpenMP', 4, null),
    ('b3', 'goal', 'Solve it in 10 s.', 5, null);
insert into recall_memory values ('b1', 'phase_complete', 'The baseline takes 40 s.', 1717318800),
    ('b2', 'execution_result', 'OpenMP with 8 threads: 12 s.', 1717322400);
insert into archival_memory values ('a1', 'b2', 'Static scheduling wins over dynamic.', '["openmp"]', 1717322500);
"""


def move(old: sqlite3.Connection, memory: AgentMemory) -> None:
    """Parents come before their children, so that a fork sees what its parent had."""
    old.row_factory = sqlite3.Row
    names = {row["id"]: row["node_name"] for row in old.execute("select * from branches")}
    for branch in old.execute("select * from branches order by created_at").fetchall():
        of, name = (branch["id"],), branch["node_name"]
        parent = names.get(branch["parent_id"])
        layers = memory.layers(parent).fork(name) if parent else memory.layers(name)
        known = layers.core.get()
        for row in old.execute("select * from core_memory where branch_id = ?", of):
            if known.get(row["key"]) != row["value"]:  # the old fork had copied the others
                ends = datetime.fromtimestamp(row["ttl"], UTC) if row["ttl"] else None
                layers.core.set(row["key"], row["value"], importance=row["importance"], ttl=ends)
        for row in old.execute("select * from recall_memory where branch_id = ? order by timestamp", of):
            layers.recall.append(row["event_type"], row["content"], at=datetime.fromtimestamp(row["timestamp"], UTC))
        for row in old.execute("select * from archival_memory where branch_id = ? order by created_at", of):
            layers.archival.write(row["content"], tags=json.loads(row["tags_json"] or "[]"))


def main(folder: Path) -> None:
    with AgentMemory(folder / "agent.db") as memory:
        with closing(sqlite3.connect(folder / "old.db")) as old:
            old.executescript(OLD)
            move(old, memory)

        root, faster = memory.layers("root"), memory.layers("faster loops")
        print(root.tree())
        print("root: ", root.core.get())
        print("child:", faster.core.get())
        for event in faster.recall.recent():
            print(f"  {event.created_at:%d %B %Y %H:%M} {event.kind}: {event.content}")
        [found] = faster.archival.search("Which scheduling is best?")
        print("found:", found.content, found.tags, "because of", found.why)
        print("a sibling sees nothing of it:", memory.layers("less memory").archival.search("scheduling"))
        print("--- what goes into a prompt")
        print(faster.format_for_prompt("scheduling"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
