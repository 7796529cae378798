"""Import a SQLite file with tables of core, recall and archival memory.

Run it with `python examples/move_from_memory_tables.py`. It needs no extra and no key. The tables are those of
MemGPT-style systems. Every branch is imported. The branch without a parent becomes "main". A fork begins with
the memory that its parent had at the time of the fork.
"""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from langchain_agentmem import AgentMemory

OLD = """
create table branches (id text primary key, parent_id text, node_name text, created_at real);
create table core_memory (branch_id text, key text, value text, importance integer, ttl integer, updated_at real);
create table recall_memory (branch_id text, event_type text, content text, timestamp real);
create table archival_memory (id text primary key, branch_id text, content text, tags_json text, created_at real);
insert into branches values ('b1', null, 'root', 1717318000), ('b2', 'b1', 'faster loops', 1717320000),
    ('b3', 'b1', 'less memory', 1717321000);
insert into core_memory values ('b1', 'goal', 'Solve it in 10 s.', 5, null, 1717318000),
    ('b2', 'goal', 'Solve it in 10 s.', 5, null, 1717320000), ('b2', 'best', '12 s with OpenMP', 4, null, 1717322400),
    ('b3', 'goal', 'Solve it in 10 s.', 5, null, 1717321000);
insert into recall_memory values ('b1', 'phase_complete', 'The baseline takes 40 s.', 1717318800),
    ('b2', 'execution_result', 'OpenMP with 8 threads: 12 s.', 1717322400);
insert into archival_memory values ('a1', 'b2', 'Static scheduling wins over dynamic.', '["openmp"]', 1717322500);
"""


def main(folder: Path) -> None:
    with AgentMemory(folder / "agent.db") as memory:
        with closing(sqlite3.connect(folder / "old.db")) as old:
            old.executescript(OLD)
        print(
            "moved:", dict(memory.import_from("memgpt", folder / "old.db").added)
        )  # or: agentmem import-from agent.db memgpt old.db

        root, faster = memory.layers(), memory.layers("faster loops")
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
