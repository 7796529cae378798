"""`memory.remember_facts(model)` in graphs."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import START
from langgraph.types import Command, interrupt

from langchain_agentmem import AgentMemory, InvalidInput
from langchain_agentmem.messages.message_marks import Summary, memory_message, summary_message
from langchain_agentmem.rewinding.memory_rows import FACT_FAILURE
from tests.support.graphs import at, line
from tests.support.models import calling

from .scripted import Scripted


def scripted_reader(*answers: Any) -> Scripted:
    """A scripted model that first returns or raises the given answers."""
    left = [*answers]

    def answer(*_: Any) -> Any:
        given = left.pop(0) if left else None
        if isinstance(given, Exception):
            raise given
        return given

    return Scripted(meanwhile=answer)


def chat(memory, *nodes, answer="I see.", **options):
    """A graph that answers and then runs the nodes."""

    def answering(_):
        return {"messages": [AIMessage(answer)]}

    return line(memory.checkpointer, answering, *nodes, **options)


def says(text, **more):
    return {"messages": [HumanMessage(text, **more)]}


def known(facts, **asked):
    """The valid facts as sentences, the oldest first."""
    return [fact.text for fact in facts.as_of(**asked)]


@pytest.mark.sqlite_suffices
class TestTurns:
    async def test_each_message_is_extracted_once_as_source(self, memory, do):
        model = scripted_reader()
        graph = chat(memory, memory.remember_facts(model))
        said = ("Maya lives in Porto", "Tom likes tea", "Maya lives in Lisbon", "Bye")
        for number, text in enumerate(said):
            given = says(text, id=f"m{number}")
            state = await do(graph, "invoke", given, at())
        assert model.texts == [[text, "I see."] for text in said]
        assert len(state["messages"]) == 8
        facts = memory.facts(at())
        assert known(facts) == ["Tom likes tea", "Maya lives in Lisbon"]
        porto, lisbon = await facts.ahistory("Maya")
        assert (porto.text, porto.valid_to, porto.ended_by) == ("Maya lives in Porto", lisbon.valid_from, lisbon.id)
        [source] = lisbon.mentions
        assert (source.message_id, source.conversation_id, source.role) == ("m2", "t", "user")
        assert [evidence.text for evidence in facts.evidence(lisbon.id)] == ["Maya lives in Lisbon"]
        assert facts.pending_count() == 0
        assert memory.facts(at("u")).history("Maya") == []

    def test_node_does_not_change_state_or_stream(self, light):
        graph = chat(light, light.remember_facts(FakeListChatModel(responses=['{"facts": []}'])))
        parts = list(graph.stream(says("Hi", id="m"), at(), stream_mode=["updates", "messages"]))
        updates = [part for mode, part in parts if mode == "updates"]
        assert [*updates[1].values()] == [None]
        assert {message.content for mode, (message, *_) in [p for p in parts if p[0] == "messages"]} == {"I see."}

    def test_roles_option_limits_extracted_messages(self, light):
        graph = line(light.checkpointer, light.remember_facts(model := scripted_reader(), roles=["user"]))
        graph.invoke({"messages": [HumanMessage("Maya likes tea"), AIMessage("Maya likes rain")]}, at())
        assert model.texts == [["Maya likes tea"]]
        assert known(light.facts(at())) == ["Maya likes tea"]

    def test_system_summary_and_tool_messages_are_skipped(self, light):
        model = scripted_reader()
        graph = chat(light, light.remember_facts(model), answer="")
        given = [
            SystemMessage("Maya likes systems"),
            summary_message(Summary(summary="Maya likes summaries"), id="s"),
            memory_message("recalled", "Maya likes old things"),
            HumanMessage("Maya likes tea"),
            calling("look", "c", at="Maya likes calls"),
            ToolMessage("Maya likes tools", tool_call_id="c"),
        ]
        graph.invoke({"messages": given}, at())
        assert model.texts == [["Maya likes tea"]]
        assert known(light.facts(at())) == ["Maya likes tea"]


class TestFailures:
    @pytest.mark.parametrize("answer", [ConnectionError("no line"), "What a nice day!", "", '{"facts": [{"subject": 1'])
    async def test_failed_extraction_is_retried_in_next_turn(self, light, answer, do):
        model = scripted_reader(answer)
        graph = chat(light, light.remember_facts(model))
        for number, text in enumerate(("Maya lives in Porto", "Tom likes tea")):
            given = says(text, id=f"m{number}")
            state = await do(graph, "invoke", given, at())
            if not number:
                assert state["messages"][-1].text == "I see."
                assert light.facts(at()).pending_count() == 2
                assert light.facts(at()).history("Maya") == []
                [failure] = light.facts(at()).failures()
                assert failure.message_ids == ("m0", state["messages"][1].id)
        facts = light.facts(at())
        assert known(facts) == ["Maya lives in Porto", "Tom likes tea"]
        assert (facts.pending_count(), len(facts.failures())) == (0, 1)

    def test_calls_during_a_pause_do_not_extend_it(self, alone):
        with AgentMemory(clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as memory:
            facts = memory.facts("b", model=scripted_reader(*[RuntimeError("down")] * 40))
            for number in range(5):
                with contextlib.suppress(RuntimeError):
                    facts.extract_and_update_from_text(f"Tom likes tea {number}", role="user")
            pauses = facts._context.read_facts(
                None, lambda view: [kept.extra["until"] for kept in view.rows_of_kind(FACT_FAILURE)]
            )
        assert len(pauses) == 5
        assert len(set(pauses)) == 1


@pytest.mark.sqlite_suffices
class TestRewinding:
    async def test_editing_a_past_message_removes_its_facts(self, memory, do):
        model = scripted_reader()
        graph = chat(memory, memory.remember_facts(model))

        async def run(given, config):
            return await do(graph, "invoke", given, config)

        await run(says("Maya works at Acme", id="m0"), at())
        before = graph.get_state(at()).config
        await run(says("Maya lives in Porto", id="m1"), at())
        await run(says("Maya lives in Lisbon", id="m2"), at())
        last = graph.get_state(at()).config
        changed = graph.update_state(before, says("Maya lives in Rome", id="m1"))
        assert known(memory.facts(changed)) == ["Maya works at Acme"]
        await run(None, graph.update_state(before, says("Maya lives in Rome", id="m1"), as_node=START))
        assert known(memory.facts(at())) == ["Maya works at Acme", "Maya lives in Rome"]
        assert [fact.object for fact in memory.facts(at()).history("Maya", "lives in")] == ["Rome"]
        assert known(memory.facts(last)) == ["Maya works at Acme", "Maya lives in Lisbon"]
        assert [texts[0] for texts in model.texts] == [
            "Maya works at Acme", "Maya lives in Porto", "Maya lives in Lisbon", "Maya lives in Rome"
        ]  # fmt: skip

    def test_past_checkpoint_shows_its_facts_read_only(self, memory):
        graph = chat(memory, memory.remember_facts(scripted_reader()))
        seen = []
        for place in ("Porto", "Lisbon", "Rome"):
            graph.invoke(says(f"Maya lives in {place}"), at())
            seen.append((graph.get_state(at()).config, place))
        for config, place in seen:
            past = memory.facts(config)
            history = past.history("Maya")
            assert history[-1].valid_to is None
            assert {fact.id for fact in past.search("Maya lives")} == {fact.id for fact in history}
            for change in (
                partial(past.add_fact, "user", "a", "b", "c"), partial(past.add, role="user", content="x"),
                partial(past.undo, history[0].id), partial(past.remove_by_id, history[0].id),
                partial(past.declare, "likes"), past.reset_memory,
            ):  # fmt: skip
                with pytest.raises(InvalidInput, match="can only be read"):
                    change()
            assert known(past) == [f"Maya lives in {place}"]

    async def test_search_in_run_excludes_rewound_facts(self, memory):
        found = []

        async def look(_: Any, config: RunnableConfig) -> None:
            asked = {"query": "where does Maya live", "kinds": ["fact"]}
            hits = await memory.asearch(**asked, config=config)
            found.append({hit.text for hit in hits})
            facts = await memory.facts(config).asearch("where does Maya live")
            assert found[-1] == {hit.text for hit in memory.search(**asked)} == {fact.text for fact in facts}

        graph = chat(memory, memory.remember_facts(scripted_reader()), look)

        await graph.ainvoke(says("Maya lives in Porto"), at())
        before = (await graph.aget_state(at())).config
        await graph.ainvoke(says("Maya lives in Lisbon"), at())
        await graph.ainvoke(says("Maya lives in Rome"), before)
        porto, lisbon, rome = (f"Maya lives in {place}" for place in ("Porto", "Lisbon", "Rome"))
        assert found == [{porto}, {porto, lisbon}, {porto, rome}]
        assert {hit.text for hit in memory.search("Maya lives", kinds=["fact"], config=before)} >= {porto}


@pytest.mark.sqlite_suffices
class TestInterruptedRuns:
    async def test_interrupt_in_model_is_not_a_failure(self, memory, do):
        graph = chat(memory, memory.remember_facts(Scripted(meanwhile=lambda *_: interrupt("May I?") and None)))
        asked = []
        for given in (says("Maya lives in Porto"), Command(resume="yes")):
            state = await do(graph, "invoke", given, at())
            asked += [each.value for each in state.get("__interrupt__", ())]
        assert asked == ["May I?"]
        facts = memory.facts(at())
        assert known(facts) == ["Maya lives in Porto"]
        assert facts.failures() == []


class TestChangedMessages:
    def test_facts_of_messages_removed_from_state_stay(self, light):
        graph = chat(light, light.remember_facts(model := scripted_reader()))
        graph.invoke(says("Maya lives in Porto", id="m0"), at())
        graph.invoke({"messages": [RemoveMessage("m0"), HumanMessage("Tom likes tea", id="m1")]}, at())
        facts = light.facts(at())
        assert known(facts) == ["Maya lives in Porto", "Tom likes tea"]
        assert [each.text for each in facts.evidence(facts.history("Maya")[0].id)] == ["Maya lives in Porto"]
        assert len(model.texts) == 2

    def test_replaced_message_replaces_its_facts(self, light):
        graph = chat(light, light.remember_facts(model := scripted_reader()))
        graph.invoke(says("Maya lives in Porto. Tom likes tea", id="m0"), at())
        graph.invoke(says("Tom likes tea", id="m1"), at())
        graph.invoke(says("Maya lives in Rome", id="m0"), at())
        facts = light.facts(at())
        assert [fact.object for fact in facts.history("Maya")] == ["Rome"]
        [tea] = facts.history("Tom")
        assert tea.sources == ("m1",)
        assert model.texts[-1] == ["Maya lives in Rome", "I see."]

    def test_unusual_message_ids_are_extracted_once(self, light):
        said = ("Maya lives in Porto", "Maya lives in Lisbon")
        for number, odd in enumerate(("a" * 5_000, "\x1b[2J", "a\nb", "\x00", " ")):
            graph = chat(light, light.remember_facts(model := scripted_reader(), branch=f"{number}"), answer="")
            for text in said:
                graph.invoke({"messages": [HumanMessage(text, id=odd), HumanMessage(said[1], id="m")]}, at(f"{number}"))
            graph.invoke(says("Bye", id="n"), at(f"{number}"))
            assert model.texts == [[*said], [said[1]], ["Bye"]]
            assert known(light.facts(f"{number}"))[-1] == said[1]


class TestSharedBranch:
    def test_added_and_thread_messages_with_equal_ids_differ(self, light):
        facts, model = light.facts("user-42"), scripted_reader()
        graph = chat(light, light.remember_facts(model, branch="user-42"), answer="")
        facts.add(HumanMessage("Tom likes tea", id="m0"))
        graph.invoke(says("Tom likes jam", id="m0"), at())
        graph.invoke(says("Tom likes rain", id="m1"), at())
        assert facts.add(HumanMessage("Tom likes rain", id="m1")) == "m1"
        read = [text for some in model.texts for text in some]
        assert read == [f"Tom likes {each}" for each in ("tea", "jam", "rain")]
        assert [fact.text for fact in facts.search("*") if fact.raw] == ["Tom likes rain", "Tom likes tea"]
        for fact in facts.history("Tom"):
            assert [each.text for each in facts.evidence(fact.id)] == [fact.text]

    def test_thread_erasure_removes_facts_only_it_supports(self, memory):
        graph = chat(memory, memory.remember_facts(scripted_reader(), branch="user-42"), answer="")
        graph.invoke(says("Maya lives in Porto. Tom likes tea", id="t0"), at("t"))
        graph.invoke(says("Maya lives in Lisbon. Tom likes tea", id="u0"), at("u"))
        facts = memory.facts("user-42")
        assert known(facts, subject="Maya") == ["Maya lives in Lisbon"]
        memory.erase(thread_id="u")
        assert known(facts) == ["Maya lives in Porto", "Tom likes tea"]
        [porto], [tea] = facts.history("Maya"), facts.history("Tom")
        assert (porto.valid_to, tea.sources) == (None, ("t0",))
        assert memory.search("Lisbon") == []
        memory.erase(thread_id="t")
        assert facts.history("Maya") == facts.history("Tom") == facts.search("*") == []

    def test_namespace_defaults_to_that_of_the_run(self, light):
        for namespace, owner in ((None, ("alice",)), (("bob",), ("bob",))):
            node = light.remember_facts(scripted_reader(), branch="x", namespace=namespace)
            node.invoke([HumanMessage("Maya lives in Porto")], {"configurable": {"agentmem_namespace": ("alice",)}})
            assert known(light.facts("x", namespace=owner)) == ["Maya lives in Porto"]
        assert known(light.facts("x")) == []

    async def test_messages_without_ids_are_identified_by_content(self, light, do):
        model = scripted_reader()
        chain = RunnableLambda(lambda messages: messages) | light.remember_facts(model, branch="x")
        history = []
        for text in ("Maya lives in Porto", "Tom likes tea", "Maya lives in Porto"):
            history += [HumanMessage(text), AIMessage("I see.")]
            assert await do(chain, "invoke", history) == {}
        assert model.texts == [["Maya lives in Porto", "I see."], ["Tom likes tea"]]
        assert known(light.facts("x")) == ["Maya lives in Porto", "Tom likes tea"]
        assert all(len(fact.sources) == 1 for fact in light.facts("x").as_of())

    def test_node_accepts_message_inputs_and_rejects_others(self, light):
        said = HumanMessage("Maya likes tea")
        pair, whole = ("user", said.text), {"role": "user", "content": said.text}
        state = type("State", (), {"messages": [said]})()
        for number, given in enumerate(({"messages": [said]}, [said], said, [pair], [whole], state)):
            light.remember_facts(scripted_reader(), branch=f"{number}").invoke(given)
            assert known(light.facts(f"{number}")) == ["Maya likes tea"]
        for given in ("Maya likes tea", 5, {"text": "a"}, {"messages": "a"}, None):
            with pytest.raises(InvalidInput, match="node needs messages"):
                light.remember_facts(scripted_reader(), branch="x").invoke(given)
