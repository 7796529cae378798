"""Retention and pruning of checkpoints and of the data that only they needed."""

import itertools
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import timedelta

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.types import Command, interrupt

from langchain_agentmem import AgentMemory, AgentMemorySaver, Retention
from langchain_agentmem.errors import BranchMoved
from langchain_agentmem.threads.thread_rows import BATCH_SIZE, MAX_REMOVED
from langchain_agentmem.threads.value_codec import ValueDraft
from langchain_agentmem.threads.value_store import lock_store, write_parts
from tests.checkpoints.graphs import (
    Line,
    Log,
    adding,
    asking_graph,
    at,
    chat_graph,
    everything,
    id_in,
    ids,
    logging_graph,
)
from tests.support.graphs import beside, line
from tests.support.transactions import Watched

from .filled import delta_graph, fill, outer_graph, seen
from .own_store import OwnStore

TABLES = ("checkpoint", "channel_value", "pending_write", "part", "checkpoint_ns", "content")


@pytest.fixture
def open_memory(url, clock):
    """Return a function that opens the database with a retention."""
    opened = []

    def open_(**limits):
        # What is recorded stays, whatever checkpoints do.
        opened.append(AgentMemory(url, clock=clock, retention=Retention(**limits), record=()))
        return opened[-1]

    yield open_
    for memory in opened:
        assert memory.admin.verify().problems == ()
        memory.close()


@pytest.fixture
def rows(raw):
    """Return a function that counts the rows of the thread tables."""

    def count(memory):
        return {table: raw(memory, f"select count(*) as n from {table}")[0]["n"] for table in TABLES}

    return count


def lengths(saver, thread="t"):
    """Return the number of checkpoints per namespace of a thread."""
    found = saver.list({"configurable": {"thread_id": thread}})
    return Counter(each.config["configurable"]["checkpoint_ns"] for each in found)


def log_of(graph, thread="t"):
    return graph.get_state(at(thread)).values["log"]


def texts_of(graph):
    return [message.text for message in graph.get_state(at()).values["messages"]]


def long_line(saver, count, thread="t"):
    """Put checkpoints, each with its own long text."""
    made = Line(saver, thread)
    for n in range(count):
        made.put({"n": n, "text": f"text {n} " * 50})
    return made


@pytest.mark.sqlite_suffices
class TestKeepLast:
    def test_keep_last_keeps_the_newest_checkpoints(self, open_memory):
        for keep in (1, 2, 5):
            saver = open_memory(keep_last=keep).checkpointer
            put = {"": [], "child": [], "other|deep": []}
            lines = {ns: Line(saver, f"keep {keep}", ns) for ns in put}
            for n, (ns, each) in itertools.product(range(9), lines.items()):
                put[ns].insert(0, id_in(each.put({"n": n, "text": f"{ns} {n}" * 50})))
                assert ids(saver.list(at(f"keep {keep}", ns=ns))) == put[ns][:keep]
                assert saver.get(at(f"keep {keep}", ns=ns))["channel_values"] == each.values

    async def test_graph_state_is_correct_with_keep_last(self, open_memory):
        memory = open_memory(keep_last=3)
        graph, said = chat_graph(memory.checkpointer), []
        for turn in range(20):
            said += [f"turn {turn}", f"TURN {turn}"]
            given = {"messages": [HumanMessage(f"turn {turn}")]}
            await graph.ainvoke(given, at()) if turn % 2 else graph.invoke(given, at())
            assert lengths(memory.checkpointer) == {"": 3}
            kept = [state.values["messages"] for state in graph.get_state_history(at())]
            assert [[m.text for m in messages] for messages in kept] == [said, said[:-1], said[:-2]]
        assert texts_of(chat_graph(open_memory().checkpointer)) == said

    def test_a_saver_may_have_its_own_retention(self, url):
        with AgentMemory(url, retention=Retention(keep_last=1)) as memory:
            one, three = memory.checkpointer, AgentMemorySaver(memory, retention=Retention(keep_last=3))
            for thread, saver in (("1", one), ("3", three), ("6", AgentMemorySaver(memory, retention=Retention()))):
                long_line(saver, 6, thread)
                assert len(ids(one.list(at(thread)))) == int(thread)
        with AgentMemorySaver.from_conn_string(url, retention=Retention(keep_last=2)) as saver:
            long_line(saver, 5, "2")
            assert len(ids(saver.list(at("2")))) == 2

    def test_a_long_thread_is_trimmed_gradually(self, open_memory, rows):
        made = long_line(open_memory().checkpointer, MAX_REMOVED * 3)
        memory, left = open_memory(keep_last=2), []
        made.saver = memory.checkpointer
        for _ in range(4):
            made.put({"n": -1})
            left.append(len(ids(memory.checkpointer.list(at()))))
        assert left == [MAX_REMOVED * 2 + 1, MAX_REMOVED + 2, 3, 2]
        assert rows(memory)["part"] <= MAX_REMOVED + 2
        assert memory.checkpointer.get(at())["channel_values"] == made.values

    def test_repeating_a_put_removes_no_checkpoint(self, open_memory):
        saver = open_memory(keep_last=2).checkpointer
        made = long_line(saver, 2)
        given = made.config, *made.next({"n": 3})
        saver.put(*given)
        before = everything(saver)
        saver.put(*given)
        assert everything(saver) == before

    def test_forks_count_towards_keep_last(self, open_memory):
        saver = open_memory(keep_last=4).checkpointer
        graph = logging_graph(saver, "a", "b")
        for turn in range(5):
            graph.invoke({"log": [f"{turn}"]}, at())
        oldest = list(graph.get_state_history(at()))[-1]
        graph.invoke({"log": ["fork"]}, oldest.config)
        assert log_of(graph) == [*oldest.values["log"], "fork", "a", "b"]
        assert lengths(saver) == {"": 4}

    def test_removed_checkpoints_are_not_readable_or_listed(self, open_memory):
        saver = open_memory(keep_last=1).checkpointer
        made = Line(saver)
        first = made.put({"a": 1})
        saver.put_writes(first, [("a", 2)], "task")
        last = made.put({"a": 2})
        assert saver.get_tuple(first) is None
        assert saver.get_tuple(last).parent_config == first
        assert list(saver.list(at(), before=last)) == []
        saver.put_writes(first, [("a", 3)], "late")  # nothing is wrong with a straggler
        assert saver.get_tuple(first) is None
        assert saver.get(at())["channel_values"] == {"a": 2}


@pytest.mark.sqlite_suffices
class TestRemovedData:
    def test_data_of_removed_checkpoints_is_deleted(self, open_memory, rows):
        memory, most = open_memory(keep_last=2), Counter()
        made = Line(memory.checkpointer)
        for n in range(100):
            said = [HumanMessage(f"message {m} " * 50, id=f"{m}") for m in range(n, n + 5)]
            state = {"deep": [f"{n} {m}" * 20 for m in range(40)]}
            config = made.put({"text": f"text {n} " * 200, "state": state, "n": n, "messages": said})
            memory.checkpointer.put_writes(config, [("text", f"write {n} " * 200), ("n", n)], "task")
            most |= Counter(rows(memory) if n % 20 == 19 else {})
        assert memory.checkpointer.get(at())["channel_values"] == made.values
        assert most["checkpoint"] <= 2
        assert most["pending_write"] <= 4
        assert most["channel_value"] <= 4 * (MAX_REMOVED + 4)
        assert most["part"] <= 20 * (MAX_REMOVED + 4)
        assert most["content"] <= most["part"]
        assert memory.admin.stats()["content_bytes"] <= (MAX_REMOVED + 4) * 10_000

    def test_writes_preceding_their_checkpoint_are_kept(self, open_memory):
        saver = open_memory(keep_last=1).checkpointer
        made = Line(saver)
        for n in range(2 * MAX_REMOVED):
            checkpoint, metadata, new = made.next({"n": n})
            saver.put_writes(at(checkpoint_id=checkpoint["id"]), [("text", f"early {n} " * 100)], "task")
            if n == MAX_REMOVED:
                saver.prune(["t"])
            made.config = saver.put(made.config, checkpoint, metadata, new)
            assert saver.get_tuple(at()).pending_writes == [("task", "text", f"early {n} " * 100)]

    def test_late_writes_of_removed_checkpoints_are_deleted(self, open_memory, rows):
        memory = open_memory(keep_last=1)
        made = Line(memory.checkpointer)
        first = made.put({"text": "one " * 50})
        made.put({"text": "two"})
        memory.checkpointer.put_writes(first, [("text", "late " * 50)], "task")
        for n in range(MAX_REMOVED):
            made.put({"text": f"{n}"})
        assert memory.checkpointer.get(at())["channel_values"] == made.values
        assert rows(memory)["pending_write"] == memory.admin.stats()["contents"] == 0

    def test_retention_keeps_parts_shared_with_a_copy(self, open_memory, rows):
        memory = open_memory(keep_last=2)
        saver, made = memory.checkpointer, Line(memory.checkpointer)
        for n in range(3):
            made.put({"text": f"old {n} " * 50, "messages": [HumanMessage(f"{m}", id=f"{m}") for m in range(n)]})
        saver.copy_thread("t", "copy")
        before = everything(saver, "copy")
        for n in range(2 * MAX_REMOVED):
            made.put({"text": f"new {n} " * 50, "messages": [HumanMessage(f"new {n}", id="x")]})
        assert everything(saver, "copy") == before
        assert rows(memory)["part"] <= 3 * MAX_REMOVED

    def test_without_retention_everything_is_kept(self, open_memory, rows):
        memory = open_memory()
        long_line(memory.checkpointer, 2 * MAX_REMOVED)
        assert rows(memory)["checkpoint"] == rows(memory)["part"] == 2 * MAX_REMOVED


@pytest.mark.sqlite_suffices
class TestSubgraphs:
    @pytest.mark.parametrize("called", [False, True])
    def test_namespaces_of_finished_subgraphs_are_deleted(self, open_memory, rows, called):
        memory = open_memory(keep_last=1)
        middle = line(None, ("down", line(None, ("deep", adding("deep")), state=Log)), ("up", adding("up")), state=Log)
        node = (lambda _: middle.invoke({"log": []})) if called else middle
        graph = logging_graph(memory.checkpointer, "middle", "end", nodes={"middle": node})
        for turn in range(6):
            graph.invoke({"log": [f"{turn}"]}, at(), durability="sync")
            assert len(lengths(memory.checkpointer)) <= 3
        assert rows(memory)["checkpoint_ns"] == 1
        assert log_of(graph)[-3:] == ["deep", "up", "end"]

    def test_persistent_subgraphs_are_kept(self, open_memory):
        saver = open_memory(keep_last=1).checkpointer
        remembering = line(True, ("x", lambda state: {"log": [f"x{len(state['log'])}"]}), state=Log)
        call = {"call": lambda _: {"log": remembering.invoke({"log": []})["log"][-1:]}}
        graph = logging_graph(saver, "call", "other", nodes=call)
        for turn in range(6):
            graph.invoke({"log": []}, at())
            assert log_of(graph)[-2:] == [f"x{turn}", "other"]
            assert lengths(saver) == {"": 1, "call": 1}
        for _ in range(3):  # the parent goes on without calling it
            graph.update_state(at(), {"log": ["put in"]}, as_node="other")
        graph.invoke({"log": []}, at())
        assert log_of(graph)[-2:] == ["x6", "other"]


class TestInterrupts:
    async def test_an_interrupted_run_can_be_resumed(self, open_memory):
        memory = open_memory(keep_last=1)
        for make in (asking_graph, outer_graph):
            graph = make(memory.checkpointer)
            for turn in range(2):
                graph.invoke({"log": [f"{turn}"]}, at(make.__name__))
                answer, other = Command(resume=f"answer {turn}"), make(AgentMemorySaver(memory))
                await graph.ainvoke(answer, at(make.__name__)) if turn else other.invoke(answer, at(make.__name__))
                assert f"answer {turn}" in log_of(graph, make.__name__)
                assert graph.get_state(at(make.__name__)).next == ()

    def test_parallel_interrupts_are_answered_one_by_one(self, open_memory):
        ask = {name: lambda _, name=name: {"log": [f"{name} {interrupt(name)}"]} for name in ("x", "y", "z")}
        graph = beside(open_memory(keep_last=1).checkpointer, **ask, quiet=adding("quiet"))
        graph.invoke({"log": []}, at())
        for waiting in (3, 2, 1):
            interrupts = graph.get_state(at()).interrupts
            assert len(interrupts) == waiting
            graph.invoke(Command(resume={interrupts[0].id: "yes"}), at())
        assert sorted(log_of(graph)) == ["quiet", "x yes", "y yes", "z yes"]

    def test_a_subgraph_with_two_interrupts_can_be_updated(self, open_memory):
        memory = open_memory(keep_last=1)
        asking = [(name, lambda _, name=name: {"log": [interrupt(name)]}) for name in ("first", "second")]
        nodes = {"inner": line(None, *asking, state=Log)}
        for turn in range(3):
            graph = logging_graph(memory.checkpointer, "inner", "after", nodes=nodes)
            graph.invoke({"log": [f"{turn}"]}, at())
            within = graph.get_state(at(), subgraphs=True).tasks[0].state.config
            graph.update_state(within, {"log": ["put in"]})
            for answer in ("one", "two"):
                graph = logging_graph(AgentMemorySaver(memory), "inner", "after", nodes=nodes)
                graph.invoke(Command(resume=answer), at())
            assert log_of(graph)[-4:] == ["put in", "one", "two", "after"]

    def test_a_failed_run_can_be_resumed(self, open_memory):
        broken = []

        def fail(_):
            if broken.pop():
                raise ZeroDivisionError
            return {"log": ["done"]}

        graph = beside(open_memory(keep_last=1).checkpointer, quiet=adding("quiet"), fail=fail)
        for _ in range(3):
            broken[:] = [False, True]
            with pytest.raises(ZeroDivisionError):
                graph.invoke({"log": ["in"]}, at())
            assert sorted(graph.invoke(None, at())["log"][-2:]) == ["done", "quiet"]


def test_threads_with_delta_channels_are_kept_complete(open_memory):
    memory = open_memory(keep_last=2, max_age=timedelta(seconds=1))
    plain, log = logging_graph(memory.checkpointer, "a", "b"), []
    for make in (lambda: plain, lambda: delta_graph(memory.checkpointer)):
        graph = make()
        for turn in range(4):
            graph.invoke({"log": [f"{turn}"]}, at())
            log += [f"{turn}", "a", "b"]
            assert log_of(graph) == log
    states = list(graph.get_state_history(at()))
    assert len(states) >= 16
    assert all(state.values["log"] == log[: len(state.values["log"])] for state in states)


class TestMaxAge:
    def test_expired_checkpoints_are_removed_at_the_next_put(self, open_memory, clock):
        saver = open_memory(max_age=timedelta(hours=1)).checkpointer
        made, put = Line(saver), []
        for n in range(4):
            put.insert(0, id_in(made.put({"n": n})))
            clock.pass_time(minutes=25)
            assert ids(saver.list(at())) == put[:3]
        clock.pass_time(days=1)
        assert ids(saver.list(at())) == put[:3]
        put.insert(0, id_in(made.put({"n": 4})))
        assert ids(saver.list(at())) == put[:1]
        assert saver.get(at())["channel_values"] == {"n": 4}

    def test_the_newest_checkpoint_never_expires(self, open_memory, clock):
        saver = open_memory(max_age=timedelta(milliseconds=1)).checkpointer
        graph = outer_graph(saver)
        graph.invoke({"log": ["in"]}, at())
        clock.pass_time(days=400)
        graph.invoke({"log": ["elsewhere"]}, at("other"))
        graph.invoke(Command(resume="yes"), at())
        assert log_of(graph)[-2:] == ["yes", "after"]
        clock.pass_time(days=400)
        assert log_of(graph)[-2:] == ["yes", "after"]

    def test_keep_last_and_max_age_combine(self, open_memory, clock):
        saver = open_memory(keep_last=3, max_age=timedelta(hours=1)).checkpointer
        made = long_line(saver, 6)
        assert lengths(saver) == {"": 3}
        clock.pass_time(hours=2)
        made.put({"n": 6})
        assert lengths(saver) == {"": 1}

    def test_namespaces_of_old_subgraph_calls_are_deleted(self, open_memory, clock, rows):
        memory = open_memory(max_age=timedelta(hours=1))
        graph = outer_graph(memory.checkpointer)
        for turn in range(3):
            graph.invoke({"log": [f"{turn}"]}, at())
            graph.invoke(Command(resume="yes"), at())
            clock.pass_time(hours=2)
        graph.update_state(at(), {"log": ["put in"]}, as_node="after")
        assert rows(memory)["checkpoint_ns"] == 1


@pytest.mark.sqlite_suffices
class TestPrune:
    def test_prune_shrinks_the_database_file(self, tmp_path):
        path = tmp_path / "a.db"
        for remove in (lambda saver: saver.prune(["t"]), lambda saver: saver.delete_thread("t")):
            path.unlink(missing_ok=True)
            with AgentMemory(path) as memory:
                empty = memory.admin.stats()
                made = Line(memory.checkpointer)
                for n in range(500):
                    made.put({"text": f"text {n} " * 500, "n": n})
                with closing(sqlite3.connect(path)) as connection:
                    connection.execute("pragma wal_checkpoint(truncate)")
                before = path.stat().st_size
                assert before > 2_000_000
                remove(memory.checkpointer)
                stats = memory.admin.stats()
                assert stats["parts"] == stats["checkpoints"] <= 1
                assert (stats["bytes"] - stats["free_bytes"]) - (empty["bytes"] - empty["free_bytes"]) < before / 20
                assert stats["free_bytes"] <= 2**20
                assert memory.admin.verify().problems == ()
            assert path.stat().st_size < before * 0.6

    def test_prune_allows_writes_between_batches(self, url, monkeypatch):
        with AgentMemory(url) as memory, AgentMemory(url, busy_timeout=10) as other:  # who has to wait waits in vain
            made, mine = Line(memory.checkpointer), Line(other.checkpointer, "other")
            for n in range(5 * BATCH_SIZE + 50):
                made.put({"n": n})
            engine, removed = memory.database.engine, []
            write = engine.write

            def watched(make):
                before = memory.admin.stats()["checkpoints"]
                value = write(make)
                removed.append(before - memory.admin.stats()["checkpoints"])
                mine.put({"n": len(removed)})
                return value

            monkeypatch.setattr(engine, "write", watched)
            memory.checkpointer.prune(["t"])
            monkeypatch.undo()
            assert sum(removed) == 5 * BATCH_SIZE + 49
            assert max(removed) <= BATCH_SIZE
            assert lengths(other.checkpointer, "other") == {"": len(removed)}

    def test_prune_keeps_the_newest_of_each_namespace(self, memory, rows):
        saver = memory.checkpointer
        for ns in ("", "child"):
            made = Line(saver, ns=ns)
            for n in range(5):
                config = made.put({"text": f"{ns} {n} " * 100, "n": n})
                saver.put_writes(config, [("text", f"write {ns} {n} " * 100)], "task")
        saver.prune(["t"])
        assert rows(memory) == dict(zip(TABLES, (2, 4, 2, 4, 2, 4), strict=True))

    def test_prune_removes_leftovers_of_retention(self, open_memory, rows):
        memory = open_memory(keep_last=1)
        long_line(memory.checkpointer, MAX_REMOVED // 2)
        memory.checkpointer.prune(["t"])
        assert rows(memory)["part"] == rows(memory)["checkpoint"] == 1

    def test_prune_keeps_parts_of_copies_and_originals(self, memory):
        saver, names = memory.checkpointer, ("chat", "asking", "outer")
        fill(saver)
        for thread in (*names, "delta"):
            saver.copy_thread(thread, f"copy of {thread}")
        before, copies = seen(saver), {name: everything(saver, f"copy of {name}") for name in names}
        saver.prune(["copy of delta"], strategy="delete")
        assert seen(saver) == before
        saver.prune(names)
        assert [len(everything(saver, name)) for name in names] == [1, 1, 2]
        assert {name: everything(saver, f"copy of {name}") for name in names} == copies
        assert outer_graph(saver).invoke(Command(resume="yes"), at("copy of outer"))["log"][-2:] == ["yes", "after"]
        assert memory.admin.verify().problems == ()

    def test_removing_a_thread_keeps_data_of_copies(self, memory):
        saver = memory.checkpointer
        for first, remove in itertools.product(range(3), (lambda name: saver.prune([name]), saver.delete_thread)):
            names = ["t", "copy", "another"]
            for name in names:
                saver.delete_thread(name)
            Line(saver).put({"messages": [HumanMessage("of all " * 50, id="all")], "text": "of all " * 50})
            for name in names[1:]:
                saver.copy_thread("t", name)
            for name in names:
                own = Line(saver, name).fork(saver.get_tuple(at(name)).config)
                own.put({"messages": [HumanMessage(f"only in {name} " * 50, id=name)], "text": f"only in {name} " * 50})
                waits = [("text", f"waits in {name} " * 50), ("messages", [HumanMessage(f"waits in {name}", id="w")])]
                saver.put_writes(own.config, waits, "task")
            before = {name: everything(saver, name) for name in names}
            for name in names[first:] + names[:first]:
                latest = before.pop(name)[-1]
                remove(name)
                assert everything(saver, name) in ([latest], [])
                assert {other: everything(saver, other) for other in before} == before
                assert memory.admin.verify().problems == ()


@pytest.mark.sqlite_suffices
class TestStaleSavers:
    """Two processes, one of which caches part positions from before the other's sweep."""

    @pytest.fixture
    def two(self, url):
        with AgentMemory(url) as one, AgentMemory(url) as two:
            yield one.checkpointer, two.checkpointer

    @pytest.fixture
    def messages(self):
        return [HumanMessage(f"{n}", id=f"m{n}") for n in range(6)]

    def test_a_stale_saver_stores_swept_parts_again(self, two, messages):
        stale, other = two
        made = Line(stale)
        for values in (
            {"messages": messages, "text": "x" * 999},
            {"messages": [HumanMessage("new", id="new"), *messages]},
            {"messages": [], "one": messages[5]},
            {"messages": [], "one": None, "deep": {"one": messages[3], "all": messages}},
        ):
            made.put({"messages": messages, "text": "x" * 999})
            made.put({"messages": messages[:2], "text": "y" * 999})
            other.prune(["t"])
            made.put(values)  # these objects say that they lie on the part store
            for saver in two:
                assert saver.get(at())["channel_values"] == made.values

    def test_a_recreated_thread_is_not_mixed_up(self, two, messages):
        stale, other = two
        made = Line(stale)
        made.put({"messages": messages})
        other.delete_thread("t")
        Line(other).put({"messages": [HumanMessage("new", id=f"m{n}") for n in range(9)]})
        made.put({"messages": messages})
        for saver in two:
            assert saver.get(at())["channel_values"]["messages"] == messages

    def test_values_read_before_a_sweep_can_be_put(self, two):
        stale, other = two
        graph = chat_graph(other)
        for text in ("one", "two"):
            graph.invoke({"messages": [HumanMessage(text)]}, at())
        read = stale.get(at())["channel_values"]["messages"]
        graph.invoke({"messages": [HumanMessage("three")]}, at())
        graph.update_state(at(), {"messages": [RemoveMessage(message.id) for message in read]})
        other.prune(["t"])
        Line(stale).put({"messages": read})
        for saver in two:
            assert [m.text for m in saver.get(at())["channel_values"]["messages"]] == ["one", "ONE", "two", "TWO"]

    def test_put_stores_values_as_of_the_call(self, two, messages, monkeypatch):
        stale, other = two
        made = Line(stale)
        for n in range(3):
            made.put({"messages": messages, "text": f"{n}" * 999})
        other.prune(["t"])
        write = stale.database.engine.write

        def a_little_later(make):
            messages[0].content = "changed since"
            return write(make)

        monkeypatch.setattr(stale.database.engine, "write", a_little_later)
        config = made.put({"messages": messages[:]})
        stale.put_writes(config, [("messages", messages[1:])], "task")
        for saver in two:
            found = saver.get_tuple(at())
            assert [m.text for m in found.checkpoint["channel_values"]["messages"]] == [*"012345"]
            assert [m.text for m in found.pending_writes[0][2]] == [*"12345"]

    def test_a_sweep_before_the_write_raises_branch_moved(self, memory):
        """Only PostgreSQL lets this happen, where the write is then retried."""
        part_store = OwnStore(memory=memory)
        stale = part_store.place()._replace(sweep_count=7)
        draft = ValueDraft(part_store.serde, part_store.known, stale, for_channels=True)
        recipe = draft.make_recipe(["text " * 99])
        for put in (lambda tx: lock_store(tx, stale, count=1), lambda tx: write_parts(tx, stale, draft, [recipe])):
            with pytest.raises(BranchMoved):
                memory.database.engine.write(put)
        assert memory.admin.stats()["parts"] == 0

    def test_two_sweeping_savers_alternate_correctly(self, open_memory):
        memories, said = (open_memory(keep_last=1), open_memory(keep_last=2)), []
        for turn in range(30):
            memory = memories[turn % 2]
            graph = chat_graph(memory.checkpointer)
            graph.invoke({"messages": [HumanMessage(f"{turn} " * 30)]}, at())
            said += [f"{turn} " * 30] * 2
            if turn % 10 == 9:
                messages = graph.get_state(at()).values["messages"]
                graph.update_state(at(), {"messages": [RemoveMessage(message.id) for message in messages[:5]]})
                said = said[5:]
                memory.checkpointer.prune(["t"])
            assert texts_of(graph) == said


CHANGES = ("delete_", "insert_", "reserve_", "lock_", "set_numbers", "reset_", "mark_", "add_", "store_")


def test_removals_lock_the_part_store_first(memory, monkeypatch):
    """Two removals could deadlock if they locked the part store in different orders."""
    saver, write, seen = AgentMemorySaver(memory, retention=Retention(keep_last=3)), memory.database.engine.write, []

    for text, (name, remove) in itertools.product(
        ("short", "long " * 99),
        {
            "put": lambda made: made.put({"text": f"{made.step}"}),
            "prune": lambda _: saver.prune(["t"]),
            "delete_thread": lambda _: saver.delete_thread("t"),
            "delete_for_runs": lambda _: saver.delete_for_runs(["run"]),
        }.items(),
    ):
        saver.delete_thread("t")
        made = Line(saver)
        for n in range(3):
            made.put({"text": f"{text} {n}"}, run_id="run")
        seen.clear()
        monkeypatch.setattr(memory.database.engine, "write", lambda do: write(lambda tx: do(Watched(tx, seen.append))))
        remove(made)
        monkeypatch.undo()
        changes = [each for each in seen if each.startswith(CHANGES)]
        assert any(each.startswith("delete_") for each in changes), name
        assert changes[0] in ("lock_store", "reserve_part_numbers", "reset_removed_count"), name
