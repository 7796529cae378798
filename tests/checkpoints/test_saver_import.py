"""Every thread of another saver comes with its whole history, and goes on here as if it had always been here."""

from __future__ import annotations

import contextlib
import copy
import operator
import time
from typing import Annotated, TypedDict

import psycopg
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from langchain_agentmem import AgentMemory, AgentMemorySaver
from langchain_agentmem.checkpoints.saver_import import ImportReport
from langchain_agentmem.errors import InvalidInput
from tests.emptying import direct
from tests.threads.filled import GRAPHS, THREADS, Delta, delta_graph, everything, fill, go_on, seen
from tests.threads.own_shelf import aes, strict

from .graphs import Line, asking_graph, at, chat_graph, id_in, logging_graph, parallel_graph

pytestmark = pytest.mark.sqlite_suffices

KINDS = ("memory", "sqlite", "postgres", "ours on sqlite", "ours on postgres")
FOREIGN = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations")


def clear(url):
    """Leave nothing of PostgresSaver for the tests that get this database next."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in FOREIGN:
            connection.execute(f"drop table if exists {table}")


@pytest.fixture
def foreign(new_database, tmp_path):
    """Opens a saver of another kind: an empty one, or one of ours on a database that is given."""
    with contextlib.ExitStack() as stack:

        def open_(kind, url=None):
            if kind == "memory":
                return InMemorySaver(serde=strict())
            if kind == "sqlite":
                saver = stack.enter_context(SqliteSaver.from_conn_string(str(tmp_path / "foreign.db")))
            elif kind == "postgres":
                url = new_database("postgres")
                clear(url)
                stack.callback(clear, url)
                saver = stack.enter_context(PostgresSaver.from_conn_string(direct(url)))
            else:
                return stack.enter_context(AgentMemory(url or new_database(kind.split()[-1]))).checkpointer
            saver.setup()
            saver.serde = strict()
            return saver

        yield open_


def fill_ours(memory):
    fill(memory.checkpointer)


@pytest.fixture(params=KINDS)
def source(request, foreign, new_database, fill_once):
    """A saver of each kind, with threads of every sort."""
    if request.param.startswith("ours"):
        url = new_database(request.param.split()[-1])
        fill_once(url, fill_ours)
        return foreign(request.param, url)
    if request.param == "memory":
        return request.getfixturevalue("in_memory")
    saver = foreign(request.param)
    fill(saver)
    return saver


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


def count(saver):
    return sum(map(len, seen(saver).values()))


def shown(saver):
    """All that is in a saver, but for snapshots of DeltaChannels: SqliteSaver hands each out once, others whenever its
    version is named."""
    found = seen(saver)
    for _, _, _, checkpoint, _, _ in found["delta"]:
        checkpoint["channel_values"].pop("log", None)
    return found


def states(saver):
    """What a user sees of every checkpoint of every graph."""
    return {
        thread: [
            (id_in(state.config), state.values, state.next, state.interrupts, state.metadata, state.created_at)
            for state in graph(saver).get_state_history(at(thread))
        ]
        for thread, graph in GRAPHS.items()
    }


class TestEveryThread:
    @pytest.mark.slow
    def test_comes_with_its_whole_history(self, saver, memory, source):
        before = shown(source)
        report = saver.import_checkpoints(source)
        assert report == ImportReport(checkpoints=count(source), known=0, threads=len(THREADS))
        assert shown(saver) == before == shown(source)
        assert memory.admin.stats()["threads"] == len(THREADS)
        assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    def test_shows_the_same_states_and_goes_on(self, saver, memory, source):
        before = states(source)
        saver.import_checkpoints(source)
        assert states(saver) == before
        assert go_on(saver) == go_on(source)
        assert [len(found) for found in shown(saver).values()] == [len(found) for found in shown(source).values()]
        assert memory.admin.verify().problems == ()

    @pytest.mark.slow
    async def test_comes_when_it_is_awaited_too(self, saver, source):
        before, report = shown(source), None
        if isinstance(source, SqliteSaver | PostgresSaver):  # the awaited ones are other classes
            report = await saver.aimport_checkpoints(Awaited(source))
        else:
            report = await saver.aimport_checkpoints(source)
        assert report == ImportReport(checkpoints=count(source), known=0, threads=len(THREADS))
        assert shown(saver) == before
        go_on(saver)

    def test_is_there_for_another_process(self, url, in_memory):
        with AgentMemory(url) as memory:
            memory.checkpointer.import_checkpoints(in_memory)
        with AgentMemory(url) as memory:
            assert shown(memory.checkpointer) == shown(in_memory)
            go_on(memory.checkpointer)

    @pytest.mark.slow("in every form")
    def test_costs_what_changed(self, memory, saver):
        """A long talk, which the stock saver stores whole with every checkpoint."""
        source = InMemorySaver()
        graph = chat_graph(source)
        for turn in range(60):
            graph.invoke({"messages": [HumanMessage(f"turn {turn} " * 20)]}, at())
        saver.import_checkpoints(source)
        said = sum(len(message.text) for message in graph.get_state(at()).values["messages"])
        assert memory.admin.stats()["content_bytes"] <= 2 * said
        assert memory.admin.stats()["parts"] <= 8 * 120

    def test_is_kept_whole_whatever_is_kept_of_others(self, memory, in_memory):
        from langchain_agentmem import Retention

        saver = AgentMemorySaver(memory, retention=Retention(keep_last=1))
        saver.import_checkpoints(in_memory)
        assert shown(saver) == shown(in_memory)


class Awaited(BaseCheckpointSaver):
    """A saver that can only be awaited."""

    def __init__(self, saver):
        super().__init__()
        self._saver = saver

    async def alist(self, config, **options):
        for found in self._saver.list(config, **options):
            yield found

    async def aget_tuple(self, config):
        return self._saver.get_tuple(config)


class TestAsyncSqliteSaver:
    async def test_its_threads_come_and_go_on(self, saver, foreign, tmp_path):
        stock = foreign("sqlite")
        fill(stock)
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "foreign.db")) as source:
            source.serde = strict()
            report = await saver.aimport_checkpoints(source)
            assert report.checkpoints == count(stock)
            assert (await saver.aimport_checkpoints(source)).known == report.checkpoints
        assert shown(saver) == shown(stock)
        go_on(saver)

    async def test_what_it_wrote_itself_comes_too(self, saver, tmp_path):
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "foreign.db")) as source:
            await asking_graph(source).ainvoke({"log": ["in"]}, at())
            await delta_graph(source).ainvoke({"log": ["in"]}, at("delta"))
            await saver.aimport_checkpoints(source)
        assert (await asking_graph(saver).ainvoke(Command(resume="yes"), at()))["log"] == ["in", "a", "yes", "z"]
        assert delta_graph(saver).get_state(at("delta")).values["log"] == ["in", "a", "b"]


class TestPendingWrites:
    @pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
    def test_they_keep_their_order_and_are_not_done_again(self, saver, foreign, kind):
        source, done, broken = foreign(kind), [], [True]

        def work(part):
            done.append(part["name"])
            return {"log": [part["name"], part["name"].upper()]}

        def fail(_):
            while broken[0] and len({task for task, *_ in source.get_tuple(at()).pending_writes}) < 12:
                time.sleep(0.001)
            if broken[0]:
                raise ZeroDivisionError
            return {"log": ["mended"]}

        def graph(saver):
            builder = StateGraph(Log)
            builder.add_node("work", work)
            builder.add_node("fail", fail)
            builder.add_node("end", lambda _: {"log": ["end"]})
            builder.add_edge(START, "fail")
            builder.add_conditional_edges(START, lambda _: [Send("work", {"name": f"part {n}"}) for n in range(12)])
            builder.add_edge(["work", "fail"], "end")
            return builder.compile(checkpointer=saver)

        with pytest.raises(ZeroDivisionError):
            graph(source).invoke({"log": ["in"]}, at(), durability="sync")
        assert len(source.get_tuple(at()).pending_writes) >= 12
        saver.import_checkpoints(source)
        assert everything(saver) == everything(source)
        ends, broken[:] = [], [False]
        for each in (source, saver):
            done.clear()
            ends.append((graph(each).invoke(None, at()), sorted(done)))
        assert ends[0] == ends[1]
        assert len(ends[0][0]["log"]) == 1 + 24 + 2

    def test_answers_that_were_given_are_remembered(self, saver, foreign):
        def graph(saver):
            ask = {name: lambda _, name=name: {"log": [f"{name} {interrupt(name)}"]} for name in ("x", "y")}
            return parallel_graph(saver, **ask)

        source = foreign("sqlite")
        graph(source).invoke({"log": []}, at())
        first = graph(source).get_state(at()).interrupts[0]
        graph(source).invoke(Command(resume={first.id: "first"}), at())
        saver.import_checkpoints(source)
        [second] = graph(saver).get_state(at()).interrupts
        graph(saver).invoke(Command(resume={second.id: "second"}), at())
        log = graph(saver).get_state(at()).values["log"]
        assert sorted(log) == sorted([f"{first.value} first", f"{second.value} second"])


class Log(TypedDict):
    log: Annotated[list[str], operator.add]
    name: str


class TestAgain:
    @pytest.mark.slow
    def test_the_second_time_adds_nothing(self, saver, memory, source):
        first = saver.import_checkpoints(source)
        before, stats = shown(saver), memory.admin.stats()
        assert saver.import_checkpoints(source) == ImportReport(
            checkpoints=0, known=first.checkpoints, threads=first.threads
        )
        assert shown(saver) == before
        after = memory.admin.stats()
        assert {name: after[name] for name in COUNTED} == {name: stats[name] for name in COUNTED}

    @pytest.mark.slow
    @pytest.mark.parametrize("stop", [1, 7, 20])
    def test_what_was_interrupted_goes_on(self, saver, memory, source, stop):
        def interrupted(report):
            if report.checkpoints == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            saver.import_checkpoints(source, progress=interrupted)
        assert memory.admin.stats()["checkpoints"] == stop
        assert memory.admin.verify().problems == ()
        report = saver.import_checkpoints(source)
        assert report == ImportReport(checkpoints=count(source) - stop, known=stop, threads=len(THREADS))
        assert shown(saver) == shown(source)
        go_on(saver)

    async def test_an_awaited_one_goes_on_too(self, saver, in_memory):
        def interrupted(report):
            if report.checkpoints == 5:
                raise RuntimeError

        with pytest.raises(RuntimeError):
            await saver.aimport_checkpoints(in_memory, progress=interrupted)
        assert (await saver.aimport_checkpoints(in_memory)).known == 5
        assert shown(saver) == shown(in_memory)

    @pytest.mark.parametrize("kind", ["memory", "sqlite"])
    def test_what_the_other_has_done_since_comes_too(self, saver, foreign, kind):
        source = foreign(kind)
        fill(source)
        saver.import_checkpoints(source)
        texts = go_on(source)
        saver.import_checkpoints(source)
        assert [m.text for m in chat_graph(saver).get_state(at("chat")).values["messages"]] == texts
        ours, theirs = states(saver), states(source)
        for thread in GRAPHS:
            assert [state[1:3] for state in ours[thread]] == [state[1:3] for state in theirs[thread]]
            assert len(everything(saver, thread)) == len(everything(source, thread))

    def test_what_was_remembered_here_is_not_remembered_by_what_the_other_has_done(self, memory, in_memory):
        """Tasks of one step have the same ids in both, and were other executions."""

        def graph(saver, here):
            def left(state, config):
                if here:
                    memory.layers(config).core.set("left", "here")
                return {"messages": [HumanMessage("left", id="left")]}

            def right(state):
                return {"messages": [HumanMessage(interrupt("?") if here else "right", id="right")]}

            built = StateGraph(MessagesState).add_node(left).add_node(right)
            built.add_edge(START, "left").add_edge(START, "right")
            return built.compile(checkpointer=saver, interrupt_before=["left", "right"])

        graph(in_memory, here=False).invoke({"messages": [HumanMessage("hello", id="hello")]}, at())
        memory.checkpointer.import_checkpoints(in_memory)
        graph(memory.checkpointer, here=True).invoke(None, at())
        graph(in_memory, here=False).invoke(None, at())
        memory.checkpointer.import_checkpoints(in_memory)
        assert len(memory.conversation("t").messages) == 3
        assert memory.layers(at()).core.get() == {}
        assert memory.admin.verify().ok

    def test_so_do_answers_to_what_was_asked_before(self, saver, in_memory):
        """They are written under a checkpoint that is known already."""

        def graph(saver):
            ask = {name: lambda _, name=name: {"log": [f"{name} {interrupt(name)}"]} for name in ("x", "y")}
            return parallel_graph(saver, **ask)

        graph(in_memory).invoke({"log": []}, at("both"))
        saver.import_checkpoints(in_memory)
        first, second = graph(in_memory).get_state(at("both")).interrupts
        graph(in_memory).invoke(Command(resume={first.id: "yes"}), at("both"))
        saver.import_checkpoints(in_memory)
        assert [each.id for each in graph(saver).get_state(at("both")).interrupts] == [second.id]
        graph(saver).invoke(Command(resume={second.id: "no"}), at("both"))
        log = graph(saver).get_state(at("both")).values["log"]
        assert sorted(log) == sorted([f"{first.value} yes", f"{second.value} no"])

    def test_so_does_what_a_delta_channel_gathered_since(self, saver, in_memory):
        def graph(saver):
            return logging_graph(saver, "a", "ask", state=Delta, nodes={"ask": lambda _: {"log": [interrupt("?")]}})

        graph(in_memory).invoke({"log": ["in"]}, at("waiting"))
        saver.import_checkpoints(in_memory)
        graph(in_memory).invoke(Command(resume="yes"), at("waiting"))
        saver.import_checkpoints(in_memory)
        expected = graph(in_memory).get_state(at("waiting")).values
        assert expected == {"log": ["in", "a", "yes"]}
        assert graph(saver).get_state(at("waiting")).values == expected

    def test_a_thread_that_has_gone_on_here_is_left_alone(self, saver, memory, in_memory):
        saver.import_checkpoints(in_memory)
        go_on(saver)
        before = shown(saver)
        assert saver.import_checkpoints(in_memory).left_out == {}
        assert shown(saver) == before
        go_on(in_memory)
        report = saver.import_checkpoints(in_memory)
        assert "chat" in report.left_out
        assert "erase it here" in report.left_out["chat"]
        assert shown(saver)["chat"] == before["chat"]
        assert memory.admin.verify().problems == ()


COUNTED = ("threads", "checkpoints", "writes", "parts", "contents", "content_bytes", "messages")


class TestSomeThreads:
    @pytest.mark.slow
    def test_only_those_that_are_named_come(self, saver, source):
        report = saver.import_checkpoints(source, thread_ids=["asking", "delta"])
        assert report.threads == 2
        assert {thread for thread, found in shown(saver).items() if found} == {"asking", "delta"}
        for thread in ("asking", "delta"):
            assert shown(saver)[thread] == shown(source)[thread]

    def test_a_text_is_no_list_of_threads(self, saver, source):
        with pytest.raises(InvalidInput, match="list of threads"):
            saver.import_checkpoints(source, thread_ids="asking")

    def test_none_and_unknown_ones_are_no_error(self, saver, source):
        for thread_ids in ([], ["nobody"]):
            assert saver.import_checkpoints(source, thread_ids=thread_ids) == ImportReport()
        assert list(saver.list(None)) == []

    async def test_the_awaited_twin_takes_them_too(self, saver, in_memory):
        assert (await saver.aimport_checkpoints(in_memory, thread_ids=["chat"])).threads == 1
        assert everything(saver, "chat") == everything(in_memory, "chat")


class TestProgress:
    def test_it_is_told_after_every_checkpoint(self, saver, in_memory):
        told = []
        saver.import_checkpoints(in_memory, thread_ids=["chat"])
        known = len(everything(in_memory, "chat"))
        report = saver.import_checkpoints(in_memory, progress=told.append)
        assert [each.checkpoints + each.known for each in told] == list(range(1, count(in_memory) + 1))
        assert (
            told[-1] == report == ImportReport(checkpoints=count(in_memory) - known, known=known, threads=len(THREADS))
        )

    def test_what_it_tells_is_stored_already(self, saver, memory, in_memory):
        stored = []
        saver.import_checkpoints(in_memory, progress=lambda _: stored.append(memory.admin.stats()["checkpoints"]))
        assert stored == list(range(1, count(in_memory) + 1))


class TestNamespaces:
    def test_threads_of_our_own_keep_theirs(self, saver, foreign):
        source = foreign("ours on sqlite")
        for namespace in ((), ("a",), ("b", "c")):
            config = at()
            config["configurable"]["agentmem_namespace"] = namespace
            chat_graph(source).invoke({"messages": [f"in {namespace}"]}, config)
        report = saver.import_checkpoints(source)
        assert report.checkpoints == 9
        for namespace in ((), ("a",), ("b", "c")):
            config = at()
            config["configurable"]["agentmem_namespace"] = namespace
            assert chat_graph(saver).get_state(config).values["messages"][0].text == f"in {namespace}"


class TestSerializers:
    def test_what_was_plain_is_encrypted_here(self, tmp_path, in_memory):
        with AgentMemory(tmp_path / "a.db") as memory:
            saver = AgentMemorySaver(memory, serde=aes())
            Line(in_memory, "line").put({"text": "secret words " * 50})
            saver.import_checkpoints(in_memory)
            assert shown(saver) == shown(in_memory)
            assert not any(b"secret words" in file.read_bytes() for file in tmp_path.iterdir())
            go_on(saver)

    def test_what_was_encrypted_comes_through_its_own_saver(self, saver, foreign):
        source = foreign("sqlite")
        source.serde = aes()
        fill(source)
        saver.import_checkpoints(source)
        assert shown(saver) == shown(source)
        go_on(saver)

    def test_a_value_that_cannot_be_stored_stops_it_and_what_came_before_stays(self, saver, memory):
        class Odd(InMemorySaver):
            def get_tuple(self, config):
                found = super().get_tuple(config)
                if found is not None and found.metadata["step"] == 1:
                    found.checkpoint["channel_values"]["log"] = object()
                return found

        source = Odd()
        logging_graph(source, "a", "b").invoke({"log": ["in"]}, at())
        assert {found.metadata["step"] for found in source.list(None)} == {-1, 0, 1, 2}
        with pytest.raises(InvalidInput, match="'t'"):
            saver.import_checkpoints(source)
        assert memory.admin.stats()["checkpoints"] == 2
        assert memory.admin.verify().problems == ()


class Counting(SqliteSaver):
    """A saver whose versions are mere numbers, as those are that do not say otherwise."""

    get_next_version = BaseCheckpointSaver.get_next_version


class Padded(InMemorySaver):
    """A saver whose versions are texts of its own sort."""

    def get_next_version(self, current, channel):
        del channel
        return f"{int(current or 0) + 1:06}"


class TestVersions:
    def test_a_thread_whose_versions_are_texts_of_another_sort_goes_on(self, saver):
        source = Padded()
        for text in ("one", "two"):
            logging_graph(source, "a", "b").invoke({"log": [text]}, at())
        saver.import_checkpoints(source)
        assert history(saver) == history(source)
        for turn in range(3):
            assert logging_graph(saver, "a", "b").invoke({"log": [f"{turn}"]}, at())["log"][-3:] == [
                f"{turn}",
                "a",
                "b",
            ]

    def test_mere_numbers_come_too(self, saver, tmp_path):
        with Counting.from_conn_string(str(tmp_path / "foreign.db")) as source:
            graph = logging_graph(source, "a", "b")
            for turn in range(3):
                graph.invoke({"log": [f"{turn}"]}, at())
            saver.import_checkpoints(source)
            assert history(saver) == history(source)
        assert logging_graph(saver, "a", "b").invoke({"log": ["more"]}, at())["log"][-3:] == ["more", "a", "b"]

    def test_two_forks_that_count_alike_are_not_mixed_up(self, saver, tmp_path):
        with Counting.from_conn_string(str(tmp_path / "foreign.db")) as source:
            graph = logging_graph(source, "a", "b")
            graph.invoke({"log": ["first"]}, at())
            early = list(graph.get_state_history(at()))[1].config
            graph.update_state(early, {"log": ["on a fork"]}, as_node="a")
            graph.invoke(None, at())
            saver.import_checkpoints(source)
            assert history(saver) == history(source)
            for state in logging_graph(saver, "a", "b").get_state_history(at()):
                ends = [
                    logging_graph(each, "a", "b").invoke(None, at(checkpoint_id=id_in(state.config)))
                    for each in (saver, source)
                ]
                assert ends[0] == ends[1]

    def test_what_mere_numbers_have_done_since_comes_too(self, saver, tmp_path):
        with Counting.from_conn_string(str(tmp_path / "foreign.db")) as source:
            graph = logging_graph(source, "a", "b")
            for turn in range(3):
                graph.invoke({"log": [f"{turn}"]}, at())
                saver.import_checkpoints(source)
                assert history(saver) == history(source)


def history(saver):
    return [
        (
            id_in(state.config),
            state.values,
            state.next,
            state.metadata,
            state.parent_config and id_in(state.parent_config),
        )
        for state in logging_graph(saver, "a", "b").get_state_history(at())
    ]
