"""The checkpointer in real graphs: sync and async, subgraphs, durability, functions and agents."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.types import Command, StateUpdate, interrupt

from langchain_agentmem import AgentMemory, AgentMemorySaver
from tests.support.graphs import line
from tests.support.models import ScriptedModel, calling

from .graphs import Line, Log, adding, asking_graph, at, chat_graph, everything, id_in, ids, logging_graph

pytestmark = pytest.mark.sqlite_suffices


class TestSyncAndAsync:
    async def test_sync_and_async_calls_share_a_thread(self, saver):
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

    async def test_many_threads_run_concurrently_sync_and_async(self, saver):
        graph = logging_graph(saver, "a", "b", "c")

        async def run(n):
            for _ in range(3):
                if n % 2:
                    await graph.ainvoke({"log": ["in"]}, at(f"t{n}"))
                else:
                    await asyncio.to_thread(graph.invoke, {"log": ["in"]}, at(f"t{n}"))
            return (await graph.aget_state(at(f"t{n}"))).values["log"]

        assert await asyncio.gather(*map(run, range(12))) == [["in", "a", "b", "c"] * 3] * 12


class TestCallsWhileListing:
    def test_sync_methods_may_be_called_while_listing(self, saver):
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

    async def test_async_methods_may_be_called_while_listing(self, saver):
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

    async def test_an_abandoned_listing_leaves_the_saver_usable(self, saver):
        line = Line(saver)
        for n in range(40):
            line.put({"n": n})
        for _ in range(10):
            async for found in saver.alist(at()):
                assert found.checkpoint["channel_values"]["n"] == 39
                break
        await line.aput({"n": 40})
        assert (await saver.aget(at()))["channel_values"] == {"n": 40}


class TestSaverCopies:
    def test_saver_copies_share_their_data(self, saver):
        for other in (copy.copy(saver), saver.with_allowlist([("some.module", "Thing")])):
            line = Line(saver)
            line.put({"a": 1})
            assert other.get(at())["channel_values"] == {"a": 1}
            Line(other).fork(line.config).put({"a": 2})
            assert saver.get(at())["channel_values"] == {"a": 2}
            other.put_writes(line.config, [("a", 3)], "task")
            assert saver.get_tuple(line.config).pending_writes == [("task", "a", 3)]
            saver.delete_thread("t")
            assert other.get_tuple(at()) is None

    def test_a_copy_outlives_the_original_saver(self, url):
        saver = AgentMemorySaver(url)
        other = copy.copy(saver)
        del saver
        Line(other).put({"a": 1})
        assert other.get(at())["channel_values"] == {"a": 1}

    def test_memory_checkpointer_is_always_the_same_saver(self, memory):
        assert memory.checkpointer is memory.checkpointer
        Line(AgentMemorySaver(memory)).put({"a": 1})
        assert memory.checkpointer.get(at())["channel_values"] == {"a": 1}


class TestSubgraphs:
    async def test_a_nested_interrupt_can_be_updated_and_resumed(self, saver):
        ask = ("ask", lambda state: {"log": [interrupt(f"after {state['log'][-1]}?")]})
        middle = line(None, ("deep", line(None, ("x", adding("x")), ask, state=Log)), state=Log)
        graph = logging_graph(saver, "before", "inner", "after", nodes={"inner": middle})
        graph.invoke({"log": []}, at())
        state = graph.get_state(at(), subgraphs=True)
        assert state.next == ("inner",)
        assert [each.value for each in state.interrupts] == ["after x?"]
        within = state.tasks[0].state.tasks[0].state
        assert within == (await graph.aget_state(at(), subgraphs=True)).tasks[0].state.tasks[0].state
        assert within.values == {"log": ["before", "x"]}
        assert within.next == ("ask",)
        assert graph.get_state(within.config).values == within.values
        namespace = within.config["configurable"]["checkpoint_ns"]
        assert namespace.count("|") == 1
        assert [each.next for each in graph.get_state_history(at(ns=namespace))] == [("ask",), ("x",), ("__start__",)]
        await graph.aupdate_state(within.config, {"log": ["put in"]})
        await graph.ainvoke(Command(resume="yes"), at())
        assert graph.get_state(at()).values["log"] == [*["before"] * 3, "x", "put in", "yes", "after"]

    def test_jumps_and_bulk_updates_match_in_memory_saver(self, saver):
        def history(saver):
            kept = line(True, ("x", lambda state: {"log": [f"x{len(state['log'])}"]}), state=Log)
            graph = logging_graph(saver, "a", "kept", "z", nodes={"kept": kept})
            graph.invoke({"log": ["in"]}, at())
            graph.invoke(Command(goto="kept", update={"log": ["jump"]}), at())
            graph.bulk_update_state(at(), [[StateUpdate({"log": [name]}, name)] for name in ("a", "kept", "a")])
            graph.invoke(None, at())
            graph.invoke({"log": ["again"]}, at())
            return [(each.values, each.next, each.metadata) for each in graph.get_state_history(at())]

        found = history(saver)
        assert found == history(InMemorySaver())
        assert any("jump" in values["log"] for values, _, _ in found)


class TestDurability:
    async def test_state_is_the_same_in_every_durability(self, saver):
        graph = asking_graph(saver)
        for durability in ("sync", "async", "exit"):
            config = at(durability)
            for turn in range(3):
                graph.invoke({"log": [f"in {turn}"]}, config, durability=durability)
                assert graph.get_state(config).next == ("ask",)
                await graph.ainvoke(Command(resume=f"answer {turn}"), config, durability=durability)
            said = [text for turn in range(3) for text in (f"in {turn}", "a", f"answer {turn}", "z")]
            assert graph.get_state(config).values["log"] == said
            assert graph.get_state(config).next == ()
            assert len(list(graph.get_state_history(config))) == (6 if durability == "exit" else 15)

    def test_finished_nodes_are_not_rerun_after_a_failure(self, saver):
        done, fail = [], []

        def second(_):
            if fail:
                raise ZeroDivisionError
            return {"log": ["second"]}

        def first(_):
            done.append("first")
            return {"log": ["first"]}

        graph = logging_graph(saver, "first", "second", nodes={"first": first, "second": second})
        for durability in ("sync", "async", "exit"):
            done.clear()
            fail.append(True)
            with pytest.raises(ZeroDivisionError):
                graph.invoke({"log": []}, at(durability), durability=durability)
            state = graph.get_state(at(durability))
            assert (state.values["log"], state.next) == (["first"], ("second",))
            assert "ZeroDivisionError" in state.tasks[0].error
            fail.clear()
            assert graph.invoke(None, at(durability), durability=durability)["log"] == ["first", "second"]
            assert done == ["first"]


class TestFunctions:
    async def test_finished_tasks_are_not_rerun_on_resume(self, saver):
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


class TestAgents:
    def test_an_agent_resumes_after_human_approval(self, url):
        sent = []

        @tool
        def send(to: str) -> str:
            """Send a letter."""
            sent.append(to)
            return f"sent to {to}"

        def agent(saver, said):
            asking = [HumanInTheLoopMiddleware(interrupt_on={"send": True})]
            return create_agent(ScriptedModel(said), [send], middleware=asking, checkpointer=saver)

        with AgentMemory(url) as memory:
            waiting = agent(memory.checkpointer, calling("send", to="Ada"))
            waiting.invoke({"messages": [("user", "Write to Ada.")]}, at())
            assert waiting.get_state(at()).interrupts[0].value["action_requests"][0]["args"] == {"to": "Ada"}
        with AgentMemory(url) as memory:
            again = agent(memory.checkpointer, "Done.")
            again.invoke(Command(resume={"decisions": [{"type": "approve"}]}), at())
            messages = again.get_state(at()).values["messages"]
            assert [message.text for message in messages] == ["Write to Ada.", "", "sent to Ada", "Done."]
            assert messages[1].tool_calls[0]["id"] == messages[2].tool_call_id == "call-1"
            assert sent == ["Ada"]
            assert len(everything(memory.checkpointer)) > 4
