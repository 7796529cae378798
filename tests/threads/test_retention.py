"""Which checkpoints a thread keeps when it is told to forget, and that what they alone needed goes with the others."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from langchain_agentmem import AgentMemory, AgentMemorySaver, Retention
from langchain_agentmem.threads.thread_lines import BATCH, MOST_LITTER
from tests.checkpoints.graphs import (
    Chat,
    Line,
    Log,
    asking_graph,
    at,
    chat_graph,
    everything,
    id_in,
    ids,
    logging_graph,
    parallel_graph,
)

from .filled import delta_graph, fill, go_on, outer_graph, seen

TABLES = ("checkpoint", "channel_value", "pending_write", "part", "checkpoint_line", "content")


@pytest.fixture
def keeping(url, clock):
    """Opens the database so that it keeps only so much."""
    opened = []

    def open_(**limits):
        # What is recorded stays, whatever checkpoints do.
        opened.append(AgentMemory(url, clock=clock, retention=Retention(**limits), record=()))
        return opened[-1]

    yield open_
    for memory in opened:
        memory.close()


@pytest.fixture
def rows(raw):
    """How many rows the tables of threads have."""

    def count(memory):
        return {table: raw(memory, f"select count(*) as n from {table}")[0]["n"] for table in TABLES}

    return count


def lengths(saver, thread="t"):
    """How many checkpoints each line of a thread has."""
    found = saver.list({"configurable": {"thread_id": thread}})
    return Counter(each.config["configurable"]["checkpoint_ns"] for each in found)


@pytest.mark.sqlite_suffices
class TestKeepLast:
    @pytest.mark.parametrize("keep", [1, 2, 5])
    def test_after_each_put_the_newest_few_are_there(self, keeping, keep):
        saver = keeping(keep_last=keep).checkpointer
        put = {"": [], "child": [], "other|deep": []}
        lines = {ns: Line(saver, ns=ns) for ns in put}
        for n in range(9):
            for ns, line in lines.items():
                put[ns].insert(0, id_in(line.put({"n": n, "text": f"{ns} {n}" * 50})))
                assert ids(saver.list(at(ns=ns))) == put[ns][:keep]
                assert saver.get(at(ns=ns))["channel_values"] == {"n": n, "text": f"{ns} {n}" * 50}

    def test_a_graph_keeps_no_more_and_its_state_is_right(self, keeping):
        memory = keeping(keep_last=3)
        graph = chat_graph(memory.checkpointer)
        said = []
        for turn in range(40):
            said += [f"turn {turn}", f"TURN {turn}"]
            graph.invoke({"messages": [HumanMessage(f"turn {turn}")]}, at())
            assert lengths(memory.checkpointer) == {"": 3}
            assert [m.text for m in graph.get_state(at()).values["messages"]] == said
        assert memory.admin.verify().problems == ()
        with (
            AgentMemory(memory.database.engine.path)
            if memory.database.engine.dialect == "sqlite"
            else keeping() as other
        ):
            assert [m.text for m in chat_graph(other.checkpointer).get_state(at()).values["messages"]] == said

    async def test_the_awaited_methods_keep_no_more_either(self, keeping):
        memory = keeping(keep_last=2)
        graph = chat_graph(memory.checkpointer)
        for turn in range(5):
            await graph.ainvoke({"messages": [f"turn {turn}"]}, at())
            assert lengths(memory.checkpointer) == {"": 2}
        assert len((await graph.aget_state(at())).values["messages"]) == 10

    def test_whatever_is_kept_is_whole(self, keeping):
        saver = keeping(keep_last=4).checkpointer
        graph = logging_graph(saver, "a", "b", "c")
        for turn in range(20):
            graph.invoke({"log": [f"{turn}"]}, at())
        log = graph.get_state(at()).values["log"]
        for state, length in zip(graph.get_state_history(at()), itertools.count(80, -1), strict=False):
            assert state.values["log"] == log[:length]
        assert length == 77

    def test_a_saver_may_have_a_retention_of_its_own(self, url):
        with AgentMemory(url, retention=Retention(keep_last=1)) as memory:
            one, three = memory.checkpointer, AgentMemorySaver(memory, retention=Retention(keep_last=3))
            everything_ = AgentMemorySaver(memory, retention=Retention())
            for thread, saver in (("one", one), ("three", three), ("all", everything_)):
                line = Line(saver, thread)
                for n in range(6):
                    line.put({"n": n})
            counts = {thread: len(ids(one.list(at(thread)))) for thread in ("one", "three", "all")}
            assert counts == {"one": 1, "three": 3, "all": 6}

    def test_one_that_was_opened_by_its_path_has_one_too(self, url):
        with AgentMemorySaver.from_conn_string(url, retention=Retention(keep_last=2)) as saver:
            line = Line(saver)
            for n in range(5):
                line.put({"n": n})
            assert len(ids(saver.list(at()))) == 2

    def test_a_thread_that_was_long_before_is_cut_a_little_with_every_put(self, url, rows):
        with AgentMemory(url) as memory:
            line = Line(memory.checkpointer)
            for n in range(MOST_LITTER * 3):
                line.put({"n": n, "text": f"text {n} " * 50})
        with AgentMemory(url, retention=Retention(keep_last=2)) as memory:
            line.saver = memory.checkpointer
            left = []
            for _ in range(4):
                line.put({"n": -1})
                left.append(len(ids(memory.checkpointer.list(at()))))
            assert left == [MOST_LITTER * 2 + 1, MOST_LITTER + 2, 3, 2]
            assert rows(memory)["part"] <= MOST_LITTER + 2
            assert memory.checkpointer.get(at())["channel_values"]["text"] == f"text {MOST_LITTER * 3 - 1} " * 50
            assert memory.admin.verify().problems == ()

    def test_putting_a_checkpoint_again_removes_none_that_is_kept(self, keeping):
        saver = keeping(keep_last=2).checkpointer
        line = Line(saver)
        for n in range(3):
            config = line.config
            checkpoint, metadata, new = line.next({"n": n})
            line.config = saver.put(config, checkpoint, metadata, new)
        before = everything(saver)
        assert saver.put(config, checkpoint, metadata, new) == line.config
        assert everything(saver) == before

    def test_a_fork_of_what_is_kept_goes_on_and_counts(self, keeping):
        saver = keeping(keep_last=4).checkpointer
        graph = logging_graph(saver, "a", "b")
        for turn in range(5):
            graph.invoke({"log": [f"{turn}"]}, at())
        oldest = list(graph.get_state_history(at()))[-1]
        graph.invoke({"log": ["fork"]}, oldest.config)
        assert graph.get_state(at()).values["log"] == [*oldest.values["log"], "fork", "a", "b"]
        assert lengths(saver) == {"": 4}

    def test_what_is_gone_can_be_neither_read_nor_listed(self, keeping):
        saver = keeping(keep_last=1).checkpointer
        line = Line(saver)
        first = line.put({"a": 1})
        saver.put_writes(first, [("a", 2)], "task")
        last = line.put({"a": 2})
        assert saver.get_tuple(first) is None
        assert saver.get_tuple(last).parent_config == first
        assert list(saver.list(at(), before=last)) == []
        saver.put_writes(first, [("a", 3)], "late")  # nothing is wrong with a straggler
        assert saver.get_tuple(first) is None
        assert saver.get(at())["channel_values"] == {"a": 2}


@pytest.mark.sqlite_suffices
class TestWhatGoes:
    def test_what_only_removed_checkpoints_needed_goes(self, keeping, rows):
        memory = keeping(keep_last=2)
        line = Line(memory.checkpointer)
        most = Counter()
        for n in range(300):
            config = line.put(
                {"text": f"text {n} " * 200, "state": {"deep": [f"{n} {m}" * 20 for m in range(40)]}, "n": n}
            )
            memory.checkpointer.put_writes(config, [("text", f"write {n} " * 200), ("n", n)], "task")
            most |= Counter(rows(memory) if n % 20 == 19 else {})
        assert most["checkpoint"] <= 2
        assert most["pending_write"] <= 4
        assert most["channel_value"] <= 3 * (MOST_LITTER + 4)
        assert most["part"] <= 16 * (MOST_LITTER + 4)
        assert most["content"] <= most["part"]
        assert memory.admin.stats()["content_bytes"] <= (MOST_LITTER + 4) * 8_000
        assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    def test_messages_that_are_still_needed_stay_and_others_go(self, keeping, rows):
        """A graph that keeps the last ten messages of a long talk."""
        memory = keeping(keep_last=2)

        def answer(state):
            old = [RemoveMessage(message.id) for message in state["messages"][:-10]]
            return {"messages": [*old, HumanMessage("AN ANSWER " * 50)]}

        builder = StateGraph(Chat)
        builder.add_node("answer", answer)
        builder.add_edge(START, "answer")
        graph = builder.compile(checkpointer=memory.checkpointer)
        for turn in range(80):
            graph.invoke({"messages": [HumanMessage(f"question {turn} " * 50)]}, at())
            said = [m.text for m in graph.get_state(at()).values["messages"]]
            assert said[-2] == f"question {turn} " * 50
            assert len(said) == min(2 * turn + 2, 11)
        assert rows(memory)["content"] <= MOST_LITTER + 14
        assert rows(memory)["part"] <= 4 * (MOST_LITTER + 14)
        assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    def test_all_messages_of_a_growing_talk_stay(self, keeping, rows):
        memory = keeping(keep_last=1)
        graph = chat_graph(memory.checkpointer)
        for turn in range(2 * MOST_LITTER):
            graph.invoke({"messages": [HumanMessage(f"turn {turn}")]}, at())
        said = [m.text for m in graph.get_state(at()).values["messages"]]
        assert said == [text for turn in range(2 * MOST_LITTER) for text in (f"turn {turn}", f"TURN {turn}")]
        assert rows(memory)["content"] <= len(said) + 4
        assert memory.admin.verify().problems == ()

    def test_writes_that_come_early_stay(self, keeping):
        memory = keeping(keep_last=1)
        saver, line = memory.checkpointer, Line(memory.checkpointer)
        for n in range(2 * MOST_LITTER):
            checkpoint, metadata, new = line.next({"n": n})
            saver.put_writes(at(checkpoint_id=checkpoint["id"]), [("text", f"early {n} " * 100)], "task")
            if n == MOST_LITTER:
                saver.prune(["t"])
            line.config = saver.put(line.config, checkpoint, metadata, new)
            assert saver.get_tuple(at()).pending_writes == [("task", "text", f"early {n} " * 100)]

    def test_writes_that_come_too_late_go_with_the_next_checkpoints(self, keeping, rows):
        with keeping(keep_last=1) as memory:
            line = Line(memory.checkpointer)
            first = line.put({"text": "one " * 50})
            line.put({"text": "two"})
            memory.checkpointer.put_writes(first, [("text", "late " * 50)], "task")
            for n in range(MOST_LITTER):
                line.put({"text": f"{n}"})
            assert memory.checkpointer.get_tuple(at("t")).checkpoint["channel_values"] == {"text": f"{n}"}
            assert rows(memory)["pending_write"] == 0
            assert "late" not in str(everything(memory.checkpointer))
            assert memory.admin.stats()["contents"] == 0

    def test_a_shelf_that_is_shared_with_a_copy_keeps_what_the_copy_needs(self, keeping, rows):
        memory = keeping(keep_last=2)
        saver = memory.checkpointer
        line = Line(saver)
        for n in range(3):
            line.put({"text": f"old {n} " * 50, "messages": [HumanMessage(f"{m}", id=f"{m}") for m in range(n)]})
        saver.copy_thread("t", "copy")
        before = everything(saver, "copy")
        for n in range(2 * MOST_LITTER):
            line.put({"text": f"new {n} " * 50, "messages": [HumanMessage(f"new {n}", id="x")]})
        assert everything(saver, "copy") == before
        assert rows(memory)["part"] <= 3 * MOST_LITTER
        assert memory.admin.verify().problems == ()

    def test_without_a_retention_everything_stays(self, keeping, rows):
        memory = keeping()
        line = Line(memory.checkpointer)
        for n in range(2 * MOST_LITTER):
            line.put({"text": f"text {n} " * 50})
        assert rows(memory)["checkpoint"] == rows(memory)["part"] == 2 * MOST_LITTER


@pytest.mark.sqlite_suffices
class TestSubgraphs:
    @pytest.mark.slow
    def test_lines_of_calls_that_ended_go(self, keeping, rows):
        memory = keeping(keep_last=2)
        inner = StateGraph(Log)
        inner.add_sequence([("x", lambda _: {"log": ["x"]}), ("y", lambda _: {"log": ["y"]})])
        inner.add_edge(START, "x")
        called = inner.compile()
        graph = logging_graph(
            memory.checkpointer, "before", "inner", "after", nodes={"inner": lambda _: called.invoke({"log": []})}
        )
        for turn in range(MOST_LITTER + 8):
            graph.invoke({"log": [f"{turn}"]}, at(), durability="sync")
            assert len(lengths(memory.checkpointer)) <= 3
        assert graph.get_state(at()).values["log"][-5:] == [f"{turn}", "before", "x", "y", "after"]
        assert rows(memory)["checkpoint_line"] <= 3
        assert rows(memory)["checkpoint"] <= 2 + 2 * 2
        assert memory.admin.verify().problems == ()

    def test_those_that_remember_by_themselves_stay(self, keeping):
        memory = keeping(keep_last=1)
        inner = StateGraph(Log)
        inner.add_sequence([("x", lambda state: {"log": [f"x{len(state['log'])}"]})])
        inner.add_edge(START, "x")
        remembering = inner.compile(checkpointer=True)
        graph = logging_graph(
            memory.checkpointer,
            "call",
            "other",
            nodes={"call": lambda _: {"log": remembering.invoke({"log": []})["log"][-1:]}},
        )
        for turn in range(6):
            graph.invoke({"log": []}, at())
            assert graph.get_state(at()).values["log"][-2:] == [f"x{turn}", "other"]
            assert lengths(memory.checkpointer) == {"": 1, "call": 1}
        for _ in range(3):  # the parent goes on without calling it
            graph.update_state(at(), {"log": ["put in"]}, as_node="other")
        graph.invoke({"log": []}, at())
        assert graph.get_state(at()).values["log"][-2:] == ["x6", "other"]

    def test_those_within_one_another_go_together(self, keeping, rows):
        memory = keeping(keep_last=1)
        deepest = StateGraph(Log)
        deepest.add_sequence([("deep", lambda _: {"log": ["deep"]})])
        deepest.add_edge(START, "deep")
        middle = StateGraph(Log)
        middle.add_sequence([("down", deepest.compile()), ("up", lambda _: {"log": ["up"]})])
        middle.add_edge(START, "down")
        graph = logging_graph(memory.checkpointer, "middle", "end", nodes={"middle": middle.compile()})
        for turn in range(6):
            graph.invoke({"log": [f"{turn}"]}, at())
        assert rows(memory)["checkpoint_line"] == 1
        assert graph.get_state(at()).values["log"][-1] == "end"


class TestInterrupts:
    @pytest.mark.slow
    @pytest.mark.parametrize("make", [asking_graph, outer_graph])
    async def test_a_run_that_waits_can_be_resumed(self, keeping, make):
        memory = keeping(keep_last=1)
        graph = make(memory.checkpointer)
        for turn in range(4):
            graph.invoke({"log": [f"{turn}"]}, at())
            before = graph.get_state(at(), subgraphs=True)
            assert len(before.interrupts) == 1
            if turn % 2:
                await graph.ainvoke(Command(resume=f"answer {turn}"), at())
            else:
                make(AgentMemorySaver(memory)).invoke(Command(resume=f"answer {turn}"), at())
            assert f"answer {turn}" in graph.get_state(at()).values["log"]
            assert graph.get_state(at()).next == ()

    def test_several_that_wait_at_once_are_answered_one_after_the_other(self, keeping):
        memory = keeping(keep_last=1)
        ask = {name: lambda _, name=name: {"log": [f"{name} {interrupt(name)}"]} for name in ("x", "y", "z")}
        graph = parallel_graph(memory.checkpointer, **ask, quiet=lambda _: {"log": ["quiet"]})
        graph.invoke({"log": []}, at())
        for waiting in (3, 2, 1):
            interrupts = graph.get_state(at()).interrupts
            assert len(interrupts) == waiting
            graph.invoke(Command(resume={interrupts[0].id: "yes"}), at())
        assert sorted(graph.get_state(at()).values["log"]) == ["quiet", "x yes", "y yes", "z yes"]

    def test_two_questions_within_one_subgraph(self, keeping):
        memory = keeping(keep_last=1)
        inner = StateGraph(Log)
        inner.add_sequence([(name, lambda _, name=name: {"log": [interrupt(name)]}) for name in ("first", "second")])
        inner.add_edge(START, "first")
        graph = logging_graph(memory.checkpointer, "inner", "after", nodes={"inner": inner.compile()})
        for turn in range(3):
            graph.invoke({"log": [f"{turn}"]}, at())
            for answer in ("one", "two"):
                graph = logging_graph(AgentMemorySaver(memory), "inner", "after", nodes={"inner": inner.compile()})
                graph.invoke(Command(resume=answer), at())
            assert graph.get_state(at()).values["log"][-3:] == ["one", "two", "after"]

    def test_a_run_that_failed_goes_on_where_it_was(self, keeping):
        memory = keeping(keep_last=1)
        broken = [True]

        def fail(_):
            if broken.pop():
                raise ZeroDivisionError
            return {"log": ["done"]}

        graph = parallel_graph(memory.checkpointer, quiet=lambda _: {"log": ["quiet"]}, fail=fail)
        for _ in range(3):
            broken[:] = [False, True]
            with pytest.raises(ZeroDivisionError):
                graph.invoke({"log": ["in"]}, at())
            assert graph.invoke(None, at())["log"][-2:] in (["quiet", "done"], ["done", "quiet"])

    def test_the_state_within_can_be_updated_while_it_waits(self, keeping):
        memory = keeping(keep_last=1)
        graph = outer_graph(memory.checkpointer)
        graph.invoke({"log": ["in"]}, at())
        within = graph.get_state(at(), subgraphs=True).tasks[0].state.config
        graph.update_state(within, {"log": ["put in"]})
        graph.invoke(Command(resume="yes"), at())
        assert graph.get_state(at()).values["log"][-3:] == ["put in", "yes", "after"]


class TestDeltaChannels:
    def test_their_threads_stay_whole(self, keeping):
        memory = keeping(keep_last=1, max_age=timedelta(seconds=1))
        graph = delta_graph(memory.checkpointer)
        log = []
        for turn in range(8):
            graph.invoke({"log": [f"{turn}"]}, at())
            log += [f"{turn}", "a", "b"]
            assert graph.get_state(at()).values["log"] == log
        states = list(graph.get_state_history(at()))
        assert len(states) == 32
        assert all(state.values["log"] == log[: len(state.values["log"])] for state in states)

    def test_a_thread_that_becomes_one_keeps_what_it_has_then(self, keeping):
        memory = keeping(keep_last=2)
        plain = logging_graph(memory.checkpointer, "a", "b")
        for turn in range(4):
            plain.invoke({"log": [f"{turn}"]}, at())
        log = plain.get_state(at()).values["log"]
        graph = delta_graph(memory.checkpointer)
        for turn in range(4):
            graph.invoke({"log": [f"more {turn}"]}, at())
            log += [f"more {turn}", "a", "b"]
            assert graph.get_state(at()).values["log"] == log
        assert len(ids(memory.checkpointer.list(at()))) >= 16


class TestMaxAge:
    def test_what_is_too_old_goes_with_the_next_put(self, keeping, clock):
        saver = keeping(max_age=timedelta(hours=1)).checkpointer
        line = Line(saver)
        put = []
        for n in range(4):
            put.insert(0, id_in(line.put({"n": n})))
            clock.pass_time(minutes=25)
            assert ids(saver.list(at())) == put[:3]
        clock.pass_time(days=1)
        assert ids(saver.list(at())) == put[:3]
        put.insert(0, id_in(line.put({"n": 4})))
        assert ids(saver.list(at())) == put[:1]
        assert saver.get(at())["channel_values"] == {"n": 4}

    def test_the_newest_stays_however_old_it_is(self, keeping, clock):
        memory = keeping(max_age=timedelta(milliseconds=1))
        graph = chat_graph(memory.checkpointer)
        for turn in range(3):
            graph.invoke({"messages": [f"{turn}"]}, at())
            clock.pass_time(days=400)
            assert len(graph.get_state(at()).values["messages"]) == 2 * turn + 2
        assert lengths(memory.checkpointer) == {"": 1}

    def test_a_run_that_waited_for_long_can_be_resumed(self, keeping, clock):
        memory = keeping(max_age=timedelta(minutes=1))
        graph = outer_graph(memory.checkpointer)
        graph.invoke({"log": ["in"]}, at())
        clock.pass_time(days=30)
        graph.invoke({"log": ["elsewhere"]}, at("other"))
        graph.invoke(Command(resume="yes"), at())
        assert graph.get_state(at()).values["log"][-2:] == ["yes", "after"]

    def test_both_limits_hold_together(self, keeping, clock):
        saver = keeping(keep_last=3, max_age=timedelta(hours=1)).checkpointer
        line = Line(saver)
        for n in range(6):
            line.put({"n": n})
        assert lengths(saver) == {"": 3}
        clock.pass_time(hours=2)
        line.put({"n": 6})
        assert lengths(saver) == {"": 1}

    def test_lines_of_old_calls_go(self, keeping, clock, rows):
        memory = keeping(max_age=timedelta(hours=1))
        graph = outer_graph(memory.checkpointer)
        for turn in range(3):
            graph.invoke({"log": [f"{turn}"]}, at())
            graph.invoke(Command(resume="yes"), at())
            clock.pass_time(hours=2)
        graph.update_state(at(), {"log": ["put in"]}, as_node="after")
        assert rows(memory)["checkpoint_line"] == 1


def size(path):
    """Bytes of a SQLite database without what is only in its write-ahead log."""
    return Path(path).stat().st_size


@pytest.mark.sqlite_suffices
class TestPruning:
    def long_thread(self, memory, count, thread="t"):
        line = Line(memory.checkpointer, thread)
        for n in range(count):
            line.put({"text": f"text {n} " * 400, "n": n})
        return line

    def test_the_file_of_a_database_shrinks(self, tmp_path):
        path = tmp_path / "a.db"
        with AgentMemory(path) as memory:
            stats = memory.admin.stats()
            tables = stats["bytes"] - stats["free_bytes"]  # what they take when they are empty
            self.long_thread(memory, 700)
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("pragma wal_checkpoint(truncate)")
            before = size(path)
            assert before > 2_500_000
            memory.checkpointer.prune(["t"])
            stats = memory.admin.stats()
            assert stats["parts"] == 1
            assert stats["checkpoints"] == 1
            assert stats["bytes"] - stats["free_bytes"] - tables < before / 20
            assert stats["free_bytes"] <= 2**20
            assert memory.admin.verify().problems == ()
        assert size(path) < before / 2

    def test_deleting_gives_space_back_too(self, tmp_path):
        path = tmp_path / "a.db"
        with AgentMemory(path) as memory:
            self.long_thread(memory, 700)
            before = memory.admin.stats()["bytes"]
            memory.checkpointer.delete_thread("t")
            assert memory.admin.stats()["bytes"] < before / 2
            assert memory.admin.stats()["free_bytes"] <= 2**20

    def test_others_write_while_more_than_a_thousand_are_pruned(self, url):
        count = 5 * BATCH + 50
        with AgentMemory(url) as memory, AgentMemory(url, busy_timeout=120) as other:
            line = Line(memory.checkpointer)
            for n in range(count):
                line.put({"n": n})
            begun, done, written = threading.Event(), threading.Event(), []

            def write():
                mine = Line(other.checkpointer, "other")
                while not done.is_set():
                    other.conversation("c").add_user_message("meanwhile")
                    written.append(mine.put({"n": len(written)}))
                    begun.set()

            with ThreadPoolExecutor() as threads:
                writing = threads.submit(write)
                try:
                    assert begun.wait(120)
                    memory.checkpointer.prune(["t"])
                finally:
                    done.set()
                writing.result(120)
            assert lengths(memory.checkpointer) == {"": 1}
            assert lengths(memory.checkpointer, "other") == {"": len(written)}
            assert len(memory.conversation("c")) == len(written)
            assert memory.admin.verify().problems == ()

    def test_between_two_batches_anybody_may_write(self, url, monkeypatch):
        with AgentMemory(url) as memory, AgentMemory(url, busy_timeout=10) as other:  # who has to wait waits in vain
            line, mine = Line(memory.checkpointer), Line(other.checkpointer, "other")
            for n in range(5 * BATCH + 50):
                line.put({"n": n})
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
            assert sum(removed) == 5 * BATCH + 49
            assert max(removed) <= BATCH
            assert lengths(other.checkpointer, "other") == {"": len(removed)}

    def test_a_thread_that_goes_on_meanwhile_is_whole(self, url):
        with AgentMemory(url) as memory, AgentMemory(url) as other:
            graph = chat_graph(memory.checkpointer)
            turns = 30
            for turn in range(turns):
                graph.invoke({"messages": [f"{turn}"]}, at())
                if turn % 7 == 6:
                    other.checkpointer.prune(["t"])
                    assert lengths(other.checkpointer) == {"": 1}
            said = [m.text for m in chat_graph(other.checkpointer).get_state(at()).values["messages"]]
            assert said == [f"{turn}" for turn in range(turns) for _ in "qa"]
            assert memory.admin.verify().problems == ()

    def test_nothing_but_the_newest_of_each_line_is_left(self, memory, rows):
        saver = memory.checkpointer
        for ns in ("", "child"):
            line = Line(saver, ns=ns)
            for n in range(5):
                config = line.put({"text": f"{ns} {n} " * 100, "n": n})
                saver.put_writes(config, [("text", f"write {ns} {n} " * 100)], "task")
        saver.prune(["t"])
        assert rows(memory) == {
            "checkpoint": 2,
            "channel_value": 4,
            "pending_write": 2,
            "part": 4,
            "checkpoint_line": 2,
            "content": 4,
        }

    def test_what_a_retention_has_left_lying_goes_too(self, keeping, rows):
        memory = keeping(keep_last=1)
        line = Line(memory.checkpointer)
        for n in range(MOST_LITTER // 2):
            line.put({"text": f"text {n} " * 100})
        memory.checkpointer.prune(["t"])
        assert rows(memory)["channel_value"] == rows(memory)["part"] == 1

    def test_what_a_copy_of_the_thread_needs_stays(self, memory):
        fill(memory.checkpointer)
        saver = memory.checkpointer
        for thread in ("chat", "asking", "outer"):
            saver.copy_thread(thread, f"copy of {thread}")
        before = {name: everything(saver, f"copy of {name}") for name in ("chat", "asking", "outer")}
        saver.prune(["chat", "asking", "outer"])
        assert {name: everything(saver, f"copy of {name}") for name in before} == before
        go_on(saver)
        assert outer_graph(saver).invoke(Command(resume="yes"), at("copy of outer"))["log"][-2:] == ["yes", "after"]
        assert {name: everything(saver, f"copy of {name}") for name in ("chat", "asking")} == {
            name: before[name] for name in ("chat", "asking")
        }
        assert memory.admin.verify().problems == ()

    def test_a_copy_that_is_pruned_leaves_the_original(self, memory):
        fill(memory.checkpointer)
        saver = memory.checkpointer
        saver.copy_thread("chat", "copy")
        before = seen(saver)
        saver.prune(["copy"])
        assert seen(saver) == before
        assert len(everything(saver, "copy")) == 1
        saver.prune(["copy"], strategy="delete")
        assert seen(saver) == before

    @pytest.mark.parametrize("remove", [lambda saver, name: saver.prune([name]), AgentMemorySaver.delete_thread])
    @pytest.mark.parametrize("first", range(3))
    def test_threads_that_share_a_shelf_keep_each_what_they_have_and_what_waits(self, memory, remove, first):
        saver = memory.checkpointer
        names = ["t", "copy", "another"]
        line = Line(saver)
        line.put({"messages": [HumanMessage("of all " * 50, id="all")], "text": "of all " * 50})
        for name in names[1:]:
            saver.copy_thread("t", name)
        for name in names:
            own = Line(saver, name).fork(saver.get_tuple(at(name)).config)
            own.put({"messages": [HumanMessage(f"only in {name} " * 50, id=name)], "text": f"only in {name} " * 50})
            saver.put_writes(own.config, [("text", f"waits in {name} " * 50)], "task")
            saver.put_writes(
                own.config, [("messages", [HumanMessage(f"waits in {name}", id="w")])], "task of a message"
            )
        before = {name: everything(saver, name) for name in names}
        for name in names[first:] + names[:first]:
            latest = before.pop(name)[-1]
            remove(saver, name)
            assert everything(saver, name) in ([latest], [])
            assert {other: everything(saver, other) for other in before} == before
            assert memory.admin.verify().problems == ()

    async def test_the_awaited_twin_does_the_same(self, memory):
        self.long_thread(memory, 5)
        await memory.checkpointer.aprune(["t"])
        assert memory.admin.stats()["checkpoints"] == 1


@pytest.mark.sqlite_suffices
class TestStaleSavers:
    """Two processes, one of which remembers where things lay before the other swept the shelf."""

    @pytest.fixture
    def two(self, url):
        with AgentMemory(url) as one, AgentMemory(url) as two:
            yield one.checkpointer, two.checkpointer

    def talk(self, saver, texts, thread="t"):
        graph = chat_graph(saver)
        for text in texts:
            graph.invoke({"messages": [HumanMessage(text)]}, at(thread))
        return graph

    def test_what_one_swept_away_the_other_stores_again(self, two):
        stale, other = two
        line = Line(stale)
        messages = [HumanMessage(f"{n}", id=f"m{n}") for n in range(6)]
        line.put({"messages": messages, "text": "x" * 999})
        line.put({"messages": messages[:2], "text": "y" * 999})
        other.prune(["t"])
        line.put({"messages": messages, "text": "x" * 999})  # these objects say that they lie on the shelf
        for saver in two:
            assert saver.get(at())["channel_values"] == {"messages": messages, "text": "x" * 999}
        assert stale.database.engine.read is not other.database.engine.read

    def test_so_it_does_wherever_a_message_stands(self, two):
        stale, other = two
        line = Line(stale)
        messages = [HumanMessage(f"{n}", id=f"m{n}") for n in range(6)]
        for values in (
            {"messages": [HumanMessage("new", id="new"), *messages]},
            {"messages": [], "one": messages[5]},
            {"messages": [], "one": None, "deep": {"one": messages[3], "all": messages}},
        ):
            line.put({"messages": messages, "text": "x" * 999})
            line.put({"messages": messages[:2], "text": "y" * 999})
            other.prune(["t"])
            line.put(values)
            for saver in two:
                assert saver.get(at())["channel_values"] == line.values

    def test_what_was_deleted_and_begun_anew_is_not_mixed_up(self, two):
        stale, other = two
        messages = [HumanMessage(f"{n}", id=f"m{n}") for n in range(4)]
        line = Line(stale)
        line.put({"messages": messages})
        other.delete_thread("t")
        Line(other).put({"messages": [HumanMessage("new", id=f"m{n}") for n in range(9)]})
        line.put({"messages": messages})
        assert stale.get(at())["channel_values"]["messages"] == messages
        assert other.get(at())["channel_values"]["messages"] == messages

    def test_what_was_read_before_a_sweep_may_be_put_after_it(self, two):
        stale, other = two
        self.talk(other, ["one", "two"])
        read = stale.get(at())["channel_values"]["messages"]
        graph = self.talk(other, ["three"])
        graph.update_state(at(), {"messages": [RemoveMessage(message.id) for message in read]})
        other.prune(["t"])
        line = Line(stale)
        line.put({"messages": read})
        for saver in two:
            assert [m.text for m in saver.get(at())["channel_values"]["messages"]] == ["one", "ONE", "two", "TWO"]

    def test_what_was_put_is_stored_as_it_was_then_although_the_shelf_was_swept_meanwhile(self, two, monkeypatch):
        stale, other = two
        messages = [HumanMessage(f"{n}", id=f"m{n}") for n in range(3)]
        line = Line(stale)
        for n in range(3):
            line.put({"messages": messages, "text": f"{n}" * 999})
        other.prune(["t"])
        engine = stale.database.engine
        write = engine.write

        def a_little_later(make):
            messages[0].content = "changed since"
            return write(make)

        monkeypatch.setattr(engine, "write", a_little_later)
        config = line.put({"messages": messages[:]})
        stale.put_writes(config, [("messages", messages[1:])], "task")
        for saver in two:
            found = saver.get_tuple(at())
            assert [m.text for m in found.checkpoint["channel_values"]["messages"]] == ["0", "1", "2"]
            assert [m.text for m in found.pending_writes[0][2]] == ["1", "2"]
        assert engine is not other.database.engine

    def test_they_take_turns_while_both_sweep(self, url):
        with (
            AgentMemory(url, retention=Retention(keep_last=1)) as one,
            AgentMemory(url, retention=Retention(keep_last=2)) as two,
        ):
            said = []
            for turn in range(50):
                memory = (one, two)[turn % 2]
                graph = chat_graph(memory.checkpointer)
                graph.invoke({"messages": [HumanMessage(f"{turn} " * 30)]}, at())
                said += [f"{turn} " * 30] * 2
                if turn % 10 == 9:
                    messages = graph.get_state(at()).values["messages"]
                    graph.update_state(at(), {"messages": [RemoveMessage(message.id) for message in messages[:5]]})
                    said = said[5:]
                    memory.checkpointer.prune(["t"])
                assert [m.text for m in graph.get_state(at()).values["messages"]] == said
            assert one.admin.verify().problems == ()

    def test_a_reader_that_remembers_much_reads_what_is_there(self, two):
        reader, writer = two
        line = Line(writer)
        for n in range(20):
            line.put({"messages": [HumanMessage(f"{n} {m}", id=f"m{m}") for m in range(5)], "text": f"{n}" * 999})
            assert reader.get(at())["channel_values"] == line.values
            if n % 4 == 3:
                writer.prune(["t"])
            assert reader.get(at())["channel_values"] == line.values


class TestOrderOfLocks:
    """Two that remove the same would wait for each other, if one held the shelf first and the other held it last."""

    @pytest.mark.parametrize("text", ["short", "long " * 99])
    @pytest.mark.parametrize(
        "remove",
        [
            lambda saver, line: line.put({"text": f"{line.step}"}),
            lambda saver, line: saver.prune(["t"]),
            lambda saver, line: saver.delete_thread("t"),
            lambda saver, line: saver.delete_for_runs(["run"]),
        ],
        ids=["put", "prune", "delete_thread", "delete_for_runs"],
    )
    def test_whoever_removes_holds_the_shelf_before_anything_else(self, memory, monkeypatch, remove, text):
        saver = AgentMemorySaver(memory, retention=Retention(keep_last=3))
        line = Line(saver)
        for n in range(3):
            line.put({"text": f"{text} {n}"}, run_id="run")
        seen = []
        write = memory.database.engine.write
        monkeypatch.setattr(memory.database.engine, "write", lambda make: write(lambda: watched(make(), seen)))
        remove(saver, line)
        changes = [name for name in seen if name.startswith(CHANGES)]
        assert any(name.startswith("delete_") for name in changes)
        assert changes[0] in ("lock_shelf", "take_numbers", "clear_litter")


CHANGES = ("delete_", "insert_", "take_", "lock_", "use_", "clear_", "mark_", "add_", "store_")


def watched(steps, seen):
    """The same operation, which notes the names of its queries."""
    rows = None
    while True:
        try:
            statement = steps.send(rows)
        except StopIteration as done:
            return done.value
        seen.append(statement.query)
        rows = yield statement


def test_a_path_object_and_its_text_are_one_database(tmp_path):
    path = Path(tmp_path) / "a.db"
    with AgentMemory(path, retention=Retention(keep_last=1)) as memory, AgentMemory(str(path)) as other:
        line = Line(memory.checkpointer)
        line.put({"n": 1})
        line.put({"n": 2})
        assert other.admin.stats()["checkpoints"] == 1
