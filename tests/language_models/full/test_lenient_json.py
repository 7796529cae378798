"""Lenient JSON reads hostile and very long model answers in bounded time."""

from __future__ import annotations

import json
import time

import pytest

from langchain_agentmem.language_models.lenient_json import read_json, read_objects, strip_reasoning


class TestSafety:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "piece",
        ['{"', '"}', '["a",', '"x" y ', '{"a": [', "{", '{"a": "b" c ', "/*", "// \n", "```json\n{", "```", "'", "\\",
         '{"a": "', " ", "\n", '" ', ", ", '",', '": ', "{'a', ", "a", "1", "{}", "[1],", '",a', '","'],
    )  # fmt: skip
    @pytest.mark.parametrize("before", ["", '{"a": "', '{"a": [', "{"])
    def test_hostile_text_is_read_in_time(self, piece, before):
        text = before + piece * (100_000 // len(piece))
        began = time.process_time()
        for read in (read_json, read_objects, strip_reasoning):
            read(text)
        assert time.process_time() - began < 10

    @pytest.mark.slow
    @pytest.mark.parametrize("piece", ["[", "{", '{"a":', '[{"a":'])
    def test_deep_nesting_is_refused(self, piece):
        assert not read_json(piece * 100_000)
        closed = "]" if piece[0] == "[" else "}"
        assert read_json("[" * 500 + "]" * 500, wanted=list) is None
        assert not read_json(f"x {piece * 200}1{closed * 200}")

    def test_a_large_answer_is_read(self):
        value = {"facts": [f"fact {n}: so" for n in range(5_000)]}
        assert read_json(f"Here: {json.dumps(value)}") == value
        assert read_json(f"Here: {value}") == value
