"""A model that says that it was given too much is given less, until it has seen everything."""

from __future__ import annotations

import re

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage

from langchain_agentmem.language_models.model_calls import is_too_large

from .asked import Counting, summarized, tool_rounds


class TestTooLarge:
    @pytest.mark.parametrize("limit", [900, 1_500, 3_000])
    def test_is_answered_by_halves(self, limit):
        model = Counting(limit=limit)
        result = summarized(tool_rounds(60), model, room=100_000)
        assert result.failure is None
        assert not result.summary.provisional
        assert all(f"result{n:03}x" in model.text for n in range(60))
        assert result.calls > len(model.seen)

    def test_of_one_long_message(self):
        words = " ".join(f"word{n:05}x" for n in range(1_000))
        model = Counting(limit=1_200)
        assert summarized([HumanMessage(words)], model, room=100_000).failure is None
        assert {*re.findall(r"word\d{5}x", model.text)} == {*words.split()}

    def test_for_a_model_that_takes_nothing_ends(self):
        result = summarized(tool_rounds(60), Counting(limit=0), room=100_000)
        assert isinstance(result.failure, ContextOverflowError)
        assert result.summary.provisional
        assert result.calls < 12

    @pytest.mark.parametrize(
        "error",
        [
            ContextOverflowError("x"),
            RuntimeError("This model's maximum context length is 8192 tokens."),
            RuntimeError("prompt is too long: 213046 tokens > 200000 maximum"),
            RuntimeError("Request too large for gpt-4o"),
            RuntimeError("input length and `max_tokens` exceed context limit: 199000"),
            RuntimeError("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        ],
    )
    def test_is_known_by_class_and_words(self, error):
        assert is_too_large(error)
        wrapped = ValueError("wrapped")
        wrapped.__cause__ = error
        assert is_too_large(wrapped)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("status_code", 413), ("code", "context_length_exceeded"), ("body", {"error": {"type": "request_too_large"}})],
    )
    def test_is_known_by_status_and_code(self, name, value):
        error = RuntimeError("no")
        setattr(error, name, value)
        assert is_too_large(error)

    @pytest.mark.parametrize("error", [TimeoutError("too late"), RuntimeError("rate limit"), ValueError("413")])
    def test_is_nothing_else(self, error):
        assert not is_too_large(error)
