"""A page of a thread's checkpoints is read in one query, and equals what is read key by key."""

import random

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem import AgentMemorySaver
from langchain_agentmem.checkpoints import checkpoint_listing
from tests.checkpoints.graphs import Line, at, chat_graph, comparable, id_in
from tests.emptying import direct
from tests.storage.sessions import TripCounter

LONG = "long " * 99


def list_by_keys(saver, at, key_filter, limit, thread_id):
    """List the checkpoints of a thread as the checkpoints of all threads are listed."""
    keys = checkpoint_listing._iter_keys(saver, key_filter, {}, limit)
    return checkpoint_listing._iter_pages(saver, keys, limit, thread_id)


def fill(saver, chance):
    """Put checkpoints and writes of two threads, of which "b" has a subgraph."""
    lines = [Line(saver, "a"), Line(saver, "b"), Line(saver, "b", ns="child:1")]
    for number in range(60):
        line = chance.choice(lines)
        if line.step >= 0 and chance.random() < 0.2:
            ids = [id_in(each.config) for each in saver.list(line.config | {"configurable": dict(at_of(line))})]
            line.config = at(
                line.config["configurable"]["thread_id"], chance.choice(ids), ns=at_of(line)["checkpoint_ns"]
            )
        messages = [*line.values.get("messages", []), HumanMessage(f"{number} {LONG}", id=str(number))]
        line.put(chance.choice([{"text": f"{number} {LONG}"}, {"messages": messages}, {"text": "short"}, {}]))
        if chance.random() < 0.5:
            saver.put_writes(line.config, [("text", LONG), ("other", number)], f"task {number}")
    return lines


def at_of(line):
    return {name: line.config["configurable"][name] for name in ("thread_id", "checkpoint_ns")}


@pytest.mark.parametrize("seed", range(2))
def test_pages_equal_listing_by_keys(memory, monkeypatch, seed):
    chance = random.Random(seed)
    saver = memory.checkpointer
    lines = fill(saver, chance)
    every = [each.config["configurable"] for line in lines for each in saver.list({"configurable": at_of(line)})]
    assert len(every) == 60
    cases = []
    for _ in range(60):
        config = {"thread_id": chance.choice(["a", "b", "missing"])}
        some = chance.choice(every)
        config |= chance.choice(
            [{}, {}, {"checkpoint_ns": ""}, {"checkpoint_ns": "child:1"}, {"checkpoint_ns": "x"}, some]
        )
        before = chance.choice([None, None, {"configurable": chance.choice(every)}])
        cases.append(({"configurable": config}, before, chance.choice([None, 0, 1, 3, 10, 20, 99])))

    def found():
        fresh = AgentMemorySaver(memory.database)
        return [
            [(each.config, comparable(each)) for each in fresh.list(config, before=before, limit=limit)]
            for config, before, limit in cases
        ]

    by_page = found()
    monkeypatch.setattr(checkpoint_listing, "_iter_thread", list_by_keys)
    assert by_page == found()
    assert sum(map(bool, by_page)) > 20


@pytest.mark.parametrize("config", [at(), {"configurable": {"thread_id": "t"}}])
def test_checkpoints_stored_between_pages_are_not_listed(memory, config):
    line = Line(memory.checkpointer)
    stored = [id_in(line.put({"text": str(number)})) for number in range(8)]
    found = memory.checkpointer.list(config)
    seen = [id_in(next(found).config)]
    line.put({"text": "new"})
    Line(memory.checkpointer, ns="child:1").put({"text": "in a subgraph"})
    assert seen + [id_in(each.config) for each in found] == stored[::-1]


def test_page_takes_one_trip(new_database, monkeypatch):
    with AgentMemorySaver.from_conn_string(direct(new_database("postgres"))) as saver:
        graph = chat_graph(saver)
        for text in ("one", "two", LONG, "four"):
            graph.invoke({"messages": [HumanMessage(text)]}, at())
        assert len(list(saver.list(at()))) == 12  # from now on, the messages are cached
        trips, found = TripCounter(monkeypatch), []
        for config in ({"configurable": {"thread_id": "t"}}, at()):
            trips.count = 0
            assert len(list(saver.list(config, limit=10))) == 10
            found.append(trips.count)
        assert found == [1, 1]
