"""Hostile and very long answers of models are read in time."""

from __future__ import annotations

import json

import pytest

from langchain_agentmem.language_models import lenient_json
from langchain_agentmem.language_models.lenient_json import read_json


class TestSafety:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "piece",
        ['{"', '"}', '["a",', '"x" y ', '{"a": [', "{", '{"a": "b" c ', "/*", "// \n", "```json\n{", "```", "'", "\\",
         '{"a": "', " ", "\n", '" ', ", ", '",', '": ', "{'a', ", "a", "1", "{}", "[1],", '",a', '","'],
    )  # fmt: skip
    @pytest.mark.parametrize("before", ["", '{"a": "', '{"a": [', "{"])
    def test_the_work_grows_with_the_length_and_not_faster(self, piece, before, monkeypatch):
        def work(length: int) -> int:
            steps = 0

            class Counting(lenient_json._Reader):
                def _next(self):
                    nonlocal steps
                    steps += 1
                    return super()._next()

                def _string(self, after):
                    nonlocal steps
                    before = self.at
                    found = super()._string(after)
                    steps += self.at - before
                    return found

            with monkeypatch.context() as patch:
                patch.setattr(lenient_json, "_Reader", Counting)
                read_json(before + piece * (length // len(piece)))
            return steps

        assert work(40_000) <= 6 * work(10_000) + 30_000

    @pytest.mark.slow
    @pytest.mark.parametrize("piece", ["[", "{", '{"a":', '[{"a":'])
    def test_deep_nesting_is_refused(self, piece):
        assert not read_json(piece * 100_000)
        closed = "]" if piece[0] == "[" else "}"
        assert read_json("[" * 500 + "]" * 500, wanted=list) is None
        assert not read_json(f"x {piece * 200}1{closed * 200}")

    def test_a_large_answer_is_read(self):
        value = {"facts": [f'fact {n}: it\'s "so"' for n in range(5_000)]}
        assert read_json(f"Here: {json.dumps(value)}") == value
        assert read_json(f"Here: {value}") == value
