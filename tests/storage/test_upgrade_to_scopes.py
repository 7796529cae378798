"""A database of before threads shared what they remember is upgraded, and shows each thread what it showed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from types import SimpleNamespace
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph

from langchain_agentmem import AgentMemory
from langchain_agentmem.rewinding.memory_rows import FOREVER
from langchain_agentmem.storage import engine, open_engine

NS = ("users", "ada")
BEFORE = 12
"""Migrations that a database of before had."""
COLUMNS = {
    "sqlite": "select m.name as tab, c.name as col from sqlite_master m, pragma_table_info(m.name) c "
    "where m.type = 'table' and m.name not like 'search_index%'",
    "postgres": "select table_name as tab, column_name as col from information_schema.columns "
    "where table_schema = 'agentmem'",
}
INDEXES = {
    "sqlite": "select name from sqlite_master where type = 'index' and sql is not null",
    "postgres": "select i.indexname as name from pg_indexes i where i.schemaname = 'agentmem' and not exists "
    "(select 1 from pg_constraint c where c.conname = i.indexname)",
}
TRIGGERS = "select name from sqlite_master where type = 'trigger'"


class State(TypedDict):
    said: str


def at(thread, namespace=NS, **more):
    return {"configurable": {"thread_id": thread, "agentmem_namespace": namespace, **more}}


def graph_of(memory):
    def note(state, config):
        layers, said = memory.layers(config), state["said"]
        layers.core.set("last", said)
        layers.core.set(f"about {said}", said)
        layers.core.delete("doomed")
        layers.recall.append("said", said)
        layers.archival.write(f"somebody said {said}")
        memory.facts(config).add_fact("user", "somebody", "said", said)
        return {"said": f"{said} again"}

    inner = StateGraph(State).add_node("inside", note).add_edge(START, "inside").compile()
    built = StateGraph(State).add_node("note", note).add_node("inner", inner)
    built = built.add_edge(START, "note").add_edge("note", "inner")
    return built.compile(checkpointer=memory.checkpointer)


def fill(memory):
    """Threads of two namespaces and of none: with forks, abandoned lines, a copy that went on, and main."""
    graph = graph_of(memory)
    for namespace in ((), NS, ("users", "bob")):
        memory.layers(namespace=namespace).core.set("doomed", "of main")
        memory.layers(namespace=namespace).core.set("last", "of main")
        memory.facts(namespace=namespace).add_fact("user", "main", "is", "here")
        for thread in ("t", "u"):
            for said in ("one", "two", "three"):
                graph.invoke({"said": f"{said} of {thread}"}, at(thread, namespace))
        early = list(graph.get_state_history(at("t", namespace)))[4].config
        graph.invoke({"said": "on a fork"}, early)
        graph.update_state(list(graph.get_state_history(at("u", namespace)))[2].config, {"said": "rewound"})
    memory.layers("named", NS).core.set("of", "a branch")


def views(memory):
    """What each thread's checkpoints show of its own line, and what scopes show."""
    seen: dict[Any, Any] = {}
    for namespace in ((), NS, ("users", "bob")):
        for thread in ("t", "u"):
            for found in memory.checkpointer.list(at(thread, namespace)):
                layers = memory.layers(found.config, scope="thread")
                facts = memory.facts(found.config, scope="thread")
                key = namespace, thread, found.config["configurable"]["checkpoint_id"]
                seen[key] = layers.read(), sorted(each.text for each in facts.as_of())
        shared = memory.layers(namespace=namespace)
        told = sorted(each.text for each in memory.facts(namespace=namespace).as_of())
        seen[namespace] = shared.core.get(), sorted(each.content for each in shared.recall.recent(limit=100)), told
    seen["named"] = memory.layers("named", NS).core.get()
    return seen


def counting(memory, raw):
    found = raw(memory, f"select id from memory where gone = {FOREVER} and scope_id is not null")
    return {row["id"] for row in found}


def downgrade(url, new_database, raw, monkeypatch):
    """Take out of a database what the migrations since have brought."""
    kind = "postgres" if url.startswith("postgresql://") else "sqlite"
    real = engine.migrations
    monkeypatch.setattr(engine, "migrations", lambda dialect: real(dialect)[:BEFORE])
    opened = open_engine(new_database(kind))
    monkeypatch.setattr(engine, "migrations", real)
    old = SimpleNamespace(database=SimpleNamespace(engine=opened, has_shards=False))
    with AgentMemory(url) as memory:
        now, then = ({(row["tab"], row["col"]) for row in raw(each, COLUMNS[kind])} for each in (memory, old))
        indexes, kept = ({row["name"] for row in raw(each, INDEXES[kind])} for each in (memory, old))
        tables = {tab for tab, _ in now} - {tab for tab, _ in then}
        for name in sorted(indexes - kept):
            raw(memory, f"drop index if exists {name}")
        if kind == "sqlite":
            triggers, before = ({row["name"] for row in raw(each, TRIGGERS)} for each in (memory, old))
            for name in sorted(triggers - before):
                raw(memory, f"drop trigger {name}")
        for tab, col in sorted(now - then):
            if tab not in tables:
                raw(memory, f"alter table {tab} drop column {col}")
        for tab in sorted(tables):
            raw(memory, f"drop table {tab}")
        for migration in real(kind)[BEFORE:]:
            raw(memory, f"delete from agentmem_migration where name = '{migration.name}'")
    opened.close()


@pytest.mark.slow("in every form")
@pytest.mark.bare
def test_threads_see_what_they_saw_and_scopes_what_counts(url, new_database, raw, monkeypatch):
    with AgentMemory(url) as memory:
        fill(memory)
        before, counted = views(memory), counting(memory, raw)
    downgrade(url, new_database, raw, monkeypatch)
    with AgentMemory(url) as memory:
        assert memory.verify().problems == ()
        assert counting(memory, raw) == counted
        assert views(memory) == before
        graph_of(memory).invoke({"said": "after"}, at("u"))
        assert memory.layers(namespace=NS).core.get()["last"] == "after again"
        assert memory.verify().problems == ()


@pytest.mark.slow("in every form")
@pytest.mark.bare
def test_ten_processes_may_upgrade_it_at_once(url, new_database, raw, monkeypatch):
    with AgentMemory(url) as memory:
        fill(memory)
        before = views(memory)
    downgrade(url, new_database, raw, monkeypatch)
    script = """
        import sys
        from langchain_agentmem import AgentMemory

        print("ready", flush=True)
        with AgentMemory(sys.stdin.readline().strip()) as memory:
            print(sorted(memory.layers(namespace=("users", "ada")).core.get().items()), flush=True)
    """
    given = [sys.executable, "-c", textwrap.dedent(script)]
    workers = [subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(10)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write(f"{url}\n")
        worker.stdin.flush()
    told = {worker.communicate()[0] for worker in workers}
    assert [worker.returncode for worker in workers] == [0] * 10
    assert told == {f"{sorted(before[NS][0].items())}\n"}
    with AgentMemory(url) as memory:
        assert views(memory) == before
        assert memory.verify().problems == ()
