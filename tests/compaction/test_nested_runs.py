"""A graph nested in a thread records a conversation of its own, and none if it saves no checkpoints."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task

from langchain_agentmem import CompactionState
from langchain_agentmem.base.namespaces import is_nested, nested_conversation
from langchain_agentmem.conversations.message_log import CONVERSATION
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.messages.message_marks import summary_in
from langchain_agentmem.storage import query
from tests.support.graphs import at, line
from tests.support.models import ScriptedModel, calling

from .summarizers import AgentModel, budget, talk

BRIEF = "Look up the secret heron for me"


def conversation_ids(memory):
    """The ids of all conversations, with those that are not listed."""
    asked = {"low": "", "high": "\U0010ffff", "name": None, "kind": CONVERSATION}

    def steps(tx):
        return [row["name"] for row in query.list_branches(tx, **asked)]

    return memory.database.engine.read(steps)


def nested_ids(memory):
    return [each for each in conversation_ids(memory) if is_nested(each)]


def conversation_texts(memory, conversation="t", **more):
    return [message.text for message in memory.conversation(conversation, **more).messages]


def found(memory, query="heron", **more):
    return [hit.text for hit in memory.search(query, limit=50, **more)]


def node_graph(memory, checkpointer=None, *, then=lambda state: None, **options):
    """A graph that compacts its messages and answers."""

    def answer(state):
        then(state)
        return {"messages": [AIMessage(f"It is done: {state['messages'][-1].text}")]}

    return line(checkpointer, memory.compaction(**options), answer, state=CompactionState)


def agent(memory, checkpointer=None, *, script=None, model=None, own_tools=(), middleware=(), **options):
    from langchain.agents import create_agent

    from langchain_agentmem import CompactionMiddleware

    own = CompactionMiddleware(memory, **{"tools": False, **options})
    model = model or AgentModel(script)
    return create_agent(model, [*own_tools], middleware=[own, *middleware], checkpointer=checkpointer)


def caller(memory, call, checkpointer=None, *, awaited=False):
    """A graph with one node, which calls something, and answers."""

    def answer(state):
        return {"messages": [AIMessage("Here you are", id=f"re-{state['messages'][-1].id}")]}

    def node(state):
        call({"messages": [HumanMessage(BRIEF)]})
        return answer(state)

    async def anode(state):
        await call({"messages": [HumanMessage(BRIEF)]})
        return answer(state)

    return line(checkpointer, anode if awaited else node, state=CompactionState)


def invoke_graph(graph, text, config=None):
    return graph.invoke({"messages": [HumanMessage(text, id=text)]}, config or at())


KINDS = {"node": node_graph, "middleware": agent}


class TestNestedGraph:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("checkpointer", [None, True, False])
    @pytest.mark.parametrize("awaited", [False, True], ids=["waiting", "awaiting"])
    async def test_nested_graph_leaves_the_callers_conversation_unchanged(self, memory, kind, checkpointer, awaited):
        inner = KINDS[kind](memory, checkpointer)
        call = inner.ainvoke if awaited else inner.invoke
        graph = caller(memory, call, memory.checkpointer, awaited=awaited)
        for text in ("first", "second"):
            given = {"messages": [HumanMessage(text, id=text)]}
            await graph.ainvoke(given, at()) if awaited else graph.invoke(given, at())
            state = (await graph.aget_state(at())) if awaited else graph.get_state(at())
            assert conversation_texts(memory) == [message.text for message in state.values["messages"]]
        assert [each.conversation_id for each in memory.conversations()] == ["t"]
        assert found(memory) == found(memory, namespace=()) == []
        own = nested_ids(memory)
        assert len(own) == {None: 2, True: 1, False: 0}[checkpointer]
        assert [conversation_texts(memory, each).count(BRIEF) for each in own] == {None: [1, 1], True: [2], False: []}[
            checkpointer
        ]

    def test_nested_messages_do_not_affect_other_searches(self, memory):
        memory.conversation("t").add_messages([HumanMessage("The heron waits by the river")])
        before = memory.search("the heron by the river")
        memory.conversation(nested_conversation("t", "tools:1")).add_messages([HumanMessage("heron river")] * 50)
        assert memory.search("the heron by the river") == before
        assert not memory.admin.verify().problems

    def test_nested_run_is_recorded_only_with_a_checkpointer(self, memory):
        invoke_graph(caller(memory, node_graph(memory).invoke), "first")
        assert conversation_ids(memory) == []
        invoke_graph(caller(memory, node_graph(memory).invoke, InMemorySaver()), "first")
        [own] = nested_ids(memory)
        assert conversation_ids(memory) == [own]
        assert found(memory) == []
        hits = memory.search("secret heron", conversation_id=own)
        assert {(hit.source, hit.conversation_id) for hit in hits} == {("model", own)}, "what its caller said"

    def test_separate_thread_records_its_own_conversation(self, memory):
        inner = node_graph(memory)
        invoke_graph(caller(memory, lambda given: inner.invoke(given, at("other")), memory.checkpointer), "first")
        assert (nested_ids(memory), conversation_texts(memory, "other")[0]) == ([], BRIEF)
        invoke_graph(caller(memory, caller(memory, inner.invoke).invoke, memory.checkpointer), "first", at("u"))
        [own] = nested_ids(memory)
        assert own.count("|") == 1
        assert conversation_texts(memory) == conversation_texts(memory, "u") == ["first", "Here you are"]

    def test_task_records_in_the_thread_unlike_nested_graphs(self, memory):
        compact = memory.compaction()

        @task
        def show(messages):
            compact.invoke(messages)
            inner.invoke({"messages": [HumanMessage(BRIEF)]})

        @entrypoint(checkpointer=memory.checkpointer)
        def work(text):
            show([HumanMessage(text, id=text)]).result()

        inner = node_graph(memory)
        work.invoke("first", at())
        assert conversation_texts(memory) == ["first"]
        assert len(nested_ids(memory)) == 1

    def test_nested_graph_keeps_its_budget(self, memory):
        """Also where nothing is recorded: that object alone remembers what it compacted."""
        for checkpointer in (None, False):
            shown = []
            inner = node_graph(memory, checkpointer, config=budget(300), then=shown.append)
            graph = caller(memory, lambda _, inner=inner: inner.invoke({"messages": talk(20)}), memory.checkpointer)
            invoke_graph(graph, "first", at(str(checkpointer)))
            messages = shown[0]["llm_input_messages"]
            assert any(summary_in(each) is not None for each in messages)
            assert len(messages) < 40

    def test_nested_graph_inherits_the_namespace(self, memory):
        known = []
        inner = node_graph(memory, then=lambda _: known.append(memory.layers().core.get("city")))
        memory.layers(namespace=("users", "ada")).core.set("city", "Lisbon")
        invoke_graph(caller(memory, inner.invoke, memory.checkpointer), "first", at(namespace=("users", "ada")))
        assert known == [{"city": "Lisbon"}]

    def test_tools_recall_only_the_nested_conversation(self, memory):
        recalled = []

        def script(messages):
            if isinstance(messages[-1], ToolMessage):
                recalled.append(messages[-1].text)
                return "Found."
            return calling("recall_dropped", query="heron place")

        graph = caller(memory, agent(memory, True, script=script, tools=True).invoke, memory.checkpointer)
        invoke_graph(graph, "The heron of the user is elsewhere")
        invoke_graph(graph, "The heron is there")
        assert "heron for me" in recalled[1]
        assert not any(word in text for text in recalled for word in ("elsewhere", "there\n"))


@pytest.mark.parametrize("checkpointer", [None, False])
def test_tool_agents_brief_stays_out_of_other_prompts(memory, checkpointer):
    from langchain_agentmem import MemoryMiddleware

    inner = agent(memory, checkpointer)

    @tool
    def helper(wish: str) -> str:
        """Ask somebody else."""
        return inner.invoke({"messages": [HumanMessage(wish)]})["messages"][-1].text

    def script(messages):
        return calling("helper", wish=BRIEF) if messages[-1].text == "ask him" else "Here you are"

    model, ada = AgentModel(script), {"namespace": ("users", "ada")}
    outer = agent(memory, memory.checkpointer, model=model, middleware=[MemoryMiddleware(memory)], own_tools=[helper])
    invoke_graph(outer, "ask him", at(**ada))
    for thread in ("t", "u"):
        invoke_graph(outer, "Where is the secret heron?", at(thread, **ada))
        said_to_it = [each.text for each in model.asked[-1] if not isinstance(each, AIMessage | ToolMessage)]
        assert BRIEF not in "\n".join(said_to_it)
    assert BRIEF not in found(memory, BRIEF, **ada, trust="user")


class TestShareConversation:
    @pytest.mark.parametrize("checkpointer", [None, False])
    def test_option_records_in_the_callers_conversation(self, memory, checkpointer):
        inner = node_graph(memory, checkpointer, share_conversation=True)
        invoke_graph(caller(memory, inner.invoke, memory.checkpointer), "first")
        assert (nested_ids(memory), BRIEF in conversation_texts(memory)) == ([], True)

    def test_agent_as_node_reuses_compactions(self, memory):
        model = ScriptedModel("- Many apples.")
        inner = node_graph(memory, model=model, config=budget(600), share_conversation=True)
        graph = line(memory.checkpointer, inner, state=CompactionState)
        invoke_graph(graph, "first")
        graph.update_state(at(), {"messages": talk(20)})
        for text in ("second", "third", "fourth"):
            invoke_graph(graph, text)
        assert nested_ids(memory) == []
        assert len(model.asked) == 1

    def test_invalid_option_is_rejected(self, memory):
        from langchain_agentmem import CompactionMiddleware

        middleware, facts = partial(CompactionMiddleware, memory), partial(memory.remember_facts, ScriptedModel())
        for options in ({"share_conversation": "yes"}, {"share_conversation": True, "conversation_id": "c"}):
            for build in (memory.compaction, middleware, facts):
                with pytest.raises(InvalidInput, match="conversation"):
                    build(**options)


class TestNestedRecords:
    @pytest.mark.parametrize("checkpointer", [None, False])
    def test_audit_entries_name_the_nested_conversation(self, memory, checkpointer):
        graph = caller(memory, agent(memory, checkpointer).invoke, memory.checkpointer)
        invoke_graph(graph, "first", {**at(), "callbacks": [memory.audit.handler()]})
        [call] = memory.audit.last(5, kinds=["call"])
        assert call.thread_id == "t"
        assert [call.conversation_id] == (nested_ids(memory) if checkpointer is None else [None])

    @pytest.mark.parametrize("checkpointer", [None, False])
    def test_facts_name_and_follow_the_nested_conversation(self, memory, checkpointer):
        call = line(checkpointer, memory.remember_facts(ScriptedModel(find_facts))).invoke
        graph = caller(memory, lambda _: call({"messages": [HumanMessage("Maya lives in Porto")]}), memory.checkpointer)
        invoke_graph(graph, "first", at(namespace=("users", "ada")))
        facts = memory.facts(at(namespace=("users", "ada"))).as_of()
        sources = [each.conversation_id for fact in facts for each in fact.mentions]
        assert [each.partition("\x1f")[0] for each in sources] == ["t"] * (checkpointer is None)
        assert all(map(is_nested, sources))
        memory.erase(thread_id="t")
        assert memory.facts(namespace=("users", "ada")).as_of() == []
        assert memory.admin.verify().ok

    @pytest.mark.parametrize("checkpointer", [None, False])
    def test_shared_messages_are_extracted_once(self, memory, checkpointer):
        reader = ScriptedModel(find_facts)
        inner = line(checkpointer, memory.remember_facts(reader, share_conversation=True))
        graph = line(memory.checkpointer, inner)
        for text in ("Maya lives in Porto", "Maya lives in Lisbon"):
            graph.invoke({"messages": [HumanMessage(text, id=text)]}, at(), durability="async")
        assert len(reader.asked) == 2
        told = [each for fact in memory.facts(at()).as_of() for each in fact.mentions]
        assert [(each.conversation_id, each.message_id) for each in told] == [("t", "Maya lives in Lisbon")]


def find_facts(messages):
    """Return the facts about Maya that a model is to find."""
    places = re.findall(r'message number="(\d+)"[^>]*>\nMaya lives in (\w+)', messages[-1].text)
    fact = {"subject": "Maya", "predicate": "lives in"}
    return json.dumps({"facts": [{**fact, "message": int(number), "object": place} for number, place in places]})


class TestThreadAdministration:
    @pytest.fixture
    def thread(self, memory):
        inner = node_graph(memory)
        graph = caller(memory, inner.invoke, memory.checkpointer)
        for thread in ("t", "t2"):
            invoke_graph(graph, "first", at(thread))
        assert len(nested_ids(memory)) == 2
        return graph

    @pytest.mark.parametrize("erased", [False, True])
    def test_deleting_a_thread_deletes_its_nested_conversations(self, memory, thread, erased):
        [own] = [each for each in nested_ids(memory) if each.startswith("t\x1f")]
        memory.erase(thread_id="t") if erased else memory.checkpointer.delete_thread("t")
        assert {each[:2] for each in conversation_ids(memory)} == {"t2"}
        assert found(memory, conversation_id=own) == []
        assert memory.admin.verify().ok

    def test_listing_and_copying_exclude_nested_conversations(self, memory, thread):
        listed = memory.admin.threads().threads
        assert sorted((each.thread_id, each.messages) for each in listed) == [("t", 2), ("t2", 2)]
        memory.checkpointer.copy_thread("t", "copy")
        assert "copy" in conversation_ids(memory)
        assert len(nested_ids(memory)) == 2

    def test_adopt_moves_nested_conversations(self, memory, thread):
        memory.admin.adopt("t", namespace=("users", "ada"))
        [there] = [each for each in nested_ids(memory) if each.startswith("t\x1f")]
        assert conversation_texts(memory, there, namespace=("users", "ada"))[0] == BRIEF

    def test_export_includes_nested_conversations(self, memory, thread, tmp_path):
        memory.export(tmp_path / "all.jsonl")
        before = sorted(conversation_ids(memory))
        for each in ("t", "t2"):
            memory.erase(thread_id=each)
        memory.import_(tmp_path / "all.jsonl")
        assert sorted(conversation_ids(memory)) == before
