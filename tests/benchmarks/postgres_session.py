"""What our own session with PostgreSQL saves against psycopg's pipeline, and what statements without names cost.

    python tests/benchmarks/postgres_session.py [--rounds 500]

One transaction reads, writes eight rows, reads again and commits: through our session with prepared statements, through
the same without names, as behind a pooler, and through psycopg's own pipeline, which prepares too. Then a message is
appended, searched for, and a checkpoint put, directly and as behind a pooler. All take turns; medians count.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from unittest import mock

import psycopg
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from places import given_options, medians, postgres_server

from langchain_agentmem import AgentMemory
from langchain_agentmem.storage.postgres import prepare_query
from langchain_agentmem.storage.postgres_session import Connection, Session

WROTE = 8
WARM = 20
"""By then, what is prepared and cached is."""
INSERT = "insert into bench (id, said) values ({}, {}) on conflict (id) do update set said = excluded.said"
SELECT = "select id, said from bench where id >= {} order by id limit 10"


def ours(url: str, *, direct: bool) -> Callable[[], object]:
    """The transaction through our session."""
    session = Session(Connection.connect(url, autocommit=True))
    if direct:
        session.detect_pooler(60)
    insert, select = prepare_query(INSERT.format(":id", ":said")), prepare_query(SELECT.format(":id"))
    rounds = count()

    def transaction() -> None:
        first = next(rounds) % 100
        session.begin("public", write=True, lock_timeout=60, timeout=60)
        list(session.rows(session.execute(select, {"id": first})))
        for number in range(WROTE):
            session.execute(insert, {"id": first + number, "said": "said " * 20})
        list(session.rows(session.execute(select, {"id": first})))
        session.commit(wait=True)

    return transaction


def theirs(url: str) -> Callable[[], object]:
    """The same through psycopg's pipeline."""
    connection = psycopg.connect(url, autocommit=True, row_factory=psycopg.rows.dict_row, prepare_threshold=0)
    insert, select = INSERT.format("%(id)s", "%(said)s"), SELECT.format("%(id)s")
    rounds = count()

    def transaction() -> None:
        first = next(rounds) % 100
        with connection.pipeline(), connection.transaction():
            cursor = connection.cursor(binary=True)
            cursor.execute(select, {"id": first}).fetchall()
            for number in range(WROTE):
                cursor.execute(insert, {"id": first + number, "said": "said " * 20})
            cursor.execute(select, {"id": first}).fetchall()

    return transaction


def works(memory: AgentMemory, *, pooled: bool) -> dict[str, Callable[[], object]]:
    """What a memory does."""
    chat, numbers = memory.conversation(f"chat {pooled}"), count()
    last = {"configurable": {"thread_id": f"thread {pooled}", "checkpoint_ns": ""}}

    def append() -> None:
        chat.add_messages([HumanMessage(f"message {next(numbers)} of a heron at the pond")])

    def put() -> None:
        nonlocal last
        number = next(numbers)
        checkpoint = empty_checkpoint() | {"channel_values": {"n": number}, "channel_versions": {"n": number}}
        last = memory.checkpointer.put(last, checkpoint, {}, {"n": number})  # type: ignore[assignment,arg-type,typeddict-item]

    def append_many() -> None:
        chat.add_messages([HumanMessage(f"message {next(numbers)} of a heron at the pond") for _ in range(50)])

    return {
        "a message appended": append,
        "50 at once": append_many,
        "a search": lambda: memory.search("heron at the pond"),
        "a put": put,
    }


def main() -> None:
    rounds = given_options(__doc__, rounds=500).rounds
    with postgres_server() as url:
        with psycopg.connect(url) as connection:
            connection.execute("create table bench (id bigint primary key, said text)")
        acts = [ours(url, direct=True), ours(url, direct=False), theirs(url)]
        own, unnamed, psycopgs = medians(acts, rounds, warm=WARM)
        print(f"a transaction of {WROTE + 2} statements, ours with names      {own:7.0f} µs")
        print(f"  … without names                                  {unnamed:7.0f} µs   x{unnamed / own:.2f}")
        print(f"  … psycopg's pipeline                             {psycopgs:7.0f} µs   x{psycopgs / own:.2f}")
        with mock.patch.object(Session, "detect_pooler"):
            behind = AgentMemory(url)
        with AgentMemory(url) as direct, behind as pooled:
            ways = works(direct, pooled=False), works(pooled, pooled=True)
            for name in ways[0]:
                one, other = medians([way[name] for way in ways], rounds // 2, warm=WARM)
                print(f"{name:24} directly {one:7.0f} µs, as behind a pooler {other:7.0f} µs   x{other / one:.2f}")


if __name__ == "__main__":
    main()
