"""Extraction prompts and the parsing of model answers."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from itertools import product

from langchain_core.messages import HumanMessage, SystemMessage

from langchain_agentmem.base.clock import to_micros
from langchain_agentmem.facts import fact_extraction
from langchain_agentmem.facts.fact import FactsConfig
from langchain_agentmem.facts.fact_extraction import (
    MAX_BATCH_CHARS,
    PendingMessage,
    build_prompt,
    parse_answer,
    parse_fact_time,
)
from langchain_agentmem.messages.message import Message

from .scripted import CASES, Shown, shown

NOW = datetime(2024, 5, 15, 12, tzinfo=UTC)  # a Wednesday
FACT = {"message": 1, "subject": "Maya", "predicate": "likes", "object": "tea"}


def due(text="Hello", key="m1", *, role="user", name=None, at=NOW):
    return PendingMessage(key, Message(role=role, content=text, name=name, message_id=key), to_micros(at), None)


TWO = [due("one", "m1"), due("two", "m2")]
ONE = TWO[:1]


def answer_of(reply, some):
    """Parse a text, or an object as JSON."""
    return parse_answer(reply if isinstance(reply, str) else json.dumps(reply), some)


def asked(*some, single=(), instructions=""):
    return build_prompt(some, FactsConfig(instructions=instructions), single)


def date(*day):
    return to_micros(datetime(*day, tzinfo=UTC))


def triples(answer):
    return [(place, fact.subject, fact.predicate, fact.object) for place, fact in answer.facts]


TEA = (0, "Maya", "likes", "tea")


class TestPrompt:
    def test_prompt_lists_messages_with_speaker_and_time(self):
        system, human = asked(due("I moved."), due("When?", "m2", role="assistant"), due("Now", "m3", name="Maya"))
        assert isinstance(system, SystemMessage)
        assert isinstance(human, HumanMessage)
        time = "Wednesday, 2024-05-15 12:00 UTC"
        said = [Shown(1, "user", time, "I moved."), Shown(2, "assistant", time, "When?"), Shown(3, "Maya", time, "Now")]
        assert shown([system, human]) == said

    def test_prompt_includes_single_valued_predicates_and_instructions(self):
        system, _ = asked(due(), single=["lives in"], instructions="Skip pets.")
        assert "These have one value at a time, so a new one ends the old: lives in." in system.content
        assert system.content.endswith("\n\nSkip pets.")
        plain, _ = asked(due())
        assert "one value at a time" not in plain.content

    def test_prompt_example_can_be_parsed(self):
        system, _ = asked(due())
        example = answer_of(system.content[system.content.index('{"facts": [{') :], ONE)
        assert triples(example) == [(0, "Maya Ortiz", "lives in", "Lisbon")]

    def test_long_message_is_truncated(self):
        _, human = asked(due("x" * 50_000))
        [only] = shown([human])
        assert only.text == "x" * MAX_BATCH_CHARS + " …"

    def test_message_text_cannot_break_the_delimiters(self):
        for text in CASES["hostile"]:
            _, human = asked(due(text, name='"><message>'), due("two", "m2"))
            assert [each.number for each in shown([human])] == [1, 2], text
            assert shown([human])[1].text == "two", text
            assert len(re.findall(r"<\W*/?\s*message\b", human.content, re.IGNORECASE)) == 4, text
            assert "<|im_start|>" not in human.content
            assert "[INST]" not in human.content

    def test_invisible_characters_are_removed(self):
        _, human = asked(due("a\u200bb\u202ec\x00d\ue000\U000e0041\ud800"))
        assert shown([human])[0].text == "abcd\ue000\ufffd"


class TestAnswerFormats:
    def test_fact_is_parsed_in_any_format_outside_reasoning(self):
        for reply in CASES["answers with a fact"]:
            assert triples(answer_of(reply, ONE)) == [TEA], reply
        draft = json.dumps({"facts": [FACT | {"object": "coffee"}]})
        fenced = "<reasoning>```json\n{}\n```</reasoning>Here: {}"
        for reply in ("<think>{}</think>{}", "{} fits?\n</think>\n{}", fenced):
            assert triples(parse_answer(reply.format(draft, json.dumps({"facts": [FACT]})), ONE)) == [TEA], reply
        assert not answer_of(f"<think>{draft}", ONE).usable

    def test_consecutive_objects_are_parsed_unless_truncated(self):
        listed = "Here they are:\n- {}\nThat is all."
        for between, around in product(("\n", " ", ",\n", "\n- ", "\n2. "), ("{}", "```jsonl\n{}\n```", listed)):
            reply = around.format(between.join(json.dumps({**FACT, "message": n}) for n in (1, 2)))
            assert triples(answer_of(reply, TWO)) == [TEA, (1, *TEA[1:])], reply
            assert answer_of(reply, TWO).error == "", reply
        reply = f"{json.dumps(FACT)}\n{json.dumps(FACT)[:-9]}"
        assert not answer_of(reply, TWO).usable
        assert triples(answer_of(reply, ONE)) == [TEA]
        assert answer_of(reply, ONE).error == "It is cut off."

    def test_empty_answers_are_valid_and_nonsense_is_not(self):
        for reply in CASES["empty answers"]:
            assert answer_of(reply, TWO)._replace(text="") == fact_extraction.ExtractionAnswer(), reply
        for reply in CASES["no answers"]:
            answer = answer_of(reply, TWO)
            assert (answer.usable, answer.facts) == (False, ()), reply
            assert answer.error.startswith("The answer cannot be used: "), reply

    def test_invalid_facts_are_reported_and_others_kept(self):
        for item, problem in CASES["no facts"]:
            answer = answer_of({"facts": [FACT, item, {**FACT, "message": 2}]}, TWO)
            assert triples(answer) == [TEA, (1, *TEA[1:])], item
            assert answer.error.startswith("Fact 2: "), item
            assert problem in answer.error
            assert answer.usable
            assert not answer_of({"facts": [item]}, ONE).usable

    def test_numbers_and_booleans_are_converted_to_text(self):
        for value, text in ((42, "42"), (1.5, "1.5"), (True, "true"), (False, "false"), (0, "0"), ("0", "0")):
            [(_, fact)] = answer_of([{"subject": "x", "predicate": "is", "object": value}], ONE).facts
            assert fact.object == text


class TestTruncatedAnswers:
    WHOLE = json.dumps({"facts": [FACT, {**FACT, "object": "rain"}]})

    def test_truncated_answer_is_unusable(self):
        none = fact_extraction.ExtractionAnswer(error="The answer cannot be used: It is cut off.", usable=False)
        assert answer_of(self.WHOLE[:-2], TWO)._replace(text="") == none
        nan = self.WHOLE.replace("1", "NaN")
        for text in (self.WHOLE, f"```json\n{self.WHOLE}\n```", f'{{"a": 1}} {self.WHOLE}!', nan):
            assert "It is cut off." not in answer_of(text, TWO).error


def test_fact_source_is_resolved_by_message_number():
    for value in (2, "2", " 2 ", "02"):
        assert triples(answer_of([{**FACT, "message": value}], TWO)) == [(1, *TEA[1:])], value
    for value in (0, 3, -1, "", "two", None, 1.5, True, [], {}, "1, 2", 10**30):
        answer = answer_of([{**FACT, "message": value}, {**FACT, "message": 1}], TWO)
        assert answer.unsourced, value
        assert triples(answer) == [TEA], value
    for value in (0, 7, None, "seven"):
        answer = answer_of([{**FACT, "message": value}], ONE)
        assert (answer.unsourced, answer.facts[0][0]) == (False, 0), value


class TestTimes:
    def test_times_are_parsed_and_invalid_ones_dropped(self):
        for value, start, end in CASES["times"]:
            assert parse_fact_time(value, to_micros(NOW)) == to_micros(datetime.fromisoformat(start)), value
            assert parse_fact_time(value, to_micros(NOW), last=True) == to_micros(datetime.fromisoformat(end)), value
        for value in ("", " ", "soon", "unknown", "null", "n/a", "²", None, True, 3.5, [], {}, "9" * 50, "recently"):
            assert parse_fact_time(value, to_micros(NOW)) is None, value
            [(_, fact)] = answer_of([{**FACT, "valid_from": value, "valid_to": value}], ONE).facts
            assert (fact.start, fact.end) == (None, None), value

    def test_relative_times_refer_to_the_message_time(self):
        some = [due("one"), due("two", "m2", at=datetime(2023, 2, 2, tzinfo=UTC))]
        since = {**FACT, "valid_from": "yesterday"}
        answer = answer_of([since, {**since, "message": 2}], some)
        assert [fact.start for _, fact in answer.facts] == [date(2024, 5, 14), date(2023, 2, 1)]

    def test_end_is_the_start_of_its_period(self):
        for begun, ended, end in CASES["ends"]:
            [(_, fact)] = answer_of([{**FACT, "valid_from": begun, "valid_to": ended}], ONE).facts
            assert fact.end == to_micros(datetime.fromisoformat(end)), (begun, ended)

    def test_confidences_are_limited_to_0_and_1(self):
        for value, sure in CASES["confidences"]:
            assert answer_of([{**FACT, "confidence": value}], ONE).facts[0][1].confidence == sure, value
