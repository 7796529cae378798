"""Inside LangGraph whoever streams a graph sees memory at work, and never what memory's own models say."""

import contextvars
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer

from langchain_agentmem.base.events import Hooks
from langchain_agentmem.tracing import Tracing

from .trees import aremember, graph_of, never, remember

ADD = "memory.conversation.add"


def told(events):
    """What is told of each step."""
    return [(event["event"], event["name"]) for event in events]


def ours(graph, **options):
    return list(graph.stream({"text": ""}, stream_mode="custom", **options))


def fails(state):
    with Tracing().step(ADD):
        raise ValueError("a secret")


class TestCustom:
    async def test_a_step_is_told_as_it_begins_and_as_it_ends(self, tracing):
        def node(state):
            write = get_stream_writer()
            with tracing.step(ADD, inputs=lambda: {"messages": 2}) as step:
                write("at work")
                step.finish(lambda: {"ids": ["m1"]})

        started, between, finished = ours(graph_of(node))

        assert between == "at work"
        duration, key = finished.pop("duration"), started["id"]
        assert duration > 0
        step = {"type": "agentmem", "name": ADD, "id": key, "parent_id": None}
        assert started == {**step, "event": "started", "inputs": {"messages": 2}}
        assert finished == {**step, "event": "finished", "outputs": {"ids": ["m1"]}}

        async def awaiting(state):
            await aremember(tracing)

        streamed = graph_of(awaiting).astream({"text": ""}, stream_mode="custom")
        assert told([event async for event in streamed]) == [("started", ADD), ("finished", ADD)]

    def test_a_step_names_the_step_it_is_a_part_of_and_what_failed(self, tracing):
        def node(state):
            with tracing.step("memory.injection.inject"), pytest.raises(ValueError):
                fails(state)

        events = ours(graph_of(node))

        outer, inner = events[0]["id"], events[1]["id"]
        ends = [("failed", inner, outer), ("finished", outer, None)]
        expected = [("started", outer, None), ("started", inner, outer), *ends]
        assert [(each["event"], each["id"], each["parent_id"]) for each in events] == expected
        assert events[2]["error"] == "ValueError"
        assert "secret" not in str(events)

    def test_its_ids_are_those_of_runs_and_hooks(self, collector, traced_by, heard):
        tracing = Tracing(Hooks([heard.append]))
        events = ours(graph_of(lambda state: void(remember(tracing))), config=traced_by)

        (run,) = collector.ours()
        assert {each["id"] for each in events} == {str(run.id)} == {event.step_id for event in heard}

    def test_events_are_small(self, tracing):
        found = [{"id": f"m{n}", "page_content": "word " * 100, "metadata": {"kind": "message"}} for n in range(30)]

        def node(state):
            options = {"run_type": "retriever", "inputs": lambda: {"query": "w" * 999}}
            with tracing.step("memory.store.search", **options) as step:
                step.finish(lambda: {"documents": found})

        started, finished = ours(graph_of(node))

        assert started["inputs"] == {"query": "w" * 300 + "… (999 characters)"}
        documents = finished["outputs"]["documents"]
        assert documents[0]["page_content"] == ("word " * 60) + "… (500 characters)"
        assert documents[-1] == "… (30 in all)"
        assert len(documents) == 21

    @pytest.mark.parametrize("mode", ["values", "updates", ["updates", "messages"]])
    async def test_where_nobody_reads_it_nothing_is_computed(self, tracing, mode):
        listening = []

        def node(state):
            with tracing.step(ADD, inputs=never) as step:
                listening.append(step.listening)
                step.finish(never)

        graph = graph_of(node)
        list(graph.stream({"text": ""}, stream_mode=mode))
        graph.invoke({"text": ""})
        _ = [each async for each in graph.astream({"text": ""}, stream_mode=mode)]

        assert listening == [False] * 3

    def test_in_a_subgraph_they_come_from_there(self, tracing):
        inner = graph_of(lambda state: void(remember(tracing)))
        outer = graph_of(inner)

        events = list(outer.stream({"text": ""}, stream_mode="custom", subgraphs=True))

        assert [(len(path), event["event"]) for path, event in events] == [(1, "started"), (1, "finished")]
        assert events[0][0][0].startswith("node:")

    def test_in_threads_of_a_node_that_carry_its_context_or_its_config(self, tracing, caplog):
        def node(state, config: RunnableConfig):
            with ThreadPoolExecutor(1) as threads:
                threads.submit(contextvars.copy_context().run, remember, tracing).result()
            for options in ({"config": config}, {}):  # in the last nobody can know which graph it belongs to
                thread = threading.Thread(target=remember, args=(tracing,), kwargs=options)
                thread.start()
                thread.join()

        events = ours(graph_of(node))

        assert told(events) == [("started", ADD), ("finished", ADD)] * 2
        assert "Tracing failed" not in caplog.text

    def test_a_writer_that_fails_changes_nothing(self, tracing, caplog, monkeypatch):
        def fail(event):
            raise RuntimeError("the stream is closed")

        monkeypatch.setattr("langchain_agentmem.tracing.trace_steps.stream_writer", lambda config: fail)
        steps = [remember(tracing), remember(tracing)]

        assert all(step.listening for step in steps)
        assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


def void(_):
    """What a node gives that changes nothing."""


class TestEvents:
    async def test_a_step_is_a_run_like_any_other(self, tracing):
        async def node(state):
            await aremember(tracing)

        events = [each async for each in graph_of(node).astream_events({"text": ""}, version="v2")]

        start, end = [each for each in events if each["name"] == ADD]
        assert (start["event"], end["event"]) == ("on_chain_start", "on_chain_end")
        assert start["data"] == {"input": {"messages": 2}}
        assert end["data"]["output"] == {"ids": ["m1", "m2"]}
        (around,) = [each for each in events if each["name"] == "node" and each["event"] == "on_chain_start"]
        assert start["parent_ids"][-1] == around["run_id"]
        assert start["metadata"]["langgraph_node"] == "node"
