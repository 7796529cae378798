"""Import of all threads of another saver with their whole history.

PostgresSaver's threads come in `tests/cli/full/test_saver_import.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import operator
import time
from functools import partial
from typing import Annotated, TypedDict

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from langchain_agentmem import AgentMemory, AgentMemorySaver, Retention
from langchain_agentmem.base.concurrency import check_cancelled
from langchain_agentmem.checkpoints.checkpoint_saver import ImportReport
from langchain_agentmem.errors import InvalidInput
from tests.support.graphs import at as within
from tests.support.graphs import beside
from tests.threads.filled import GRAPHS, THREADS, Delta, everything, fill, go_on, seen
from tests.threads.own_store import aes, strict

from .graphs import Line, asking_graph, at, chat_graph, id_in, logging_graph

pytestmark = [pytest.mark.sqlite_suffices, pytest.mark.verified]


@pytest.fixture(scope="module")
def _filled_in_memory():
    saver = InMemorySaver(serde=strict())
    fill(saver)
    return saver


@pytest.fixture
def in_memory(_filled_in_memory):
    saver = InMemorySaver(serde=strict())
    for name in ("storage", "writes", "blobs"):
        getattr(saver, name).update(copy.deepcopy(getattr(_filled_in_memory, name)))
    return saver


@pytest.fixture
def stock(tmp_path):
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(tmp_path / "foreign.db")) as saver:
        saver.serde = strict()
        yield saver


@pytest.fixture(params=["memory", "sqlite", "ours"])
def source(request, new_database):
    """A saver of each kind with threads of every kind."""
    if request.param == "memory":
        yield request.getfixturevalue("in_memory")
    elif request.param == "sqlite":
        fill(saver := request.getfixturevalue("stock"))
        yield saver
    else:
        with AgentMemory(new_database("sqlite")) as memory:
            fill(memory.checkpointer)
            yield memory.checkpointer


def count(saver):
    return sum(map(len, seen(saver).values()))


def shown(saver):
    """All that is in a saver, but for snapshots of DeltaChannels: SqliteSaver hands each out once, others whenever its
    version is named."""
    found = seen(saver)
    for _, _, _, checkpoint, _, _ in found["delta"]:
        checkpoint["channel_values"].pop("log", None)
    return found


def history(graph, thread="t"):
    """Return every checkpoint of a graph as users see it."""
    return [
        (id_in(state.config), state.values, state.next, state.interrupts, state.metadata, state.created_at)
        for state in graph.get_state_history(at(thread))
    ]


def states(saver):
    return {thread: history(graph(saver), thread) for thread, graph in GRAPHS.items()}


def ab(saver):
    return logging_graph(saver, "a", "b")


class TestImport:
    def test_import_copies_the_whole_history_once(self, saver, memory, source):
        before, before_states = shown(source), states(source)
        report = saver.import_checkpoints(source)
        assert report == ImportReport(checkpoints=count(source), known=0, threads=len(THREADS))
        assert shown(saver) == before == shown(source)
        assert states(saver) == before_states
        stats = memory.admin.stats()
        again = saver.import_checkpoints(source)
        assert again == ImportReport(checkpoints=0, known=report.checkpoints, threads=len(THREADS))
        for name in ("threads", "checkpoints", "writes", "parts", "contents", "content_bytes", "messages"):
            assert memory.admin.stats()[name] == stats[name], name
        assert go_on(saver) == go_on(source)
        assert [len(found) for found in shown(saver).values()] == [len(found) for found in shown(source).values()]

    async def test_import_from_an_async_only_saver(self, saver, in_memory):
        class Awaited(BaseCheckpointSaver):
            async def alist(self, config, **options):
                for found in in_memory.list(config, **options):
                    yield found

            async def aget_tuple(self, config):
                return in_memory.get_tuple(config)

        def interrupted(report):
            if report.checkpoints == 5:
                raise RuntimeError

        assert (await saver.aimport_checkpoints(Awaited(), thread_ids=["line"])).threads == 1
        with pytest.raises(RuntimeError):
            await saver.aimport_checkpoints(Awaited(), progress=interrupted)
        report = await saver.aimport_checkpoints(Awaited())
        assert report == ImportReport(checkpoints=count(in_memory) - 7, known=7, threads=len(THREADS))
        assert shown(saver) == shown(in_memory)
        go_on(saver)

    async def test_a_cancelled_import_stops(self, saver, in_memory):
        seen = []

        def cancelled(report):
            seen.append(report)
            loop.call_soon_threadsafe(task.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                while check_cancelled() is None:
                    time.sleep(0.01)

        loop = asyncio.get_running_loop()
        task = loop.create_task(saver.aimport_checkpoints(in_memory, progress=cancelled))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(seen) == 1

    async def test_import_from_async_sqlite_saver(self, saver, tmp_path):
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "foreign.db")) as source:
            await asking_graph(source).ainvoke({"log": ["in"]}, at())
            report = await saver.aimport_checkpoints(source)
            assert (await saver.aimport_checkpoints(source)).known == report.checkpoints == 3
        assert (await asking_graph(saver).ainvoke(Command(resume="yes"), at()))["log"] == ["in", "a", "yes", "z"]

    def test_imported_threads_ignore_retention(self, url, in_memory):
        with AgentMemory(url, retention=Retention(keep_last=1)) as memory:
            memory.checkpointer.import_checkpoints(in_memory)
        with AgentMemory(url) as memory:
            assert shown(memory.checkpointer) == shown(in_memory)
            go_on(memory.checkpointer)

    def test_imported_agentmem_threads_keep_their_namespace(self, saver):
        with AgentMemory() as memory:
            for namespace in ((), ("a",), ("b", "c")):
                given = {"messages": [f"in {namespace}"]}
                chat_graph(memory.checkpointer).invoke(given, within("t", namespace=namespace))
            assert saver.import_checkpoints(memory.checkpointer) == ImportReport(checkpoints=9, threads=3)
        for namespace in ((), ("a",), ("b", "c")):
            found = chat_graph(saver).get_state(within("t", namespace=namespace))
            assert found.values["messages"][0].text == f"in {namespace}"


class Log(TypedDict):
    log: Annotated[list[str], operator.add]
    name: str


def asking_two(saver):
    return beside(saver, **{name: lambda _, name=name: {"log": [f"{name} {interrupt(name)}"]} for name in ("x", "y")})


class TestPendingWrites:
    def test_pending_writes_keep_order_and_are_not_rerun(self, saver):
        source, done, broken = InMemorySaver(), [], [True]

        def work(part):
            done.append(part["name"])
            return {"log": [part["name"], part["name"].upper()]}

        def fail(_):
            if broken:
                raise ZeroDivisionError
            return {"log": ["mended"]}

        def graph(saver):
            builder = StateGraph(Log).add_node(work).add_node(fail).add_node("end", lambda _: {"log": ["end"]})
            builder.add_edge(START, "fail").add_edge(["work", "fail"], "end")
            builder.add_conditional_edges(START, lambda _: [Send("work", {"name": f"part {n}"}) for n in range(12)])
            return builder.compile(checkpointer=saver)

        with pytest.raises(ZeroDivisionError):  # after all others, since they take turns
            graph(source).invoke({"log": ["in"]}, at() | {"max_concurrency": 1}, durability="sync")
        assert len({task for task, *_ in source.get_tuple(at()).pending_writes}) >= 12
        saver.import_checkpoints(source)
        assert everything(saver) == everything(source)
        broken.clear()
        ends = []
        for each in (source, saver):
            done.clear()
            ends.append((graph(each).invoke(None, at()), sorted(done)))
        assert ends[0] == ends[1]
        assert len(ends[0][0]["log"]) == 1 + 24 + 2

    def test_resume_answers_are_imported(self, saver):
        """Later answers are written under a checkpoint that is known already."""
        for before in (False, True):
            source = InMemorySaver()
            saver.delete_thread("t")
            asking_two(source).invoke({"log": []}, at())
            if not before:
                saver.import_checkpoints(source)
            first, second = asking_two(source).get_state(at()).interrupts
            asking_two(source).invoke(Command(resume={first.id: "yes"}), at())
            saver.import_checkpoints(source)
            assert [each.id for each in asking_two(saver).get_state(at()).interrupts] == [second.id]
            log = asking_two(saver).invoke(Command(resume={second.id: "no"}), at())["log"]
            assert sorted(log) == sorted([f"{first.value} yes", f"{second.value} no"])


class TestRepeatedImport:
    def test_an_interrupted_import_can_be_continued(self, saver, memory, in_memory):
        told, known = [], 0

        def interrupted(report):
            told.append(report)
            assert memory.admin.stats()["checkpoints"] == max(known, report.known + report.checkpoints)
            if report.checkpoints == 7:
                raise KeyboardInterrupt

        for known in (0, 7):
            with pytest.raises(KeyboardInterrupt):
                saver.import_checkpoints(in_memory, progress=interrupted)
            assert (told[-1].checkpoints, told[-1].known) == (7, known)
            assert memory.admin.verify().problems == ()
        report = saver.import_checkpoints(in_memory, progress=told.append)
        assert told[-1] == report == ImportReport(checkpoints=count(in_memory) - 14, known=14, threads=len(THREADS))
        assert shown(saver) == shown(in_memory)
        go_on(saver)

    def test_reimport_adds_new_checkpoints(self, saver, in_memory):
        saver.import_checkpoints(in_memory)
        texts = go_on(in_memory)
        saver.import_checkpoints(in_memory)
        assert [m.text for m in chat_graph(saver).get_state(at("chat")).values["messages"]] == texts
        ours, theirs = states(saver), states(in_memory)
        for thread in GRAPHS:
            assert [state[1:3] for state in ours[thread]] == [state[1:3] for state in theirs[thread]]
            assert len(everything(saver, thread)) == len(everything(in_memory, thread))

    def test_local_memory_is_not_attributed_to_imported_tasks(self, memory, in_memory):
        """Tasks of one step have the same ids in both savers, but are different executions."""

        def graph(saver, here):
            def left(state, config):
                if here:
                    memory.layers(config).core.set("left", "here")
                return {"log": ["left"]}

            def right(state):
                return {"log": [interrupt("?") if here else "right"]}

            return beside(saver, left=left, right=right)

        stopped = {"interrupt_before": ["left", "right"]}
        graph(in_memory, here=False).invoke({"log": ["hello"]}, at(), **stopped)
        memory.checkpointer.import_checkpoints(in_memory)
        graph(memory.checkpointer, here=True).invoke(None, at())
        graph(in_memory, here=False).invoke(None, at())
        memory.checkpointer.import_checkpoints(in_memory)
        found = graph(memory.checkpointer, here=True).get_state(at()).values["log"]
        assert found == ["hello", "left", "right"]
        assert memory.layers(at()).core.get() == {}

    def test_reimport_adds_delta_channel_writes(self, saver, in_memory):
        def graph(saver):
            return logging_graph(saver, "a", "ask", state=Delta, nodes={"ask": lambda _: {"log": [interrupt("?")]}})

        graph(in_memory).invoke({"log": ["in"]}, at("waiting"))
        saver.import_checkpoints(in_memory)
        graph(in_memory).invoke(Command(resume="yes"), at("waiting"))
        saver.import_checkpoints(in_memory)
        for each in (in_memory, saver):
            assert graph(each).get_state(at("waiting")).values == {"log": ["in", "a", "yes"]}

    def test_locally_continued_threads_are_not_overwritten(self, saver, memory, in_memory):
        saver.import_checkpoints(in_memory)
        go_on(saver)
        before = shown(saver)
        assert saver.import_checkpoints(in_memory).left_out == {}
        assert shown(saver) == before
        go_on(in_memory)
        report = saver.import_checkpoints(in_memory)
        assert "erase it here" in report.left_out["chat"]
        assert shown(saver)["chat"] == before["chat"]


def test_thread_ids_selects_the_imported_threads(saver, in_memory):
    for thread_ids in ([], ["nobody"]):
        assert saver.import_checkpoints(in_memory, thread_ids=thread_ids) == ImportReport()
    with pytest.raises(InvalidInput, match="None cannot be the id of a checkpoint"):
        saver.adopt(CheckpointTuple(at(), {}, {}))
    with pytest.raises(InvalidInput, match="list of threads"):
        saver.import_checkpoints(in_memory, thread_ids="asking")
    assert list(saver.list(None)) == []
    assert saver.import_checkpoints(in_memory, thread_ids=["asking", "delta"]).threads == 2
    for thread, found in shown(saver).items():
        assert found == (shown(in_memory)[thread] if thread in ("asking", "delta") else [])


class TestSerializers:
    def test_import_converts_between_plain_and_encrypted(self, saver, tmp_path, in_memory):
        with AgentMemory(tmp_path / "a.db") as memory:
            encrypted = AgentMemorySaver(memory, serde=aes())
            Line(in_memory, "line").put({"text": "secret words " * 50})
            encrypted.import_checkpoints(in_memory)
            assert not any(b"secret words" in file.read_bytes() for file in tmp_path.iterdir())
            saver.import_checkpoints(encrypted)
            for each in (encrypted, saver):
                assert shown(each) == shown(in_memory)
                go_on(each)

    def test_an_unserializable_value_stops_the_import(self, saver, memory):
        class Odd(InMemorySaver):
            def get_tuple(self, config):
                found = super().get_tuple(config)
                if found is not None and found.metadata["step"] == 1:
                    found.checkpoint["channel_values"]["log"] = object()
                return found

        source = Odd()
        ab(source).invoke({"log": ["in"]}, at())
        assert {found.metadata["step"] for found in source.list(None)} == {-1, 0, 1, 2}
        with pytest.raises(InvalidInput, match="'t'"):
            saver.import_checkpoints(source)
        assert memory.admin.stats()["checkpoints"] == 2


def test_numeric_versions_of_forks_are_kept_apart(saver, stock):
    stock.get_next_version = partial(BaseCheckpointSaver.get_next_version, stock)
    graph = ab(stock)
    graph.invoke({"log": ["first"]}, at())
    saver.import_checkpoints(stock)
    early = list(graph.get_state_history(at()))[1].config
    graph.update_state(early, {"log": ["on a fork"]}, as_node="a")
    graph.invoke(None, at())
    saver.import_checkpoints(stock)
    assert history(ab(saver)) == history(graph)
    for state in ab(saver).get_state_history(at()):
        config = at(checkpoint_id=id_in(state.config))
        assert ab(saver).invoke(None, config) == graph.invoke(None, config)
