"""Lenient reading of JSON and removal of reasoning in model answers."""

from __future__ import annotations

import json
from sys import setrecursionlimit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.language_models.lenient_json import read_json, strip_reasoning

ANSWER = {"summary": "Maya planted two quince trees.", "facts": ["two trees", "Maya"], "sure": True, "who": None}
PLAIN = json.dumps(ANSWER)
FENCED = {"summary": "Run:\n```json\n{}\n```\nthen stop."}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class TestModelOutput:
    @pytest.mark.parametrize(
        "text",
        [
            PLAIN,
            f"\ufeff  {PLAIN}\n",
            f"```json\n{PLAIN}\n```",
            f"```\n{PLAIN}\n```",
            f"```JSON {PLAIN}```",
            f"Sure! Here is the summary you asked for:\n\n{PLAIN}\n\nLet me know if {{you}} need [more].",
            f"Use {{braces}} like [this] or {{x: y}}.\n```python\nprint({{}})\n```\nThe answer:\n```json\n{PLAIN}\n```",
            f"<think>I could write {{}} or [].</think>{PLAIN}",
            json.dumps(ANSWER, indent=2),
            str(ANSWER),
            f"[{PLAIN}]",
            PLAIN.replace("}", ",}").replace("]", " , ]"),
            PLAIN.replace('"facts"', "facts").replace('"sure"', "'sure'"),
            PLAIN.replace(", ", "\n// and\n, /* now */ ").replace("{", "{ # first\n"),
            PLAIN.replace(", ", "\n"),
            PLAIN.replace('"', "\u201c", 1).replace('"', "\u201d", 1),
        ],
    )
    def test_common_formats_are_read(self, text):
        assert read_json(text) == ANSWER

    @pytest.mark.parametrize(
        ("text", "meant"),
        [
            ('{"a": 1, "facts": ["one", "tw', {"a": 1, "facts": ["one", "tw"]}),
            ('{"a": {"b": [1, 2], "c": {"d": 1}, "e": tr', {"a": {"b": [1, 2], "c": {"d": 1}, "e": "tr"}}),
            ('{"a": [1, tr', {"a": [1, "tr"]}),
            ('{"a": 1, "b', {"a": 1}),
            ('```json\n{"a": "x y\n```', {"a": "x y"}),
            ("[{'a': 1}, {'b': 2}", None),
            ('{"a": "one\ntwo\ttabs", "c": ["a "b" c", "d"]}', {"a": "one\ntwo\ttabs", "c": ['a "b" c', "d"]}),
            ('{"b": "He said "hello, you" and left"}', {"b": 'He said "hello, you" and left'}),
            ("{'a': 'it's Maya's', \"b\": 'x'}", {"a": "it's Maya's", "b": "x"}),
            (r"""{"a": "\u00e9\n\"x\" \ud83d\ude00", "b": "C:\dir \_", }""", {"a": 'é\n"x" 😀', "b": "C:\\dir \\_"}),
            (f"Here:\n```json\n{json.dumps(FENCED)}\n```", FENCED),
        ],
    )
    def test_truncated_or_unescaped_json_is_read_partially(self, text, meant):
        assert read_json(text) == meant

    @given(st.dictionaries(st.text(), VALUES, min_size=1), st.sampled_from([None, 2]))
    def test_valid_json_is_read_exactly(self, value, indent):
        assert read_json(json.dumps(value, indent=indent, ensure_ascii=False)) == value
        assert read_json(f"Yes. {json.dumps(value)}\nDone.") == value

    @given(st.data())
    def test_truncated_json_keeps_its_beginning(self, data):
        text = json.dumps({"first": "kept", **ANSWER})
        cut = data.draw(st.integers(text.index("kept") + 6, len(text)))
        assert read_json(text[:cut])["first"] == "kept"


class TestWantedType:
    def test_wanted_type_selects_lists_or_objects(self):
        for text, wanted, expected in (
            ("Facts: ['a', 'b']", list, ["a", "b"]),
            ('{"facts": [{"a": 1}]}', list, None),
            ('[{"a": 1}]', dict, {"a": 1}),
            ('[{"a": 1}, {"b": 1}]', dict, None),
            ("{}", dict, {}),
            ("None: []", list, []),
            ('First {} and then {"a": 1}', dict, {"a": 1}),
            (None, dict, None),
        ):
            assert read_json(text, wanted=wanted) == expected, text
        for text in ("", "  ", "No.", "7", "true", '"{"', "{", "I like {x} and [y].", "}{", '{"a"', ":"):
            assert not read_json(text), text


DRAFT = '{"draft": [2]}'
TAGGED = '{"object": "say: <think> then </think>\\n<think>"}'


class TestReasoning:
    @pytest.mark.parametrize(
        "text",
        [
            f"<think>{DRAFT}</think>{PLAIN}",
            f"<thinking>\n{DRAFT}\n</thinking>\n\n{PLAIN}",
            f"<REASONING kind='x'>{DRAFT}</REASONING>\n```json\n{PLAIN}\n```",
            f"Hm, {DRAFT}? No.\n</think>\n\n{PLAIN}",
            f"{DRAFT} hm</think>{PLAIN}",
            f"Sure! <think>{DRAFT}</think>{PLAIN}",
            f"<think></think>\n<think>{DRAFT}</think>{PLAIN}",
            f"<think>a<think>b</think>{DRAFT}</think>{PLAIN}",
            f"<think>They mention <think>, so {DRAFT}.</think>{PLAIN}",
            f"<think>x</think>\n{DRAFT[:-1]}, hm</think>\n{PLAIN}",
            f"{PLAIN}\n<think>Or {DRAFT}?</think>",
            f"{PLAIN}\n<think>Or {DRAFT}?",
            f"[THINK]{DRAFT}[/THINK]{PLAIN}",
            f"\u25c1think\u25b7{DRAFT}\u25c1/think\u25b7{PLAIN}",
            f"<seed:think>{DRAFT}</seed:think>{PLAIN}",
            f"<|begin_of_thought|>{DRAFT}<|end_of_thought|>{PLAIN}",
            f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{PLAIN}",
        ],
    )
    def test_reasoning_is_left_out(self, text):
        answer = strip_reasoning(text)
        assert PLAIN in answer
        assert "draft" not in answer

    @pytest.mark.parametrize("text", [f"<think>{DRAFT}", f"<think>a<think>{DRAFT}", f"Well.\n<think>\n{DRAFT}"])
    def test_unclosed_reasoning_yields_no_answer(self, text):
        assert read_json(strip_reasoning(text)) is None

    @pytest.mark.parametrize(
        "text",
        [
            PLAIN,
            TAGGED,
            f"Sure!\n```json\n{TAGGED}\n```",
            f"{PLAIN}\n{TAGGED}",
            f"[{TAGGED}]",
            TAGGED[:-1],
            f"{PLAIN}\n</think>",
            "The parser removes <think> and </think> tags.",
            "It strips `<think>`\u2026`</think>` blocks.",
        ],
    )
    def test_reasoning_tags_in_answers_are_kept(self, text):
        assert strip_reasoning(text) == text
        if text is not PLAIN and "parser" not in text:
            assert strip_reasoning(f"<think>{DRAFT} </think></think>\n{text}").strip() == text


class TestSafety:
    @given(st.text(st.sampled_from("{}[]\"':,\\/*#\n `atru1-.e\u201c\u201d\ud800") | st.characters(), max_size=200))
    def test_no_text_raises(self, text):
        for wanted in (dict, list):
            assert isinstance(read_json(text, wanted=wanted), wanted | None)

    def test_reading_works_near_the_recursion_limit(self):
        def down(n: int):
            return read_json(f"x {'[' * 90}{']' * 90}", wanted=list) if n == 0 else down(n - 1)

        setrecursionlimit(1_000)
        for depth in range(500, 900, 50):
            assert isinstance(down(depth), list | None)
