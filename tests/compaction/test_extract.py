"""Where no model helps, what can be said without one is said, and nothing is made up."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_agentmem.errors import AgentMemoryError
from langchain_agentmem.language_models.summarization import CUT, clip, extract, shared, turn_of
from langchain_agentmem.messages.message_marks import Summary, sections

from .asked import COUNTER, FILLER, GOAL, REPLY, Counting, summarized, tool_rounds

NONSENSE = [
    "", "  \n", "[]", '["a", "b", "a list of facts"]', "7", "null", "{}", '{"foo": "bar bar bar bar"}', "OK.",
    "```\n```",
    '{"summary": ""}', "I'm sorry, but I can't help with that.", "Please provide the conversation to summarize.",
    FILLER * 2_000, json.dumps({"summary": FILLER * 2_000}), "...", '{"summary": 12}', "{summary",
]  # fmt: skip


class TestFailure:
    @pytest.mark.parametrize("reply", NONSENSE)
    def test_nonsense_is_refused_and_what_can_be_said_without_a_model_is_said(self, reply):
        history = tool_rounds(20)
        result = summarized(history, Counting(reply), room=100_000)
        assert isinstance(result.failure, AgentMemoryError)
        assert result.summary.provisional
        assert result.summary == summarized(history, None, room=100_000).summary
        assert GOAL in result.summary.user_request
        assert "ask019x" in result.summary.summary
        assert COUNTER.count_text(sections(result.summary)) <= 400

    def test_no_model_is_no_failure(self):
        result = summarized(tool_rounds(3), None)
        assert (result.failure, result.calls, result.summary.provisional) == (None, 0, True)

    def test_an_error_is_handed_on_and_not_raised(self):
        def broken(messages):
            raise ConnectionError("no network")

        result = summarized(tool_rounds(3), broken)
        assert isinstance(result.failure, ConnectionError)
        assert result.calls == 1

    def test_a_model_that_hangs_is_left(self):
        result = summarized(tool_rounds(3), lambda messages: time.sleep(5) or REPLY, timeout=0.05)
        assert isinstance(result.failure, TimeoutError)
        assert GOAL in result.summary.user_request

    def test_what_was_summarized_before_it_is_kept(self):
        model = Counting(lambda call: REPLY.replace("Forty", "Thirty") if call <= 2 else "")
        result = summarized(tool_rounds(40), model, room=1_500)
        assert result.calls == 3
        assert "Thirty hotels" in result.summary.summary
        assert "Book one." in result.summary.open_threads
        assert "result039x" in result.summary.summary
        assert result.summary.provisional

    @pytest.mark.parametrize("reply", [
        "The user plans a trip to Kassel and looked at forty hotels.",
        "```\nThe user plans a trip to Kassel and looked at forty hotels.\n```",
        "<think>What to say?</think>\nThe user plans a trip to Kassel and looked at forty hotels.",
    ])  # fmt: skip
    def test_prose_is_taken_for_the_summary(self, reply):
        result = summarized(tool_rounds(20), Counting(reply), room=100_000)
        assert result.failure is None
        assert result.summary.summary == "The user plans a trip to Kassel and looked at forty hotels."

    def test_json_however_it_is_written_is_read(self):
        result = summarized(tool_rounds(20), Counting(f"Sure!\n```json\n{REPLY[:-20]}"), room=100_000)
        assert result.failure is None
        assert result.summary.salient_facts == ("The budget is 800 €.",)

    def test_a_summary_that_is_too_long_loses_its_tail(self):
        facts = [f"Fact {n} is that hotel {n} costs {n} euros." for n in range(100)]
        reply = json.dumps({"summary": FILLER * 100, "salient_facts": facts, "open_threads": ["Book one."]})
        result = summarized(tool_rounds(100), Counting(reply), room=100_000)
        assert result.failure is None
        assert COUNTER.count_text(sections(result.summary)) <= 400
        assert result.summary.salient_facts[0] == facts[0]
        assert result.summary.summary.endswith(CUT)
        assert result.summary.summary.removesuffix(CUT).split()[-1] in FILLER.split()
        assert result.summary.open_threads == ("Book one.",)


class TestExtract:
    def said(self, messages, earlier=None, budget=400):
        return extract([turn_of(each) for each in messages], earlier, budget, COUNTER)

    def test_the_users_requests_are_there_word_for_word_and_a_line_for_everything_else(self):
        found = self.said([
            HumanMessage("First, plan it."),
            AIMessage("I will. Then I rest.", tool_calls=[{"name": "search", "args": {"q": "x"}, "id": "c1"}]),
            ToolMessage("Two hotels. One is full.", tool_call_id="c1", name="search"),
            HumanMessage("Now\nbook it."),
        ])  # fmt: skip
        assert found.user_request == "First, plan it.\nNow\nbook it."
        assert found.summary == 'assistant: I will. [Calls search, call c1] {"q": "x"}\ntool search: Two hotels.'
        assert found.provisional

    def test_the_first_and_the_latest_request_come_before_those_between(self):
        found = self.said([HumanMessage(f"Request {n}. {FILLER}") for n in range(100)])
        assert found.user_request.startswith("Request 0.")
        assert "Request 99." in found.user_request
        assert "Request 98." in found.user_request
        assert "Request 1." not in found.user_request
        assert "messages of the user not listed" in found.user_request

    def test_a_long_request_leaves_room_for_the_latest(self):
        found = self.said([HumanMessage("Begin. " + FILLER * 500), HumanMessage("End. " + FILLER * 500)])
        assert found.user_request.startswith("Begin.")
        assert "End." in found.user_request

    def test_the_earlier_summary_stays(self):
        earlier = Summary(user_request="Wish", summary="Deeds", salient_facts=("Fact",), open_threads=("Thread",))
        found = self.said([HumanMessage("More.")], earlier)
        assert found == Summary(
            user_request="Wish\nMore.",
            summary="Deeds",
            salient_facts=("Fact",),
            open_threads=("Thread",),
            provisional=True,
        )

    @given(
        st.lists(st.builds(HumanMessage, st.text(min_size=1)) | st.builds(AIMessage, st.text()), max_size=12),
        st.builds(Summary, user_request=st.text(), summary=st.text(), salient_facts=st.lists(st.text()).map(tuple)),
        st.integers(60, 500),
    )
    @settings(deadline=None)
    def test_it_keeps_within_its_budget_and_is_the_same_each_time(self, messages, earlier, budget):
        found = self.said(messages, earlier, budget)
        assert COUNTER.count_text(sections(found)) <= budget
        assert found == self.said(messages, earlier, budget)

    def test_what_is_short_enough_is_not_clipped(self):
        summary = Summary(user_request="a", summary="b " * 50, salient_facts=("c",))
        assert clip(summary, 200, COUNTER) == summary

    def test_room_that_one_does_not_need_the_others_have(self):
        assert shared({"a": 10, "b": 500, "c": 500}, {"a": 2, "b": 1, "c": 1}, 410) == {"a": 10, "b": 200, "c": 200}
        assert shared({"a": 1, "b": 2}, {"a": 1, "b": 1}, 100) == {"a": 1, "b": 2}
