"""On PostgreSQL, a put or a task's writes take one round trip: the rows that they read are predicted, and checked."""

import random
import threading
import time

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_agentmem import AgentMemory, AgentMemorySaver, MemoryLimits
from langchain_agentmem.errors import DatabaseBusy, InvalidInput, MemoryClosed, StorageError
from langchain_agentmem.storage.postgres import PostgresEngine
from langchain_agentmem.storage.postgres_session import NoAnswerError, Session
from tests.checkpoints.graphs import Line, at, chat_graph, id_in, started
from tests.emptying import direct
from tests.storage.sessions import TripCounter

LONG = "long " * 99
NEWER_CHECKPOINT = """
    insert into agentmem.checkpoint (ns_id, name, versions, head, metadata, created_at)
    select ns_id, 'z', versions, head, metadata, 0 from agentmem.checkpoint limit 1
"""


@pytest.fixture
def server(new_database):
    """The URL of an empty database, without a pooler."""
    return direct(new_database("postgres"))


@pytest.fixture
def saver(server):
    with AgentMemorySaver.from_conn_string(server) as saver:
        yield saver


@pytest.fixture
def batches(monkeypatch):
    """The outcomes of all batches: whether each was committed."""
    outcomes, run_batch = [], PostgresEngine._run_batch

    def watched(engine, tx):
        outcomes.append(run_batch(engine, tx))
        return outcomes[-1]

    monkeypatch.setattr(PostgresEngine, "_run_batch", watched)
    return outcomes


def contents(saver, thread="t"):
    config = {"configurable": {"thread_id": thread}}
    return [
        (each.config, each.parent_config, each.checkpoint, each.metadata, each.pending_writes)
        for each in saver.list(config)
    ]


class RandomCalls:
    """The same random calls for any saver: puts, forks, writes, reads, copies and deletions of a few threads."""

    def __init__(self, seed):
        self._chance, self._lines = random.Random(seed), {}
        self._steps = [self._next() for _ in range(30)]

    def _next(self):
        kinds = {"put": 10, "put_writes": 8, "other": 3, "get": 3, "fork": 1, "copy": 1, "delete": 1, "prune": 1}
        kind = self._chance.choices([*kinds], [*kinds.values()])[0]
        return kind, self._chance.choice("ab"), self._value(), self._chance.random()

    def _value(self):
        chance = self._chance
        return chance.choice(
            [
                lambda: {"text": chance.choice(["short", LONG, f"{LONG} {chance.random()}"])},
                lambda: {"table": {f"key {n}": f"{n} {chance.randrange(3)} {LONG[:40]}" for n in range(40)}},
                lambda: {"messages": [HumanMessage(f"{chance.randrange(9)} {LONG}", id=str(chance.random()))]},
                lambda: {"messages": [AIMessage(f"{chance.randrange(3)} {LONG}")], "text": "x"},
                lambda: {"messages": []},
            ]
        )()

    def run(self, saver, other):
        """Run the calls. `other` is another saver of the same database, as in another process."""
        lines, results = {}, []
        for number, (kind, thread, value, chance) in enumerate(self._steps):
            line = lines.get(thread) or lines.setdefault(thread, Line(saver, thread))
            changes = {
                name: [*line.values.get(name, []), *new] if name == "messages" else new for name, new in value.items()
            }
            line.saver = other if kind == "other" else saver
            if kind in ("put", "other") or line.step < 0:
                line.put(changes)
            elif kind == "put_writes":
                line.saver.put_writes(line.config, [*value.items()], f"task {number}")
            elif kind == "get":
                found = saver.get_tuple(at(thread))
                line.values = dict(found.checkpoint["channel_values"]) if found else line.values
            elif kind == "fork":
                ids = [id_in(each.config) for each in saver.list(at(thread))]
                line.config = at(thread, ids[int(chance * len(ids))])
            elif kind == "copy":
                saver.copy_thread(thread, f"copy {number}")
                lines[f"copy {number}"] = Line(saver, f"copy {number}")
            elif kind == "prune":
                saver.prune([thread])
            else:
                saver.delete_thread(thread)
                del lines[thread]
            results.append(saver.get_tuple(at(thread)))
        return [(each.checkpoint["channel_values"], each.pending_writes) for each in results if each is not None]


@pytest.mark.parametrize("seed", range(2))
def test_predicted_calls_store_what_others_store(new_database, batches, seed):
    found, calls = [], RandomCalls(seed)
    for predicts in (True, False):
        url = direct(new_database("postgres"))
        with AgentMemory(url, record=()) as memory, AgentMemory(url, record=()) as other:
            for each in (memory, other):
                each.database.engine.uses_predictions = predicts
            found.append(calls.run(memory.checkpointer, other.checkpointer))
            assert memory.admin.verify().problems == ()
    assert found[0] == found[1]
    assert batches.count(True) > 5


def test_put_and_writes_take_one_trip(saver, monkeypatch):
    graph = chat_graph(saver)
    for text in ("one", LONG):
        graph.invoke({"messages": [HumanMessage(text)]}, at())
    line = Line(saver)
    line.config, line.step = saver.get_tuple(at()).config, 9
    assert len(list(saver.list(at()))) == 6  # from now on, the messages are cached
    trips, found = TripCounter(monkeypatch), []
    for call in (
        lambda: list(saver.list({"configurable": {"thread_id": "t"}}, limit=5)),
        lambda: list(saver.list(at(), limit=5)),
        lambda: line.put({"text": LONG}),
        lambda: line.put({"text": "short"}),
        lambda: saver.put_writes(line.config, [("text", "short")], "one"),
        lambda: saver.put_writes(line.config, [("text", LONG + "!"), ("text", LONG)], "two"),
    ):
        trips.count = 0
        call()
        found.append(trips.count)
    assert found == [1] * 6


class TestWrongPredictions:
    @pytest.fixture
    def line(self, saver, batches):
        line = Line(saver)
        for n in range(3):
            line.put({"text": f"{n} {LONG}"})
        assert batches == [True, True]
        batches.clear()
        return line

    @pytest.mark.parametrize(
        "change",
        [
            "update agentmem.part_store set next_part = next_part + 1",
            "update agentmem.part_store set sweep_count = sweep_count + 1",
            "insert into agentmem.author (thread_id, namespace_id) select id, namespace_id from agentmem.thread",
            NEWER_CHECKPOINT,
        ],
    )
    def test_put_after_a_change_by_others_reads_the_rows(self, server, line, batches, change):
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(change)
        config = line.put({"text": f"new {LONG}"})
        assert batches == [False]
        assert line.saver.get_tuple(config).checkpoint["channel_values"] == {"text": f"new {LONG}"}

    @pytest.mark.parametrize("text", ["short", LONG])
    def test_thread_deleted_by_others_is_created_again(self, server, line, batches, text):
        with AgentMemorySaver.from_conn_string(server) as other:
            other.delete_thread("t")
        config = line.put({"text": text})
        line.saver.put_writes(config, [("text", text)], "task")
        assert batches[0] is False
        assert [id_in(each[0]) for each in contents(line.saver)] == [id_in(config)]

    def test_failing_predictions_are_given_up(self, server, line, batches):
        with psycopg.connect(server, autocommit=True) as connection:
            for n in range(6):
                connection.execute("update agentmem.part_store set next_part = next_part + 1")
                line.put({"text": f"{n} again {LONG}"})
        assert batches == [False] * 3


class TestFailures:
    @pytest.fixture
    def line(self, saver):
        line = Line(saver)
        line.put({"text": LONG})
        line.put({"text": "short"})
        return line

    @pytest.mark.parametrize("committed", [True, False])
    def test_lost_answer_to_the_commit_stores_once(self, line, batches, monkeypatch, committed):
        commit = Session.commit

        def lost(session, *, wait):
            monkeypatch.undo()
            if committed:
                commit(session, wait=wait)
            session.close()
            raise psycopg.OperationalError("the answer to the commit was lost")

        monkeypatch.setattr(Session, "commit", lost)
        config = line.put({"text": f"new {LONG}"})
        line.saver.put_writes(config, [("text", f"new {LONG}")], "task")
        [found, *_] = contents(line.saver)
        assert (found[0], found[4]) == (config, [("task", "text", f"new {LONG}")])
        assert len(contents(line.saver)) == 3

    def test_silent_server_leaves_the_outcome_unknown(self, line, monkeypatch):
        def silent(session, *, wait):
            monkeypatch.undo()
            raise NoAnswerError("the server does not answer")

        monkeypatch.setattr(Session, "commit", silent)
        with pytest.raises(StorageError, match="may be stored or not"):
            line.put({"text": f"new {LONG}"})
        line.put({"text": f"new {LONG}"})
        assert len(contents(line.saver)) == 3

    def test_lock_of_others_is_awaited_once(self, server):
        with AgentMemorySaver.from_conn_string(server, busy_timeout=0.5) as saver:
            line = Line(saver)
            line.put({"text": LONG})
            with psycopg.connect(server) as connection:
                connection.execute("select from agentmem.part_store for update")
                began = time.monotonic()
                with pytest.raises(DatabaseBusy):
                    line.put({"text": f"new {LONG}"})
                assert time.monotonic() - began < 0.95

    def test_closed_memory_refuses(self, server):
        memory = AgentMemory(server, record=())
        line = Line(memory.checkpointer)
        line.put({"text": LONG})
        memory.close()
        with pytest.raises(MemoryClosed):
            line.put({"text": "new"})

    def test_too_large_value_is_refused(self, server):
        with AgentMemorySaver.from_conn_string(server, limits=MemoryLimits(value_bytes=9_000)) as saver:
            line = Line(saver)
            line.put({"text": LONG})
            with pytest.raises(InvalidInput, match="9,000"):
                line.put({"text": "x" * 10_000})


def test_threads_write_one_thread_at_once(saver, batches):
    line = Line(saver)
    line.put({"text": LONG})
    line.put({"text": "short"})

    def write(number):
        for n in range(10):
            saver.put_writes(line.config, [("text", f"{number} {n} {LONG}")], f"task {number} {n}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = saver.get_tuple(at()).pending_writes
    assert sorted(found) == sorted((f"task {n} {m}", "text", f"{n} {m} {LONG}") for n in range(5) for m in range(10))
    assert batches.count(True) > 45


def test_two_processes_continue_one_thread(server, saver):
    script = """
        import sys
        from langchain_core.messages import HumanMessage
        from graphs import at, chat_graph
        from langchain_agentmem import AgentMemorySaver

        with AgentMemorySaver.from_conn_string(sys.argv[1]) as saver:
            graph = chat_graph(saver)
            for n in range(6):
                graph.invoke({"messages": [HumanMessage(f"{sys.argv[2]} {n} " * 60)]}, at())
    """
    chat_graph(saver).invoke({"messages": [HumanMessage("start")]}, at())
    processes = [started(script, server, name) for name in "xy"]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    every = {id_in(each.config): each for each in saver.list(at())}
    assert len(every) == 3 * 13
    for found in every.values():
        if found.parent_config is not None:
            before = every[id_in(found.parent_config)].checkpoint["channel_values"].get("messages", [])
            now = found.checkpoint["channel_values"]["messages"]
            assert [message.id for message in now[: len(before)]] == [message.id for message in before]
    with AgentMemory(server) as memory:
        assert memory.admin.verify().problems == ()


def remembering_graph(memory, seen):
    """A graph whose node notes what core memory shows, and adds to it."""

    def remember(state: MessagesState) -> dict:
        core = memory.layers().core
        seen.append(core.get())
        if state["messages"][-1].content == "remember":
            core.set(f"n{len(seen)}", "heron")
        return {"messages": AIMessage("ok")}

    builder = StateGraph(MessagesState)
    builder.add_node(remember)
    builder.add_edge(START, "remember")
    return builder.compile(checkpointer=memory.checkpointer)


def test_run_sees_memory_that_another_process_wrote_meanwhile(server, batches):
    with AgentMemory(server) as ours, AgentMemory(server) as theirs:
        graphs = [(remembering_graph(memory, seen := []), seen) for memory in (ours, theirs)]
        for turn, text in enumerate(["hello", "hello", "remember", "hello", "remember", "hello", "hello"]):
            graph, seen = graphs[turn % 2]
            graph.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": "t"}})
            expected = sum(each == "remember" for each in ["hello", "hello", "remember", "hello", "remember"][:turn])
            assert len(seen[-1]) == expected, turn
    assert True in batches
