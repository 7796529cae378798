"""A graph that runs within a thread has a conversation of its own, and none that saves no checkpoints."""

from __future__ import annotations

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
from tests.support.graphs import at as on
from tests.support.graphs import line
from tests.support.models import ScriptedModel

from .summarizers import budget, talk
from .test_middleware import Scripted, calling, texts

BRIEF = "Look up the secret heron for me"


def names(memory):
    """The ids of all conversations, with those that are not listed."""
    asked = {"low": "", "high": "\U0010ffff", "name": None, "kind": CONVERSATION}

    def steps():
        return [row["name"] for row in (yield query.list_branches(**asked))]

    return memory.database.engine.read(steps)


def nested(memory):
    return [each for each in names(memory) if is_nested(each)]


def said(memory, conversation="t", **more):
    return [message.text for message in memory.conversation(conversation, **more).messages]


def found(memory, query="heron", **more):
    return [hit.text for hit in memory.search(query, limit=50, **more)]


def node_graph(memory, checkpointer=None, *, then=lambda state: None, **options):
    """A graph that compacts its messages and answers."""

    def answer(state):
        then(state)
        return {"messages": [AIMessage(f"It is done: {state['messages'][-1].text}")]}

    return line(checkpointer, memory.compaction(**options), answer, state=CompactionState)


def agent(memory, checkpointer=None, *, tools=False, script=None, **options):
    from langchain_agentmem import CompactionMiddleware

    middleware = [CompactionMiddleware(memory, tools=tools, **options)]
    return agent_with(Scripted(script), middleware, checkpointer)


def agent_with(model, middleware, checkpointer, tools=()):
    from langchain.agents import create_agent

    return create_agent(model, [*tools], middleware=middleware, checkpointer=checkpointer)


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


def tell(graph, text, config=None):
    return graph.invoke({"messages": [HumanMessage(text, id=text)]}, config or on())


KINDS = {"node": node_graph, "middleware": agent}


class TestANestedGraph:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("checkpointer", [None, True, False])
    @pytest.mark.parametrize("awaited", [False, True], ids=["waiting", "awaiting"])
    async def test_leaves_the_callers_conversation_as_its_state_is(self, memory, kind, checkpointer, awaited):
        inner = KINDS[kind](memory, checkpointer)
        call = inner.ainvoke if awaited else inner.invoke
        graph = caller(memory, call, memory.checkpointer, awaited=awaited)
        for text in ("first", "second"):
            given = {"messages": [HumanMessage(text, id=text)]}
            await graph.ainvoke(given, on()) if awaited else graph.invoke(given, on())
            state = (await graph.aget_state(on())) if awaited else graph.get_state(on())
            assert said(memory) == [message.text for message in state.values["messages"]]
        assert [each.conversation_id for each in memory.conversations()] == ["t"]
        assert found(memory) == found(memory, namespace=()) == []
        own = nested(memory)
        assert len(own) == {None: 2, True: 1, False: 0}[checkpointer]
        assert [said(memory, each).count(BRIEF) for each in own] == {None: [1, 1], True: [2], False: []}[checkpointer]

    def test_changes_nothing_in_what_other_searches_find(self, memory):
        memory.conversation("t").add_messages([HumanMessage("The heron waits by the river")])
        before = memory.search("the heron by the river")
        memory.conversation(nested_conversation("t", "tools:1")).add_messages([HumanMessage("heron river")] * 50)
        assert memory.search("the heron by the river") == before
        assert not memory.admin.verify().problems

    def test_of_a_thread_is_recorded_where_somebody_saves_it(self, memory):
        tell(caller(memory, node_graph(memory).invoke), "first")
        assert names(memory) == []
        tell(caller(memory, node_graph(memory).invoke, InMemorySaver()), "first")
        [own] = nested(memory)
        assert names(memory) == [own]
        assert found(memory) == []
        hits = memory.search("secret heron", conversation_id=own)
        assert {(hit.source, hit.conversation_id) for hit in hits} == {("model", own)}, "what its caller said"

    def test_on_a_thread_of_its_own_is_that_threads(self, memory):
        inner = node_graph(memory)
        graph = caller(memory, lambda given: inner.invoke(given, on("other")), memory.checkpointer)
        tell(graph, "first")
        assert nested(memory) == []
        assert said(memory, "other")[0] == BRIEF
        assert said(memory) == ["first", "Here you are"]

    def test_that_calls_another_has_a_conversation_and_that_has_one(self, memory):
        inner = caller(memory, node_graph(memory).invoke)
        tell(caller(memory, inner.invoke, memory.checkpointer), "first")
        [own] = nested(memory)
        assert own.count("|") == 1
        assert said(memory) == ["first", "Here you are"]

    def test_is_told_from_a_function_that_the_threads_own_graph_calls(self, memory):
        compact = memory.compaction()

        @task
        def show(messages):
            compact.invoke(messages)
            inner.invoke({"messages": [HumanMessage(BRIEF)]})

        @entrypoint(checkpointer=memory.checkpointer)
        def work(text):
            show([HumanMessage(text, id=text)]).result()

        inner = node_graph(memory)
        work.invoke("first", on())
        assert said(memory) == ["first"]
        assert len(nested(memory)) == 1

    def test_keeps_within_its_budget(self, memory):
        """Also where nothing is recorded: that object alone remembers what it compacted."""
        for checkpointer in (None, False):
            shown = []
            inner = node_graph(memory, checkpointer, config=budget(300), then=shown.append)
            graph = caller(memory, lambda _, inner=inner: inner.invoke({"messages": talk(20)}), memory.checkpointer)
            tell(graph, "first", on(str(checkpointer)))
            messages = shown[0]["llm_input_messages"]
            assert any(summary_in(each) is not None for each in messages)
            assert len(messages) < 40

    def test_reads_its_earlier_turns_with_its_tools(self, memory):
        recalled = []

        def script(messages):
            if isinstance(messages[-1], ToolMessage):
                recalled.append(messages[-1].text)
                return "Found."
            return calling("recall_dropped", query="heron place")

        inner = agent(memory, True, script=script, tools=True)
        graph = caller(memory, inner.invoke, memory.checkpointer)
        tell(graph, "The heron of the user is elsewhere")
        tell(graph, "The heron is there")
        assert "heron for me" in recalled[1]
        assert not any(word in text for text in recalled for word in ("elsewhere", "there\n"))

    @pytest.mark.parametrize("user", [{}, {"namespace": ("users", "ada")}], ids=["alone", "of a user"])
    def test_is_searched_by_name_alone_so_that_no_rewind_leaves_anything_in_prompts(self, memory, user):
        seen = []
        inner = node_graph(memory, True, then=lambda _: seen.append(found(memory)))

        def call(given):
            inner.invoke(given)
            seen.append(found(memory))

        graph = caller(memory, call, memory.checkpointer)
        for text in ("first", "second"):
            tell(graph, text, on(**user))
        assert seen == [[]] * 4

    def test_knows_its_user(self, memory):
        known = []
        inner = node_graph(memory, then=lambda _: known.append(memory.layers().core.get("city")))
        memory.layers(namespace=("users", "ada")).core.set("city", "Lisbon")
        tell(caller(memory, inner.invoke, memory.checkpointer), "first", on(namespace=("users", "ada")))
        assert known == [{"city": "Lisbon"}]


class TestAnAgentAsATool:
    @pytest.mark.parametrize("checkpointer", [None, False])
    def test_keeps_its_brief_from_prompts_and_other_threads(self, memory, checkpointer):
        inner = agent(memory, checkpointer)

        @tool
        def helper(wish: str) -> str:
            """Ask somebody else."""
            return inner.invoke({"messages": [HumanMessage(wish)]})["messages"][-1].text

        def script(messages):
            asks = messages[-1].text == "ask him"
            return calling("helper", wish=BRIEF, key=f"{len(messages)}-") if asks else "Here you are"

        from langchain_agentmem import CompactionMiddleware, MemoryMiddleware

        model = Scripted(script)
        middleware = [CompactionMiddleware(memory, tools=False), MemoryMiddleware(memory)]
        outer = agent_with(model, middleware, memory.checkpointer, [helper])
        ada = {"namespace": ("users", "ada")}
        tell(outer, "ask him", on(**ada))
        for thread in ("t", "u"):
            tell(outer, "Where is the secret heron?", on(thread, **ada))
            shown = texts([each for each in model.shown[-1] if not isinstance(each, AIMessage | ToolMessage)])
            assert BRIEF not in shown
        assert BRIEF not in found(memory, BRIEF, namespace=("users", "ada"), trust="user")
        earlier = list(outer.get_state_history(on(**ada)))[-1].config
        outer.update_state(earlier, {"messages": [HumanMessage("anew", id="anew")]})
        assert "anew" in found(memory, "anew", namespace=("users", "ada"))
        assert BRIEF not in " ".join(found(memory, BRIEF, namespace=("users", "ada")))


class TestTheOption:
    @pytest.mark.parametrize("checkpointer", [None, False])
    def test_records_a_graph_in_its_callers_conversation(self, memory, checkpointer):
        inner = node_graph(memory, checkpointer, share_conversation=True)
        tell(caller(memory, inner.invoke, memory.checkpointer), "first")
        assert nested(memory) == []
        assert BRIEF in said(memory)

    def test_means_the_graph_that_calls(self, memory):
        inner = agent(memory, share_conversation=True)
        middle = caller(memory, inner.invoke)
        tell(caller(memory, middle.invoke, memory.checkpointer), "first")
        [own] = nested(memory)
        assert "|" not in own
        assert said(memory, own)[0] == BRIEF

    def test_changes_nothing_for_the_threads_own_graph(self, memory):
        tell(node_graph(memory, memory.checkpointer, share_conversation=True), "first")
        assert names(memory) == ["t"]

    def test_goes_on_with_what_was_compacted_where_an_agent_is_a_node(self, memory):
        model = ScriptedModel("- Many apples.")
        inner = node_graph(memory, model=model, config=budget(600), share_conversation=True)
        graph = line(memory.checkpointer, inner, state=CompactionState)
        tell(graph, "first")
        graph.update_state(on(), {"messages": talk(20)})
        for text in ("second", "third", "fourth"):
            tell(graph, text)
        assert nested(memory) == []
        assert len(model.asked) == 1

    def test_that_is_none_is_refused(self, memory):
        from langchain_agentmem import CompactionMiddleware

        middleware, facts = partial(CompactionMiddleware, memory), partial(memory.remember_facts, ScriptedModel())
        for options in ({"share_conversation": "yes"}, {"share_conversation": True, "conversation_id": "c"}):
            for build in (memory.compaction, middleware, facts):
                with pytest.raises(InvalidInput, match="conversation"):
                    build(**options)


class TestWhatElseIsKeptOfARun:
    @pytest.fixture
    def reader(self):
        from tests.facts.scripted import Scripted as Reader

        return Reader()

    @pytest.mark.parametrize("checkpointer", [None, False])
    def test_in_the_audit_trail(self, memory, checkpointer):
        inner = agent(memory, checkpointer)
        graph = caller(memory, inner.invoke, memory.checkpointer)
        tell(graph, "first", {**on(), "callbacks": [memory.audit.handler()]})
        [call] = memory.audit.last(5, kinds=["call"])
        assert call.thread_id == "t"
        assert [call.conversation_id] == (nested(memory) if checkpointer is None else [None])

    @pytest.mark.parametrize("checkpointer", [None, False])
    def test_as_facts(self, memory, reader, checkpointer):
        call = line(checkpointer, memory.remember_facts(reader)).invoke
        graph = caller(memory, lambda _: call({"messages": [HumanMessage("Maya lives in Porto")]}), memory.checkpointer)
        tell(graph, "first", on(namespace=("users", "ada")))
        facts = memory.facts(on(namespace=("users", "ada"))).as_of()
        sources = [each.conversation_id for fact in facts for each in fact.told]
        assert [each.partition("\x1f")[0] for each in sources] == ["t"] * (checkpointer is None)
        assert all(map(is_nested, sources))
        memory.erase(thread_id="t")
        assert memory.facts(namespace=("users", "ada")).as_of() == []
        assert memory.admin.verify().ok

    @pytest.mark.parametrize("checkpointer", [None, False])
    def test_as_facts_of_the_callers_messages_each_of_which_is_read_once(self, memory, reader, checkpointer):
        inner = line(checkpointer, memory.remember_facts(reader, share_conversation=True))
        graph = line(memory.checkpointer, inner)
        for text in ("Maya lives in Porto", "Maya lives in Lisbon"):
            graph.invoke({"messages": [HumanMessage(text, id=text)]}, on(), durability="async")
        assert len(reader.texts) == 2
        told = [each for fact in memory.facts(on()).as_of() for each in fact.told]
        assert [(each.conversation_id, each.message_id) for each in told] == [("t", "Maya lives in Lisbon")]


class TestAThreadThatGoes:
    @pytest.fixture
    def thread(self, memory):
        inner = node_graph(memory)
        graph = caller(memory, inner.invoke, memory.checkpointer)
        for thread in ("t", "t2"):
            tell(graph, "first", on(thread))
        assert len(nested(memory)) == 2
        return graph

    @pytest.mark.parametrize("erased", [False, True])
    def test_takes_its_nested_conversations_along_when_it_is_deleted_or_erased(self, memory, thread, erased):
        [own] = [each for each in nested(memory) if each.startswith("t\x1f")]
        memory.erase(thread_id="t") if erased else memory.checkpointer.delete_thread("t")
        assert {each[:2] for each in names(memory)} == {"t2"}
        assert found(memory, conversation_id=own) == []
        assert memory.admin.verify().ok

    def test_is_listed_and_copied_without_them(self, memory, thread):
        listed = memory.admin.threads().threads
        assert sorted((each.thread_id, each.messages) for each in listed) == [("t", 2), ("t2", 2)]
        memory.checkpointer.copy_thread("t", "copy")
        assert "copy" in names(memory)
        assert len(nested(memory)) == 2

    def test_takes_them_along_into_another_namespace(self, memory, thread):
        memory.admin.adopt("t", namespace=("users", "ada"))
        [there] = [each for each in nested(memory) if each.startswith("t\x1f")]
        assert said(memory, there, namespace=("users", "ada"))[0] == BRIEF

    def test_is_exported_with_them(self, memory, thread, tmp_path):
        memory.export(tmp_path / "all.jsonl")
        before = sorted(names(memory))
        for each in ("t", "t2"):
            memory.erase(thread_id=each)
        memory.import_(tmp_path / "all.jsonl")
        assert sorted(names(memory)) == before

    def test_is_found_by_a_short_name(self):
        name = nested_conversation("t", "node:" + "x" * 500)
        assert len(name) == 42, "an index has no room for more"
