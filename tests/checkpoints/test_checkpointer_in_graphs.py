"""The checkpointer under real graphs: both ways of calling mixed, subgraphs, `Send`, durability, functions, agents."""

from __future__ import annotations

import asyncio
import copy
import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from langchain_agentmem import AgentMemory, AgentMemorySaver

from .graphs import Chat, Line, Log, asking_graph, at, chat_graph, everything, id_in, ids, logging_graph

pytestmark = pytest.mark.sqlite_suffices


class TestSyncAndAsync:
    async def test_both_ways_can_be_mixed_on_one_saver_and_one_thread(self, saver):
        graph = chat_graph(saver)
        graph.invoke({"messages": [("user", "one")]}, at())
        await graph.ainvoke({"messages": [("user", "two")]}, at())
        await asyncio.to_thread(graph.invoke, {"messages": [("user", "three")]}, at())
        said = ["one", "ONE", "two", "TWO", "three", "THREE"]
        for state in (
            graph.get_state(at()),
            await graph.aget_state(at()),
            await asyncio.to_thread(graph.get_state, at()),
        ):
            assert [message.text for message in state.values["messages"]] == said
        steps = [state.metadata["step"] for state in graph.get_state_history(at())]
        assert steps == [state.metadata["step"] async for state in graph.aget_state_history(at())]
        assert steps == list(range(-1, 8))[::-1]

    async def test_many_threads_at_once_in_both_ways(self, saver):
        graph = logging_graph(saver, "a", "b", "c")

        async def run(n):
            for _ in range(3):
                if n % 2:
                    await graph.ainvoke({"log": ["in"]}, at(f"t{n}"))
                else:
                    await asyncio.to_thread(graph.invoke, {"log": ["in"]}, at(f"t{n}"))
            return (await graph.aget_state(at(f"t{n}"))).values["log"]

        assert await asyncio.gather(*map(run, range(12))) == [["in", "a", "b", "c"] * 3] * 12


class TestCallingTheSaverWhileListing:
    def test_any_method_may_be_called_for_each_one_listed(self, saver):
        line = Line(saver)
        put = [id_in(line.put({"n": n})) for n in range(40)]
        Line(saver, "other").put()
        seen = []
        for found in saver.list(at()):
            seen.append(found.checkpoint["id"])
            assert saver.get_tuple(found.config).checkpoint == found.checkpoint
            saver.put_writes(found.config, [("n", "seen")], "task")
            assert saver.get_tuple(found.config).pending_writes == [("task", "n", "seen")]
            assert len(ids(saver.list(at(), limit=2))) == 2
            Line(saver, f"new {len(seen)}").put({"n": 0})
            line.put({"n": "newer"})
            saver.delete_thread("other")
        assert [each for each in seen if each in put] == put[::-1]
        assert len(seen) == len(set(seen))

    async def test_any_method_may_be_awaited_for_each_one_listed(self, saver):
        line = Line(saver)
        put = [id_in(await line.aput({"n": n})) for n in range(40)]
        seen = []
        async for found in saver.alist(at()):
            seen.append(found.checkpoint["id"])
            assert (await saver.aget_tuple(found.config)).checkpoint == found.checkpoint
            await saver.aput_writes(found.config, [("n", "seen")], "task")
            assert [each.checkpoint["id"] async for each in saver.alist(at(), limit=1)] == [id_in(line.config)]
            await line.aput({"n": "newer"})
            saver.put_writes(found.config, [("n", "seen too")], "task 2")
            await saver.adelete_thread("other")
        assert [each for each in seen if each in put] == put[::-1]

    def test_the_listed_thread_may_be_deleted(self, saver):
        line = Line(saver)
        for _ in range(40):
            line.put({"n": 1})
        for _ in saver.list(at()):
            saver.delete_thread("t")
        assert ids(saver.list(at())) == []

    def test_others_write_while_a_listing_waits(self, saver):
        line = Line(saver)
        for _ in range(40):
            line.put({"n": 1})
        listing = iter(saver.list(at()))
        next(listing)
        others = [threading.Thread(target=line.fork(line.config).put, args=[{"n": n}]) for n in range(4)]
        for other in others:
            other.start()
        for other in others:
            other.join(120)
            assert not other.is_alive()
        assert len(list(listing)) >= 39

    async def test_a_listing_left_early_leaves_the_saver_usable(self, saver):
        line = Line(saver)
        for n in range(40):
            line.put({"n": n})
        for _ in range(10):
            async for found in saver.alist(at()):
                assert found.checkpoint["channel_values"]["n"] == 39
                break
        await line.aput({"n": 40})
        assert (await saver.aget(at()))["channel_values"] == {"n": 40}


class TestCopiesOfTheSaver:
    @pytest.mark.parametrize("make", [copy.copy, lambda saver: saver.with_allowlist([("some.module", "Thing")])])
    def test_each_sees_what_the_other_writes(self, saver, make):
        other = make(saver)
        line = Line(saver)
        line.put({"a": 1})
        assert other.get(at())["channel_values"] == {"a": 1}
        Line(other).fork(line.config).put({"a": 2})
        assert saver.get(at())["channel_values"] == {"a": 2}
        other.put_writes(line.config, [("a", 3)], "task")
        assert saver.get_tuple(line.config).pending_writes == [("task", "a", 3)]
        saver.delete_thread("t")
        assert other.get_tuple(at()) is None

    def test_a_copy_lives_on_when_the_first_is_forgotten(self, url):
        saver = AgentMemorySaver(url)
        other = copy.copy(saver)
        del saver
        Line(other).put({"a": 1})
        assert other.get(at())["channel_values"] == {"a": 1}

    def test_the_memory_always_gives_the_same_saver(self, memory):
        assert memory.checkpointer is memory.checkpointer
        Line(AgentMemorySaver(memory)).put({"a": 1})
        assert memory.checkpointer.get(at())["channel_values"] == {"a": 1}


def outer_graph(saver, inner_nodes):
    inner = StateGraph(Log)
    inner.add_sequence([(name, node) for name, node in inner_nodes.items()])
    inner.add_edge(START, next(iter(inner_nodes)))
    return logging_graph(saver, "before", "inner", "after", nodes={"inner": inner.compile()})


class TestSubgraphs:
    def test_an_interrupt_within_is_seen_and_resumed(self, saver):
        graph = outer_graph(
            saver,
            {"x": lambda _: {"log": ["x"]}, "ask": lambda state: {"log": [interrupt(f"after {state['log'][-1]}?")]}},
        )
        graph.invoke({"log": []}, at())
        state = graph.get_state(at(), subgraphs=True)
        assert state.next == ("inner",)
        assert [each.value for each in state.interrupts] == ["after x?"]
        within = state.tasks[0].state
        assert within.values == {"log": ["before", "x"]}
        assert within.next == ("ask",)
        assert graph.get_state(within.config).values == within.values
        namespace = within.config["configurable"]["checkpoint_ns"]
        assert [each.next for each in graph.get_state_history(at(ns=namespace))] == [("ask",), ("x",), ("__start__",)]
        graph.invoke(Command(resume="yes"), at())
        assert graph.get_state(at()).values["log"] == ["before", "before", "x", "yes", "after"]

    def test_two_levels_down(self, saver):
        deepest = StateGraph(Log)
        deepest.add_sequence([("ask", lambda _: {"log": [interrupt("deep?")]})])
        deepest.add_edge(START, "ask")
        middle = StateGraph(Log)
        middle.add_sequence([("deep", deepest.compile())])
        middle.add_edge(START, "deep")
        graph = logging_graph(saver, "middle", nodes={"middle": middle.compile()})
        graph.invoke({"log": ["in"]}, at())
        [outer] = graph.get_state(at(), subgraphs=True).tasks
        [inner] = outer.state.tasks
        assert inner.state.next == ("ask",)
        assert inner.state.config["configurable"]["checkpoint_ns"].count("|") == 1
        graph.invoke(Command(resume="yes"), at())
        assert graph.get_state(at()).values["log"][-1] == "yes"

    async def test_the_state_within_can_be_updated(self, saver):
        graph = outer_graph(saver, {"ask": lambda _: {"log": [interrupt("?")]}})
        await graph.ainvoke({"log": []}, at())
        state = await graph.aget_state(at(), subgraphs=True)
        await graph.aupdate_state(state.tasks[0].state.config, {"log": ["put in"]})
        await graph.ainvoke(Command(resume="yes"), at())
        assert (await graph.aget_state(at())).values["log"] == ["before", "before", "put in", "yes", "after"]

    def test_one_with_a_memory_of_its_own_remembers(self, saver):
        inner = StateGraph(Log)
        inner.add_sequence([("x", lambda state: {"log": [f"x{len(state['log'])}"]})])
        inner.add_edge(START, "x")
        remembering = inner.compile(checkpointer=True)
        graph = logging_graph(saver, "call", nodes={"call": lambda _: {"log": remembering.invoke({"log": []})["log"]}})
        graph.invoke({"log": []}, at())
        graph.invoke({"log": []}, at())
        assert graph.get_state(at()).values["log"] == ["x0", "x0", "x1"]


class TestSend:
    def test_each_gets_its_own_state_and_they_are_applied_in_order(self, saver):
        builder = StateGraph(Log)
        builder.add_node("plan", lambda _: {"log": ["plan"]})
        builder.add_node(
            "work", lambda part: {"log": [f"{part['messages'][0].text} {part['n']}", interrupt(part["n"])]}
        )
        builder.add_edge(START, "plan")
        builder.add_conditional_edges(
            "plan", lambda _: [Send("work", {"n": n, "messages": [HumanMessage(f"part {n}")]}) for n in range(12)]
        )
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"log": []}, at())
        state = graph.get_state(at())
        assert [each.value for each in state.interrupts] == list(range(12))
        graph.invoke(Command(resume={each.id: f"done {each.value}" for each in state.interrupts}), at())
        expected = [text for n in range(12) for text in (f"part {n} {n}", f"done {n}")]
        assert graph.get_state(at()).values["log"] == ["plan", *expected]


class TestDurability:
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_the_state_is_the_same_and_all_of_it_is_stored(self, saver, durability):
        graph = asking_graph(saver)
        for turn in range(3):
            graph.invoke({"log": [f"in {turn}"]}, at(), durability=durability)
            assert graph.get_state(at()).next == ("ask",)
            await graph.ainvoke(Command(resume=f"answer {turn}"), at(), durability=durability)
        said = [text for turn in range(3) for text in (f"in {turn}", "a", f"answer {turn}", "z")]
        assert graph.get_state(at()).values["log"] == said
        assert graph.get_state(at()).next == ()
        assert len(list(graph.get_state_history(at()))) == (6 if durability == "exit" else 15)

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_what_was_done_before_a_failure_is_not_done_again(self, saver, durability):
        done, fail = [], [True]

        def second(_):
            if fail:
                raise ZeroDivisionError
            return {"log": ["second"]}

        def first(_):
            done.append("first")
            return {"log": ["first"]}

        graph = logging_graph(saver, "first", "second", nodes={"first": first, "second": second})
        with pytest.raises(ZeroDivisionError):
            graph.invoke({"log": []}, at(), durability=durability)
        state = graph.get_state(at())
        assert (state.values["log"], state.next) == (["first"], ("second",))
        assert "ZeroDivisionError" in state.tasks[0].error
        fail.clear()
        assert graph.invoke(None, at(), durability=durability)["log"] == ["first", "second"]
        assert done == ["first"]


class TestFunctions:
    async def test_a_finished_task_is_not_run_again_and_the_last_result_is_remembered(self, saver):
        runs = []

        @task
        def double(n):
            runs.append(n)
            return 2 * n

        @entrypoint(checkpointer=saver)
        def work(n, *, previous: Any = None):
            doubled = double(n).result()
            answer = interrupt(f"{doubled}?")
            return entrypoint.final(value=f"{doubled} {answer} {previous}", save=doubled)

        assert work.invoke(4, at())["__interrupt__"][0].value == "8?"
        assert work.invoke(Command(resume="yes"), at()) == "8 yes None"
        assert work.invoke(5, at())["__interrupt__"][0].value == "10?"
        assert work.invoke(Command(resume="no"), at()) == "10 no 8"
        assert runs == [4, 5]
        assert work.get_state(at()).values == "10 no 8"


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self


class TestAgents:
    def test_an_agent_waits_for_approval_and_goes_on(self, url):
        sent = []

        @tool
        def send(to: str) -> str:
            """Send a letter."""
            sent.append(to)
            return f"sent to {to}"

        call = {"name": "send", "args": {"to": "Ada"}, "id": "call-1"}

        def agent(saver, *said):
            return create_agent(
                ScriptedModel(messages=iter(said)),
                [send],
                middleware=[HumanInTheLoopMiddleware(interrupt_on={"send": True})],
                checkpointer=saver,
            )

        with AgentMemory(url) as memory:
            waiting = agent(memory.checkpointer, AIMessage("", tool_calls=[call]))
            waiting.invoke({"messages": [("user", "Write to Ada.")]}, at())
            assert waiting.get_state(at()).interrupts[0].value["action_requests"][0]["args"] == {"to": "Ada"}
        with AgentMemory(url) as memory:
            again = agent(memory.checkpointer, AIMessage("Done."))
            again.invoke(Command(resume={"decisions": [{"type": "approve"}]}), at())
            messages = again.get_state(at()).values["messages"]
            assert [message.text for message in messages] == ["Write to Ada.", "", "sent to Ada", "Done."]
            assert messages[1].tool_calls[0]["id"] == messages[2].tool_call_id == "call-1"
            assert sent == ["Ada"]
            assert len(everything(memory.checkpointer)) > 4


class Shared(TypedDict):
    left: Annotated[list[str], operator.add]
    right: Annotated[list[str], operator.add]


class TestParallelBranches:
    def test_writes_of_parallel_nodes_are_kept_when_one_fails(self, saver):
        runs, fail = [], [True]

        def left(_):
            runs.append("left")
            return {"left": ["left"]}

        def right(_):
            if fail:
                raise ZeroDivisionError
            return {"right": ["right"]}

        builder = StateGraph(Shared)
        for node in (left, right):
            builder.add_node(node)
            builder.add_edge(START, node.__name__)
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(ZeroDivisionError):
            graph.invoke({"left": [], "right": []}, at(), durability="sync")
        fail.clear()
        assert graph.invoke(None, at()) == {"left": ["left"], "right": ["right"]}
        assert runs == ["left"]

    def test_a_chat_is_one_thread_among_many(self, saver):
        graph = chat_graph(saver)
        for n in range(3):
            graph.invoke({"messages": [HumanMessage(f"hello {n}")]}, at(f"t{n}"))
        states: list[Chat] = [graph.get_state(at(f"t{n}")).values for n in range(3)]
        assert [[m.text for m in state["messages"]] for state in states] == [
            [f"hello {n}", f"HELLO {n}"] for n in range(3)
        ]
