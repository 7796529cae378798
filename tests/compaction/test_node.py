"""`CompactionNode` in graphs and chains, over restarts and forks, and with other state schemas."""

import asyncio
import contextlib
from collections import Counter
from typing import Annotated, TypedDict

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langgraph.channels import DeltaChannel
from langgraph.graph import MessagesState
from langgraph.graph.message import _messages_delta_reducer

from langchain_agentmem import AgentMemory, CompactionNode
from langchain_agentmem.base.events import CompactionEvent, MessagesStored, StepFinished, StepStarted
from langchain_agentmem.compaction import CompactionState, ToolTruncationConfig, summary_in
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.language_models.tokens import TokenCounter
from langchain_agentmem.testing import assert_valid_for_providers
from tests.compaction.summarizers import COUNTER, Summarizer, budget, build, question, talk, with_a_call
from tests.support.graphs import at, line
from tests.support.models import ScriptedModel

pytestmark = pytest.mark.sqlite_suffices

SMALL = budget(600)


def streamed(graph, turns):
    """Ask so many questions, and return the ids of the messages that were streamed."""
    parts = (graph.stream({"messages": [question(turn)]}, at(), stream_mode="messages") for turn in range(turns))
    return [message.id for part in parts for message, _ in part]


class TestGraph:
    def test_history_is_recorded_once_and_context_compacted(self, url):
        events, model = [], Summarizer()
        with AgentMemory(url, hooks=[events.append]) as memory:
            graph, shown = build(memory, memory.compaction(model, SMALL))
            assert streamed(graph, 30) == [f"a-{turn}" for turn in range(30)], "nothing leaks into the stream"
            for turn, context in enumerate(shown):
                assert_valid_for_providers(context)
                assert (context[0].text, context[-1].text) == (question(0).text, question(turn).text)
            assert len(graph.get_state(at()).values["messages"]) == 60
            assert len(shown[-1]) < 30
            assert any(summary_in(message) for message in shown[-1])
            everything = model.everything + "\n".join(message.text for message in shown[-1])
            assert all(f"question-{turn:03}" in everything for turn in range(29))
            assert [each.id for each in memory.conversation("t").messages] == [each.id for each in talk(30)]
            found = memory.search("question-003", limit=2)  # the answer repeats it
            assert {(each.id, each.conversation_id) for each in found} == {("q-3", "t"), ("a-3", "t")}
        stored = [key for each in events if isinstance(each, MessagesStored) for key in each.message_ids]
        assert len(stored) == len(set(stored)) == 60

    @pytest.mark.parametrize("ended", [KeyboardInterrupt, RuntimeError])
    def test_interrupted_model_is_asked_once_more_without_loss(self, url, ended):
        shown, turn, model = [], 0, Summarizer(usual=lambda messages: model.summary())
        model.replies.extend([ended(), lambda messages: model.summary(), ended()])

        def answer(state):
            shown.append(state["llm_input_messages"])
            return {"messages": [AIMessage("this many are in it " * 4)]}

        while turn < 30:
            with AgentMemory(url) as memory:  # another one goes on after each kill
                graph = line(memory.checkpointer, memory.compaction(model, SMALL), answer, state=CompactionState)
                with contextlib.suppress(KeyboardInterrupt):
                    if graph.get_state(at()).next:
                        graph.invoke(None, at(), durability="sync")
                    while turn < 30:
                        turn += 1
                        graph.invoke({"messages": [question(turn - 1)]}, at(), durability="sync")
                said = graph.get_state(at()).values["messages"]
        assert (len(said), model.replies) == (60, [])
        asked = Counter(model.texts)
        assert sum(asked.values()) <= len(asked) + 2
        assert max(asked.values()) <= 2
        everything = model.everything + "".join(message.text for message in shown[-1])
        assert [turn for turn in range(30) if f"question-{turn:03}" not in everything] == []

    def test_state_without_key_or_messages_is_rejected(self, memory):
        graph, _ = build(memory, memory.compaction(Summarizer(), SMALL), schema=MessagesState)
        with pytest.raises(InvalidInput, match=r"llm_input_messages.*CompactionState"):
            graph.invoke({"messages": [question(0)]}, at())
        for wrong in ({}, {"messages": None}, {"messages": "text"}, 7, None):
            with pytest.raises(InvalidInput, match="no messages"):
                memory.compaction(None, SMALL).invoke(wrong)

    async def test_async_model_compacts(self, memory):
        async def model(messages):
            await asyncio.sleep(0)
            return Summarizer().summary()

        graph, shown = build(memory, memory.compaction(model, SMALL))
        for turn in range(15):
            await graph.ainvoke({"messages": [question(turn)]}, at())
        assert any(summary_in(message) for message in shown[-1])
        assert len(memory.conversation("t")) == 30

    def test_hooks_receive_steps_and_compactions(self):
        told = []
        with AgentMemory(":memory:", record=(), hooks=[told.append]) as memory:
            graph, _ = build(memory, memory.compaction(Summarizer(), SMALL))
            graph.invoke({"messages": talk(15)}, at())
        compactions = [each for each in told if isinstance(each, CompactionEvent)]
        assert [each.status for each in compactions] == ["started", "completed"]
        assert {each.session_id for each in compactions} == {"t"}
        started = [each.name.rpartition(".")[2] for each in told if isinstance(each, StepStarted)]
        assert [name for name in started if name in ("compact", "record", "summarize")] == [
            "compact",
            "record",
            "summarize",
        ]
        [ended] = [each for each in told if isinstance(each, StepFinished) and each.name.endswith(".compact")]
        assert ended.outputs["status"] == "compacted"

    @pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
    def test_prebuilt_agent_accepts_it_as_a_hook(self, memory):
        from langgraph.prebuilt import create_react_agent

        model, hook = ScriptedModel("this many " * 20), memory.compaction(Summarizer(), SMALL)
        agent = create_react_agent(model, [], pre_model_hook=hook, checkpointer=memory.checkpointer)
        for turn in range(15):
            agent.invoke({"messages": [question(turn)]}, at())
        assert any(summary_in(message) for message in model.asked[-1])
        assert len(agent.get_state(at()).values["messages"]) == 30


class TestChain:
    def test_chain_compacts_messages_and_prompts(self, memory):
        node = memory.compaction(Summarizer(), SMALL)
        chain = node | RunnableLambda(lambda messages: (len(messages), messages[-1].content))
        assert chain.invoke([HumanMessage("hello")]) == (1, "hello")
        count, last = chain.invoke(talk(30))
        assert count < 30
        assert last.startswith("answer-029")
        prompt = ChatPromptTemplate.from_messages([("system", "You count."), ("placeholder", "{history}")])
        messages = (prompt | memory.compaction(Summarizer(), SMALL)).invoke({"history": talk(30)})
        assert isinstance(messages[0], SystemMessage)
        assert_valid_for_providers(messages)
        assert len(messages) < 30

    def test_compactions_without_a_thread_stay_in_the_object(self, memory):
        model = Summarizer()
        node = memory.compaction(model, SMALL)
        once = node.invoke(talk(30))
        assert len(model.asked) == 1
        assert node.invoke(talk(30)) == once
        assert len(model.asked) == 1
        for turns in range(31, 60):
            node.invoke(talk(turns))
        assert len(model.asked) > 2
        assert all(f"Summary number {number}:" in asked for number, asked in enumerate(model.texts[1:], 1))
        assert "question-002" not in "".join(model.texts[1:]), "it goes on from what it summarized"
        assert memory.admin.stats()["messages"] == memory.admin.stats()["compactions"] == 0

    def test_messages_without_ids_are_compacted_once(self, memory):
        model = Summarizer()
        said = [type(message)(content=message.content) for message in talk(30)]
        once = memory.compaction(model, SMALL).invoke(said, at())
        assert memory.compaction(model, SMALL).invoke(said, at()) == once
        assert len(model.asked) == 1
        assert all(message.id is None for message in said)
        assert len(memory.conversation("t")) == 60

    def test_state_objects_and_message_tuples_are_accepted(self, memory):
        class State:
            messages = talk(30)

        update = memory.compaction(Summarizer(), SMALL).invoke(State())
        assert list(update) == ["llm_input_messages"]
        assert len(update["llm_input_messages"]) < 30
        node, given = memory.compaction(window=1), [("user", "hi"), {"role": "assistant", "content": "ho"}]
        assert node.invoke(given) == [HumanMessage("hi"), AIMessage("ho")], "a window may be as small as one token"
        assert node.invoke([]) == []


class TestPersistence:
    def test_edited_messages_stay_edited(self, memory):
        memory.compaction(None, SMALL).invoke(talk(3), at())
        memory.conversation("t").update("q-1", content="what was really meant")
        memory.compaction(None, SMALL).invoke(talk(4), at())  # as another process would, from the state
        assert memory.conversation("t").retrieve_by_id("q-1")["content"] == "what was really meant"
        assert len(memory.conversation("t").history_of("q-1")) == 2
        assert len(memory.conversation("t")) == 8

    def test_branches_sharing_an_id_keep_both_versions(self, memory):
        node = memory.compaction(None, SMALL)
        one, other = talk(3), [*talk(1), HumanMessage("another way", id="q-1")]
        for _ in range(3):
            node.invoke(one, at())
            node.invoke(other, at())
        said = [version.message.content for version in memory.conversation("t").history_of("q-1")]
        assert said == [question(1).content, "another way"]

    @pytest.mark.parametrize("run", [at(), {}], ids=["a thread", "a chain"])
    def test_branch_with_an_unanswered_call_is_valid(self, memory, run):
        said, node = [*with_a_call("found"), *talk(2)], memory.compaction(None, SMALL)
        node.invoke(said, run)
        for length in (3, 2):
            assert_valid_for_providers(node.invoke([*said[:length], HumanMessage("never mind", id="n")], run))
            assert_valid_for_providers(node.invoke([*said[:length], AIMessage("never mind", id="n")], run))

    def test_damaged_compaction_is_recomputed(self, memory, raw):
        model = Summarizer()
        node = memory.compaction(model, SMALL)
        once = node.invoke(talk(30), at())
        raw(memory, "update compaction set checksum = checksum + 1")
        assert memory.admin.verify().problems
        again = memory.compaction(model, SMALL).invoke(talk(30), at())
        assert [message.id for message in again] == [message.id for message in once]
        assert len(model.asked) == 2

    def test_truncated_messages_are_summarized_whole(self, memory):
        model = Summarizer()
        memory.compaction(model, SMALL).invoke([*with_a_call(f"begin-mark {'word ' * 6000} end-mark"), *talk(30)], at())
        assert all(word in model.everything for word in ("begin-mark", "end-mark"))

    def test_erasure_clears_cached_compactions(self, memory):
        model = Summarizer()
        node = memory.compaction(model, SMALL)
        node.invoke(talk(30), at())
        node.invoke(talk(30))
        memory.erase(thread_id="t")
        assert memory.admin.stats()["compactions"] == memory.admin.stats()["messages"] == 0
        assert not node._compactor._histories
        assert not node._compactor._records
        context = node.invoke(talk(30), at())
        assert_valid_for_providers(context)
        assert memory.admin.stats()["messages"] == 60, "who says it again is recorded again"


class TestShrinking:
    class Delta(TypedDict):
        messages: Annotated[list[BaseMessage], DeltaChannel(_messages_delta_reducer)]

    @pytest.mark.parametrize("schema", [MessagesState, Delta], ids=["add_messages", "DeltaChannel"])
    def test_shrink_keeps_the_state_within_the_budget(self, memory, schema):
        model = Summarizer()
        graph, shown = build(memory, memory.compaction(model, SMALL, shrink=True), schema=schema)
        assert streamed(graph, 40) == [f"a-{turn}" for turn in range(40)]
        for context in shown:
            assert_valid_for_providers(context)
        state = graph.get_state(at()).values["messages"]
        assert len(state) < 40
        assert state[0].id == "q-0"
        assert sum(summary_in(message) is not None for message in state) == 1
        recorded = memory.conversation("t").messages
        assert [message.id for message in recorded] == [message.id for message in talk(40)]
        assert "Summary number 1:" in model.texts[1]

    def test_truncated_messages_are_whole_in_the_log(self, memory):
        config = budget(
            600, tool_truncation=ToolTruncationConfig(max_tool_message_tokens=50), processor_order=["tool_truncation"]
        )
        graph, _ = build(memory, memory.compaction(None, config, shrink=True), schema=MessagesState)
        graph.invoke({"messages": with_a_call("word " * 1000)}, at())
        graph.invoke({"messages": [question(1)]}, at())
        assert len(graph.get_state(at()).values["messages"][2].content) < 400
        assert len(memory.conversation("t").retrieve_by_id("tool-1")["content"]) == 5000
        assert len(memory.conversation("t").history_of("tool-1")) == 1

    def test_shrink_without_compaction_leaves_the_state_unchanged(self, memory):
        node = memory.compaction(Summarizer(), SMALL, shrink=True)
        assert node.invoke({"messages": talk(30)})
        assert node.invoke({"messages": talk(30)}) == {}
        graph, _ = build(memory, node, schema=MessagesState)
        assert len(graph.invoke({"messages": talk(2)}, at())["messages"]) == 4


class TestFailures:
    def test_unserializable_fields_are_dropped_when_recording(self, memory):
        said = with_a_call("found", artifact=object())
        said[0].additional_kwargs["client"] = object()
        assert memory.compaction(None, SMALL).invoke(said, at()) == said
        assert [message.content for message in memory.conversation("t").messages] == ["go", "", "found", "done"]

    def test_invalid_options_are_rejected(self, memory):
        kinds = [{"config": 3}, {"model": 3}, {"nonsense": 3}, {"conversation_id": ""}, {"namespace": "text"}]
        for options in (*kinds, *({"window": window} for window in (0, True, 1.5))):
            with pytest.raises(InvalidInput):
                pytest.fail(f"{memory.compaction(**options)} of {options}")

    def test_node_can_be_built_from_a_path(self, tmp_path):
        node = CompactionNode(str(tmp_path / "own.db"), Summarizer(), SMALL)
        assert len(node.invoke(talk(30), at())) < 30
        with AgentMemory(tmp_path / "own.db") as memory:
            assert len(memory.conversation("t")) == 60


class TestCalibration:
    def test_reported_usage_calibrates_the_compacted_context(self, memory):
        node = memory.compaction(Summarizer(), SMALL, system="You count. " * 30)
        node.invoke(talk(30), at())
        shown = node.invoke([*talk(30), question(30)], at())
        counted = COUNTER.count(shown, system="You count. " * 30)
        assert len(shown) < 30
        usage = {"input_tokens": counted + 70, "output_tokens": 1, "total_tokens": counted + 71}
        reply = AIMessage("so many " * 9, id="a-30", usage_metadata=usage)
        node.invoke([*talk(30), question(30), reply, question(31)], at())
        learned = TokenCounter("estimate")
        learned.learn(counted, counted + 70)
        node.invoke([*talk(30), question(30), reply, question(31), question(32)], at())
        assert node._compactor.counter.factor() == learned.factor() > 1, "one reply teaches once"

    def test_budget_uses_calibrated_token_counts(self, memory):
        counter = TokenCounter("estimate")
        for _ in range(20):
            counter.learn(1_000, 2_000)
        factor, model = counter.factor(), Summarizer()
        assert factor > 1.8
        node = memory.compaction(model, budget(1_500, min_reduction_ratio=0.6).replace(token_counter=counter))
        for turn in range(1, 40):
            asked = len(model.asked)
            cost = COUNTER.count(node.invoke(talk(turn), at())) * factor
            assert cost <= (1_500 if len(model.asked) == asked else 600)
        assert len(model.asked) == 2

    def test_system_prompt_and_tools_count_toward_the_budget(self, memory):
        said, system = talk(6), "You count. " * 30
        description, schema = "look " * 300, {"type": "object", "properties": {}}
        tools = [{"name": "look", "description": description, "parameters": schema}]
        full = COUNTER.count(said, system=system)
        for number, (tokens, options, compacted) in enumerate(
            (
                (full, {"system": system}, False),
                (full - 1, {"system": system}, True),
                (600, {}, False),
                (600, {"tools": tools, "system": "You count."}, True),
            )
        ):
            model = Summarizer()
            memory.compaction(model, budget(tokens), **options).invoke(said, at(f"t{number}"))
            assert bool(model.asked) == compacted, number
