"""Property tests of extraction prompts and answers."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_agentmem.base.clock import to_micros
from langchain_agentmem.facts.fact import entity_key
from langchain_agentmem.facts.fact_extraction import parse_answer, parse_fact_time
from tests.facts.scripted import STYLES
from tests.facts.test_extraction import FACT, NOW, ONE, TWO, asked, due


@given(st.lists(st.text(max_size=40), min_size=1, max_size=4), st.text(max_size=10))
def test_prompt_separates_any_messages(texts, name):
    _, human = asked(*(due(text, f"m{n}", name=name or None) for n, text in enumerate(texts)))
    marks = re.findall(r'^<message number="(\d+)" ', human.content, re.MULTILINE)
    assert marks == [str(n) for n in range(1, len(texts) + 1)]
    assert human.content.count("</message>") == len(texts)


@given(st.text() | st.integers() | st.dates().map(str) | st.datetimes().map(str), st.booleans())
def test_any_value_parses_as_time_or_none(value, last):
    found = parse_fact_time(value, to_micros(NOW), last=last)
    assert found is None or isinstance(found, int)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["facts", "message", "subject", "predicate", "object", "valid_from", "valid_to", "confidence"]
OBJECTS = st.dictionaries(st.sampled_from(KEYS), JUNK, max_size=6)
REPLIES = JUNK | OBJECTS | st.lists(OBJECTS, max_size=3) | st.fixed_dictionaries({"facts": st.lists(OBJECTS | JUNK)})


def check(reply, some):
    answer = parse_answer(reply, some)
    for place, fact in answer.facts:
        assert 0 <= place < len(some)
        assert all(entity_key(name) and name == name.strip() for name in fact[1:4])
        assert fact.confidence is None or 0 <= fact.confidence <= 1
        assert fact.end is None or fact.start is None or fact.start < fact.end
    assert answer.usable or not answer.facts


@given(st.text() | st.lists(st.sampled_from("{}[]\":, facts subject 1 \\'\n"), max_size=60).map("".join))
@settings(max_examples=300)
def test_any_text_can_be_parsed(text):
    check(text, TWO)


@pytest.mark.slow
@given(REPLIES)
@settings(max_examples=300)
def test_any_json_can_be_parsed(reply):
    check(json.dumps(reply), ONE)
    check(json.dumps(reply), TWO)
    check(str(reply), TWO)


@given(st.integers(0, 400), st.sampled_from(sorted(STYLES.keys() - {"object", "message"})))
def test_truncated_answer_yields_no_other_facts(length, style):
    right = {"facts": [{**FACT, "object": f"thing number {n}", "message": 1} for n in range(4)]}
    whole = STYLES[style](right)
    for some in (ONE, TWO):
        answer = parse_answer(whole[:length], some)
        told = [fact.object for _, fact in answer.facts]
        assert told == [f"thing number {n}" for n in range(len(told))]
        assert len(told) in {0, 4} or (some is ONE and "It is cut off." in answer.error)
