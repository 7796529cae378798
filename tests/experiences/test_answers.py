"""What a model answers is read as it was meant, and what it denies is never chosen."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_agentmem.experiences.model_choice import AnswerReading, selected

IDS = ["exp-1", "exp-2", "exp-3", "exp-10", "my-exp-1"]
ONE_AND_THREE = ("exp-1", "exp-3")


def chosen(answer, ids=IDS):
    reading = selected(answer, ids)
    return None if reading is None else reading.chosen


class TestJson:
    @pytest.mark.parametrize(
        "answer",
        [
            '{"exp-1": true, "exp-2": false, "exp-3": true}',
            '```json\n{"exp-1": true, "exp-2": false, "exp-3": true}\n```',
            '```\n{"exp-1": true, "exp-2": false, "exp-3": true}```',
            'Sure! Here is my selection:\n\n{"exp-1": true, "exp-2": false, "exp-3": true}\n\nexp-2 is about {git}.',
            'Sure:\n```json\n{"exp-1": true, "exp-2": false, "exp-3": true}\n```\n**Why**\n- exp-2: reads no files',
            "{'exp-1': True, 'exp-2': False, 'exp-3': True}",
            "{'exp-1': True, 'exp-2': None, 'exp-3': 1,}",
            '{"exp-1": 1, "exp-2": 0, "exp-3": 1}',
            '{"exp-1": "true", "exp-2": "false", "exp-3": "yes"}',
            '{"exp-1": "Relevant", "exp-2": "n/a", "exp-3": "TRUE"}',
            '{"exp-1": "relevant", "exp-2": "not relevant", "exp-3": " Yes. "}',
            '{"exp-1": "true: because it reads files", "exp-2": "No, since nothing is read", "exp-3": "yes - it does"}',
            '{"exp-1": "Yes", "exp-2": "none", "exp-10": "", "exp-3": "applies", "my-exp-1": null}',
            '{"exp-1": {"relevant": true, "reason": "no file"}, "exp-2": {"relevant": false}, "exp-3": {"x": 1}}',
            '{"exp-1": {"why": "true", "applies": "yes"}, "exp-2": {"why": "true", "applies": "no"}, "exp-3": true}',
            '{"exp-1": {"relevant": true, "confidence": 0}, "exp-2": {"relevant": false, "confidence": 1}, "exp-3": 1}',
            '{"exp-1": 0.9, "exp-2": 0.1, "exp-3": 0.7}',
            '{"exp-1": true, "exp-2": false, "exp-3": true, "exp-10": "fal',
            '{"exp-1": true, "exp-3": true, "exp-2": f',
            '```json\n{"exp-1": true, "exp-3": true, "exp-2": ',
            '{"exp-1": true "exp-2": false "exp-3": true}',
            '{"selected": ["exp-1", "exp-3"]}',
            '{"selected": ["exp-1", "exp-3"], "rejected": ["exp-2"]}',
            '{"rejected": ["exp-2", "exp-10"], "selected": ["exp-1", "exp-3"]}',
            '{"true": ["exp-1", "exp-3"], "false": ["exp-2"]}',
            '{"relevant": ["exp-3", "exp-1"], "not_relevant": ["exp-2"], "irrelevant": ["exp-10"]}',
            '{"experiences": {"exp-1": true, "exp-2": false, "exp-3": true}}',
            '{"candidates": ["exp-1", "exp-2", "exp-3"], "result": {"exp-1": true, "exp-3": true}}',
            '{"result": {"selected": {"exp-1": true, "exp-2": false, "exp-3": true}}}',
            '{"reasoning": "exp-2 fits best", "result": {"exp-1": true, "exp-3": "yes"}}',
            '"{\\"exp-1\\": true, \\"exp-2\\": false, \\"exp-3\\": true}"',
            '{"selected": ["exp-1", "exp-3"], "reasons": {"exp-1": "reads", "exp-2": "true, but no"}}',
            '["exp-1", "exp-3"]',
            '["exp-3", "exp-1", "exp-3", "unknown"]',
            '```json\n["exp-1", "exp-3"]\n```',
            'The relevant ones are ["exp-1", "exp-3"].',
            '["exp-1", "exp-3", "exp-10',
            '{"selected": ["exp-1", "exp-3", "exp-2',
            '["exp-1: true", "exp-2: false", "exp-3 - it reads"]',
            '[{"id": "exp-1", "relevant": true}, {"id": "exp-2", "relevant": false}, {"id": "exp-3", "relevant": 1}]',
            '[{"id": "exp-1"}, {"exp_id": "exp-3", "reason": "no files yet"}]',
            '[{"exp-1": true}, {"exp-2": false}, {"exp-3": true}]',
            '{"experiences": [{"id": "exp-1", "selected": "yes"}, {"id": "exp-2", "selected": "no"}, {"id": "exp-3"}]}',
            '{"id": "exp-1", "relevant": true}\n{"id": "exp-2", "relevant": false}\n{"id": "exp-3", "relevant": true}',
            '{"exp-1": true}\n{"exp-2": false}\n{"exp-3": true}',
            '[{"id": "exp-1", "irrelevant": false}, {"id": "exp-2", "irrelevant": true}, {"id": "exp-3"}]',
            '<think>exp-2? {"exp-2": true}. Hm, no.</think>\n{"exp-1": true, "exp-2": false, "exp-3": true}',
            '<think>{"exp-10": true}</think>{"exp-1": true, "exp-3": true}',
            '{"EXP-1": true, " exp-3 ": true, "Exp-2": false}',
            '\ufeff{"exp-1": true, "exp-3": true}',
            '{"exp-1": true, "exp-3": true, "exp-1": true}',
        ],
    )
    def test_in_every_shape(self, answer):
        assert chosen(answer) == ONE_AND_THREE

    @pytest.mark.parametrize(
        "answer",
        [
            "{}",
            "[]",
            "null",
            "None",
            "none",
            "None.",
            '"none"',
            "false",
            "```json\n{}\n```",
            "```json\n[]\n```",
            "N/A",
            '{"exp-1": false, "exp-2": false}',
            '{"exp-1": null}',
            '{"selected": []}',
            '{"selected": null}',
            '{"selected": "none"}',
            '{"experiences": {}}',
            '{"result": []}',
            '["none"]',
            '{"unknown": true}',
            '["unknown"]',
            '[{"id": "unknown", "relevant": true}]',
            "The answer is {}",
            "I looked at exp-1 and exp-2:\n```json\n[]\n```",
            'I looked at exp-1. {"selected": []}',
            "No experiences apply.",
            "None of the experiences apply.",
            "None of these are relevant to the query.",
            "There are no relevant experiences.",
            "Nothing applies here.",
            "no matching experiences",
            "Neither applies.",
            "You asked about files. None of the experiences apply.",
            '{"exp-1": true, "exp-1": false}',
            '{"exp-1": false, "exp-1": true}',
            '{"exp-1": "true/false"}',
            "{'exp-1': False, 'exp-1': True}",
            '{"exp-1": true} On second thought: {"exp-1": false}',
            '{"exp-1": "maybe"}',
            '{"exp-1": {"relevant": true, "applies": false}}',
            '{"rejected": {"exp-1": true}}',
            '{"exp-1": "not applicable, true for others"}',
            '{"exp-1": "doesn\'t apply"}',
        ],
    )
    def test_that_selects_nothing(self, answer):
        assert selected(answer, IDS) == AnswerReading((), {})

    @pytest.mark.parametrize(
        "answer",
        [
            "",
            "   \n",
            "I'm sorry, I can't help with that.",
            "Sure, let me look at the files first.",
            "{",
            "[",
            "```",
            "<html><body><h1>502 Bad Gateway</h1>exp-1</body></html>",
            "<!DOCTYPE html>\n<title>exp-1</title>",
            '{"error": {"message": "Rate limit exceeded", "code": 429}}',
            "Error code: 500 - internal server error",
            "exp-100 and my-exp-10 and exp-1-b and xexp-1",
            "<think>exp-1 would apply since",
            "true",
            "12",
            "[true, false]",
            # what says yes and no, but not plainly of what
            '[["exp-1", true], ["exp-2", false], ["exp-3", true]]',
            '["exp-1", true, "exp-2", false]',
            '["exp-1"] does not apply.',
            'Not relevant: ["exp-2"]\nRelevant: ["exp-1", "exp-3"]',
            "exp-1, exp-2: neither.",
            "Neither exp-1 nor exp-2",
            "exp-1 and exp-3 apply, exp-2 does not.",
            "Not relevant:\n- exp-2\n- exp-10\n\nRelevant:\n- exp-1\n- exp-3",
            "exp-2 is relevant? No.",
            "- id: exp-1\n  relevant: true\n- id: exp-2\n  relevant: false",
            '{"thoughts": "exp-1 fits"}',
            "\x00\ud800",
            None,
            7,
        ],
    )
    def test_that_says_nothing(self, answer):
        assert selected(answer, IDS) is None

    @pytest.mark.parametrize(
        "answer",
        [
            '[{"id": "exp-1", "relevant": true}, {"id": "exp-2", "relevant": fal',
            '[{"id": "exp-1", "relevant": true}, {"id": "exp-2"',
            '{"id": "exp-1", "relevant": true}\n{"id": "exp-2", "relev',
            'So: {"exp-1": true, "exp-2"',
        ],
    )
    def test_an_id_whose_verdict_is_cut_off_is_not_chosen(self, answer):
        assert chosen(answer) == ("exp-1",)

    def test_numbers_stand_for_ids_that_are_numbers(self):
        ids = ["1", "2", "17"]
        assert chosen("[1, 17]", ids) == ("1", "17")
        assert chosen('{"1": true, "2": false, "17": "true"}', ids) == ("1", "17")
        assert chosen("{1: true, 2: false, 17: true}", ids) == ("1", "17")
        assert chosen('{"selected": [17.0, 1]}', ids) == ("1", "17")
        assert chosen('[{"exp_id": 1, "relevant": true}, {"exp_id": 2, "relevant": false}]', ids) == ("1",)

    def test_reasons_are_kept_for_those_that_have_one(self):
        answer = {
            "exp-1": {"relevant": True, "reason": "It reads files."},
            "exp-2": {"relevant": False, "why": "No table."},
            "exp-10": True,
        }
        reading = selected(json.dumps(answer), IDS)
        assert reading.chosen == ("exp-1", "exp-10")
        assert reading.reasons == {"exp-1": "It reads files.", "exp-2": "No table."}
        listed = '[{"id": "exp-1", "reason": "Files."}, {"id": "exp-2", "relevant": false, "explanation": "None."}]'
        assert selected(listed, IDS) == AnswerReading(("exp-1",), {"exp-1": "Files.", "exp-2": "None."})

    def test_case_and_blanks_count_where_they_tell_two_apart(self):
        assert chosen('{"A": true}', ["a", "A"]) == ("A",)
        assert chosen('{" a": true}', ["a", "A"]) == ()
        assert chosen('{" a ": true, "B": true}', ["a", "b"]) == ("a", "b")
        assert chosen('{"STRASSE": true}', ["straße"]) == ("straße",)

    def test_the_order_is_that_of_the_candidates_and_each_comes_once(self):
        assert chosen('["c", "a", "c", "b", "a"]', ["b", "c", "a", "b"]) == ("b", "c", "a")


class TestWords:
    @pytest.mark.parametrize(
        "answer",
        [
            "exp-1, exp-3",
            "exp-1 exp-3",
            "- exp-1\n- exp-3",
            "1. exp-1\n2. exp-3",
            '"exp-1" and `exp-3`',
            "**exp-1**, exp-3.",
            "EXP-1 and Exp-3",
            "exp-1: true\nexp-2: false\nexp-3: true",
            "exp-2: No\nexp-1: Yes\nexp-3: Yes",
            "exp-1 Y\nexp-2 N\nexp-3 Y",
            "\u2705 exp-1\n\u274c exp-2\n\u2705 exp-3",
            "I would select exp-1 and exp-3, but not exp-2.",
            "exp-2 is not relevant. exp-1 and exp-3 are.",
            "exp-2 isn't needed\nexp-1\nexp-3",
            "I don\u2019t think exp-2 applies, but exp-1 and exp-3 do.",
            "exp-1\nexp-3\nexp-2 has nothing to do with it",
            "True: exp-1, exp-3\nFalse: exp-2",
        ],
    )
    def test_name_what_applies(self, answer):
        assert chosen(answer) == ONE_AND_THREE

    @pytest.mark.parametrize(
        "answer",
        [
            "exp-2: false",
            "exp-2: low relevance",
            "There is no reason to select exp-2.",
            "exp-2 was not selected because it is about git, which is relevant elsewhere.",
            "exp-2 doesn\u2019t apply",
            "I would exclude exp-2",
            "All except exp-2",
            "exp-2: \u274c",
            "exp-2 is irrelevant here",
            "exp-2 could apply.\nexp-2: false",
            "exp-2: false\nSo exp-2.",
        ],
    )
    def test_deny(self, answer):
        assert chosen(answer) == ()


class TestHostileIds:
    IDS = (
        "true",
        "false",
        "none",
        "relevant",
        "1",
        "a",
        "a.b*",
        'say "hi"',
        "two words",
        "経験",
        "(x",
        "id",
        "selected",
    )

    def test_json_is_read_by_its_keys(self):
        answer = json.dumps({name: at % 2 == 0 for at, name in enumerate(self.IDS)}, ensure_ascii=False)
        assert chosen(answer, self.IDS) == self.IDS[::2]
        assert chosen(json.dumps(list(self.IDS)), self.IDS) == self.IDS

    def test_wrappers_and_keys_that_are_ids_are_told_apart(self):
        assert chosen('{"a": {"relevant": true}}', self.IDS) == ("a",)
        assert chosen('{"selected": ["a"]}', self.IDS) == ("a",)
        assert chosen('{"true": ["a"], "false": ["1"]}', self.IDS) == ("a",)
        assert chosen('{"selected": true, "a": false}', self.IDS) == ("selected",)
        assert chosen('[{"id": "id", "relevant": true}, {"id": "relevant", "relevant": false}]', self.IDS) == ("id",)

    def test_words_of_a_sentence_are_no_ids(self):
        assert chosen("two words: true\na.b*: false\n経験: true", self.IDS) == ("two words", "経験")
        assert chosen("None of the experiences is relevant.", self.IDS) == ()
        assert chosen("none", self.IDS) == ()
        assert chosen("It is true that a file is relevant, so two words.", self.IDS) == ("two words",)

    def test_nothing_of_an_id_acts_as_a_pattern(self):
        assert chosen("axbc", ("a.b*", "(x", ".*", "[")) is None
        assert chosen('{".*": true, "[": false}', ("a.b*", "(x", ".*", "[")) == (".*",)
        assert chosen("anything", ()) is None
        assert chosen("", ("",)) is None


names = st.text(alphabet="ab1 -.\"'{}[]:,é\n", min_size=1, max_size=6) | st.sampled_from(["true", "none", "1"])
verdicts = st.dictionaries(names, st.booleans(), max_size=5)
writings = st.sampled_from(
    [
        json.dumps,
        lambda said: json.dumps(said, indent=2, ensure_ascii=False),
        lambda said: f"```json\n{json.dumps(said)}\n```",
        lambda said: f"I chose these:\n{json.dumps(said)}\nDone.",
        lambda said: json.dumps({name: "yes" if value else "no" for name, value in said.items()}),
        lambda said: json.dumps({name: {"relevant": value, "reason": "yes"} for name, value in said.items()}),
        lambda said: json.dumps({"result": said}),
        lambda said: json.dumps([{"id": name, "relevant": value} for name, value in said.items()]),
        lambda said: "\n".join(json.dumps({name: value}) for name, value in said.items()),
    ]
)


class TestAnyAnswer:
    @settings(max_examples=150, deadline=None)
    @given(verdicts, writings)
    def test_of_verdicts_gives_the_true_ones(self, said, write):
        assert chosen(write(said), list(said)) in {tuple(name for name in said if said[name]), None if not said else 0}

    @settings(max_examples=150, deadline=None)
    @given(verdicts, st.integers(0, 200))
    def test_that_is_cut_off_chooses_nothing_that_it_denied(self, said, at):
        found = chosen(json.dumps(said)[:at], list(said))
        assert not [name for name in found or () if not said[name]]

    @settings(max_examples=200, deadline=None)
    @given(st.text() | st.text(alphabet="{}[]\"':,exp-123 \ntruefalsenot"), st.lists(st.text(max_size=5), max_size=4))
    def test_at_all_raises_nothing_and_names_only_candidates(self, answer, ids):
        found = chosen(answer, ids)
        assert found is None or (set(found) <= set(ids) and len(set(found)) == len(found))

    @pytest.mark.parametrize(
        "piece",
        [
            '{"', "[", "{", '{"a":', '["exp-1",', "exp-1 ", "not ", "exp-1 not ", '"', '\\"', "```", "<think>",
            "none of ", "no experience ", "a", " ", "\n", "'a': ", '{"exp-1": true}\n', "[]", "{}", '"a" : ', "`",
        ],
    )  # fmt: skip
    @pytest.mark.timeout(60)  # what is quadratic takes many minutes
    def test_takes_time_in_proportion_to_its_length(self, piece):
        found = selected(piece * (15_000 // len(piece)), [*IDS, "1", "a"])
        assert found is None or set(found.chosen) <= {*IDS, "1", "a"}

    def test_of_random_pieces_never_raises(self):
        chance = random.Random(7)
        pieces = re.split(r"(\W)", json.dumps({"exp-1": {"relevant": True}, "exp-2": ["no", 1e400, None]})) + IDS
        for _ in range(2_000):
            selected("".join(chance.choices(pieces, k=chance.randrange(30))), IDS)
