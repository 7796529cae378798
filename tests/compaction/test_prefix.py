"""Consecutive prompts share their prefix byte for byte, for prompt caches; and forks show their own history."""

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage, message_to_dict

from langchain_agentmem import AgentMemory
from langchain_agentmem.base.events import CompactionEvent
from langchain_agentmem.compaction.compaction_config import ToolTruncationConfig
from langchain_agentmem.compaction.compaction_node import CompactionNode, CompactionState
from langchain_agentmem.language_models.summarization import SummarizationConfig
from langchain_agentmem.messages.message_marks import summary_in
from langchain_agentmem.testing import assert_valid_for_providers
from tests.support.graphs import at, line
from tests.support.models import calling

from .summarizers import COUNTER, Summarizer, budget

pytestmark = pytest.mark.sqlite_suffices

WORDS = "the invoice of the kettle from Oslo was paid on Tuesday and the receipt is in the blue folder"
RUN = at("chat")


@pytest.fixture
def model():
    return Summarizer()


def config(tokens):
    off, patient = ToolTruncationConfig(enabled=False), SummarizationConfig(timeout=None)
    return budget(tokens, tool_truncation=off, summarization=patient)


def turn(number, tool_output=""):
    """What a turn adds to a history: a question, a round of tools, and an answer."""
    return [
        HumanMessage(f"question {number}: {WORDS}", id=f"user-{number}"),
        calling("look", f"call-{number}", number=number),
        ToolMessage(tool_output or f"result {number}: {WORDS}", tool_call_id=f"call-{number}", id=f"result-{number}"),
        AIMessage(f"answer {number}: {WORDS}", id=f"answer-{number}"),
    ]


def prompts_of(node, turns, *, run=RUN):
    """The prompts of a run: at each turn one before the tools and one after them, of new objects each time."""
    history = [SystemMessage("You keep the books.", id="system")]
    for number in range(turns):
        question, calls, result, answer = turn(number)
        for new in ([question], [calls, result]):
            history += new
            yield node.invoke([message.model_copy(deep=True) for message in history], run)
        history.append(answer)


def written(messages):
    return "\n".join(json.dumps(message_to_dict(message), sort_keys=True) for message in messages)


def shared(one, other):
    """How much of the second text the first one begins with, as a share of the shorter."""
    common = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(map(len, (one, other)))
    )
    return common / min(len(one), len(other))


class TestPromptPrefix:
    @pytest.mark.slow
    def test_prompts_share_their_prefix_between_compactions(self, memory, model):
        shares, whole = [], 0
        calls = 0
        before = ""
        for prompt in prompts_of(CompactionNode(memory, model, config(6_000)), 60):
            assert_valid_for_providers(prompt)
            now = written(prompt)
            if before:
                shares.append(shared(before, now))
                if len(model.asked) == calls:
                    assert now.startswith(before)
                    whole += 1
            before, calls = now, len(model.asked)
        assert 1 <= len(model.asked) <= 3
        assert whole == len(shares) - len(model.asked)
        assert sum(shares) / len(shares) >= 0.95

    def test_oversized_tail_does_not_compact_every_turn(self, url, model):
        told, sizes = [], []
        history = [message for number in range(10) for message in turn(number)]
        history += turn(10, tool_output=f"{WORDS} " * 200)[:3]
        with AgentMemory(url, hooks=[told.append]) as memory:
            node = CompactionNode(memory, model, config(1_000))
            for number in range(11, 20):
                sizes.append(COUNTER.count(node.invoke(history, RUN)))
                history += [calling("look", f"call-{number}"), ToolMessage("ok", tool_call_id=f"call-{number}")]
        begun = [event for event in told if isinstance(event, CompactionEvent) and event.status == "started"]
        assert sizes[0] > 1_000, "the tool's output alone is larger than the threshold"
        assert sizes[-1] < 1_000, "it has left the context as soon as it might"
        assert len(begun) <= 2
        assert len(model.asked) <= 2

    def test_restart_reuses_the_compaction(self, url, model):
        history = [message for number in range(20) for message in turn(number)]
        with AgentMemory(url) as memory:
            first = CompactionNode(memory, model, config(1_000)).invoke(history, RUN)
        with AgentMemory(url) as memory:
            node = CompactionNode(memory, model, config(1_000))
            again = node.invoke([message.model_copy(deep=True) for message in history], RUN)
            later = node.invoke([*history, *turn(20)[:1]], RUN)
        assert len(model.asked) == 1
        assert written(again) == written(first)
        assert written(later).startswith(written(first))


class TestForks:
    @pytest.fixture
    def graph(self, memory, model):
        def answer(state):
            shown = state["llm_input_messages"]
            assert_valid_for_providers(shown)
            number = len(state["messages"])
            return {"messages": [AIMessage(f"reply {number}: {WORDS}", id=f"reply-{number}-{shown[-1].id}")]}

        return line(memory.checkpointer, CompactionNode(memory, model, config(400)), answer, state=CompactionState)

    def chat(self, graph, numbers, run=RUN, text=""):
        for number in numbers:
            said = HumanMessage(f"{text}question {number}: {WORDS}", id=f"{text}user-{number}")
            state = graph.invoke({"messages": [said]}, run)
        return state

    def summaries(self, state):
        return [found for each in state["llm_input_messages"] if (found := summary_in(each)) is not None]

    def checkpoint_with(self, graph, messages):
        ends = (each for each in graph.get_state_history(RUN) if not each.next)
        return next(each for each in ends if len(each.values["messages"]) == messages)

    def test_fork_before_the_compaction_shows_the_history(self, graph, model):
        self.chat(graph, range(12))
        assert len(model.asked) >= 1
        early = self.checkpoint_with(graph, 4)
        calls = len(model.asked)
        state = self.chat(graph, [100], early.config)
        assert len(model.asked) == calls
        assert self.summaries(state) == []
        assert [message.id for message in state["llm_input_messages"]] == [each.id for each in state["messages"][:-1]]

    def test_diverging_forks_have_separate_summaries(self, graph, model):
        self.chat(graph, range(4))
        fork = self.checkpoint_with(graph, 8).config
        self.chat(graph, [10], fork, "left ")
        one = self.chat(graph, range(11, 20), RUN, "left ")
        seen = model.everything
        model.asked.clear()
        assert "left question 10" in seen
        self.chat(graph, [30], fork, "right ")
        other = self.chat(graph, range(31, 40), RUN, "right ")
        assert "left question" not in model.everything
        assert "right question 30" in model.everything
        assert self.summaries(one)
        assert self.summaries(other)
        assert not [each for each in other["messages"] if str(each.id).startswith("left")]

    @pytest.mark.parametrize("edited", [True, False])
    def test_edited_or_removed_messages_are_compacted_again(self, graph, model, edited):
        self.chat(graph, range(12))
        new = RemoveMessage(id="user-1")
        if edited:
            new = HumanMessage(f"question 1, said otherwise: {WORDS}", id="user-1")
        graph.update_state(RUN, {"messages": [new]})
        model.asked.clear()
        text = written(self.chat(graph, [12])["llm_input_messages"])
        assert len(model.asked), "what was compacted before is of another history"
        assert ("question 1, said otherwise" in model.everything + text) == edited
        assert "question 1: " not in model.everything + text

    def test_switching_between_forks_reuses_compactions(self, graph, memory, model):
        self.chat(graph, range(12))
        node = CompactionNode(memory, model, config(400))
        histories = [self.checkpoint_with(graph, length).values["messages"] for length in (24, 6, 22, 4, 24, 8)]
        views = [written(node.invoke(history, RUN)) for history in histories]
        calls = len(model.asked)
        assert [written(node.invoke(history, RUN)) for history in reversed(histories)] == views[::-1]
        assert len(model.asked) == calls
        assert views[0] == views[4]
