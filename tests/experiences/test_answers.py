"""A model's answer is parsed to the ids that it selects; a denied id is never selected."""

import json
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.experiences.model_choice import read_selection

IDS = ["exp-1", "exp-2", "exp-3", "exp-10", "my-exp-1"]
ONE_AND_THREE = ("exp-1", "exp-3")
CASES = yaml.safe_load(Path(__file__).with_name("answers.yaml").read_text("utf-8"))


def chosen(answer, ids=IDS):
    return read_selection(answer, ids)


class TestJson:
    def test_json_answers_of_every_shape_are_parsed(self):
        for answer in CASES["json_that_chooses"]:
            assert chosen(answer) == ONE_AND_THREE, answer
        for answer in CASES["chooses_nothing"]:
            assert read_selection(answer, IDS) == (), answer
        for answer in (*CASES["not_understood"], None, 7):
            assert read_selection(answer, IDS) is None, answer

    def test_numbers_match_numeric_ids(self):
        ids = ["1", "2", "17"]
        assert chosen("[1, 17]", ids) == ("1", "17")
        assert chosen('{"1": true, "2": false, "17": "true"}', ids) == ("1", "17")
        assert chosen("{1: true, 2: false, 17: true}", ids) == ("1", "17")
        assert chosen('[{"exp_id": 1, "relevant": true}, {"exp_id": 2, "relevant": false}]', ids) == ("1",)

    def test_case_and_blanks_distinguish_ids(self):
        assert chosen('{"A": true}', ["a", "A"]) == ("A",)
        assert chosen('{" a": true}', ["a", "A"]) is None
        assert chosen('{" a ": true, "B": true}', ["a", "b"]) == ("a", "b")
        assert chosen('{"STRASSE": true}', ["straße"]) == ("straße",)

    def test_result_keeps_candidate_order_without_duplicates(self):
        assert chosen('["c", "a", "c", "b", "a"]', ["b", "c", "a", "b"]) == ("b", "c", "a")


def test_prose_selects_named_and_rejects_denied_ids():
    for answer in CASES["words_that_choose"]:
        assert chosen(answer) == ONE_AND_THREE, answer
    for answer in CASES["words_that_deny"]:
        assert chosen(answer) == (), answer


class TestHostileIds:
    IDS = (
        "true", "false", "none", "relevant", "1", "a", "a.b*", 'say "hi"', "two words", "経験", "(x", "id", "selected",
    )  # fmt: skip

    def test_json_keys_are_matched_literally(self):
        answer = json.dumps({name: at % 2 == 0 for at, name in enumerate(self.IDS)}, ensure_ascii=False)
        assert chosen(answer, self.IDS) == self.IDS[::2]
        assert chosen(json.dumps(list(self.IDS)), self.IDS) == self.IDS

    def test_wrapper_keys_are_distinguished_from_ids(self):
        assert chosen('{"a": {"relevant": true}}', self.IDS) == ("a",)
        assert chosen('{"selected": ["a"]}', self.IDS) == ("a",)
        assert chosen('{"true": ["a"], "false": ["1"]}', self.IDS) == ("a",)
        assert chosen('{"selected": true, "a": false}', self.IDS) == ("selected",)
        assert chosen('[{"id": "id", "relevant": true}, {"id": "relevant", "relevant": false}]', self.IDS) == ("id",)

    def test_sentence_words_are_not_ids(self):
        ids = ("1", "a", "a.b*", "two words", "経験")
        assert chosen("two words: true\na.b*: false\n経験: true", ids) == ("two words", "経験")
        assert chosen("two words: true", ("two", *ids)) == ("two words",)
        assert chosen("None of the experiences is relevant.", ids) == ()
        assert chosen("1. It is true that a file is relevant, so two words.", ids) == ("two words",)

    def test_ids_are_never_patterns(self):
        assert chosen("axbc", ("a.b*", "(x", ".*", "+")) is None
        assert chosen('{".*": true, "+": false}', ("a.b*", "(x", ".*", "+")) == (".*",)
        assert chosen("anything", ()) is None
        assert chosen("", ("",)) is None


names = st.text(alphabet="ab1 -.\"':,é\n", min_size=1, max_size=6) | st.sampled_from(["true", "none", "1"])
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


class TestAnswerProperties:
    @given(verdicts, writings)
    def test_true_verdicts_are_selected(self, said, write):
        assert chosen(write(said), list(said)) in {tuple(name for name in said if said[name]), None if not said else 0}

    @given(verdicts, st.integers(0, 200))
    def test_truncated_answer_selects_nothing_denied(self, said, at):
        found = chosen(json.dumps(said)[:at], list(said))
        assert not [name for name in found or () if not said[name]]

    @given(st.text() | st.text(alphabet="{}[]\"':,exp-123 \ntruefalsenot"), st.lists(st.text(max_size=5), max_size=4))
    def test_any_answer_yields_only_candidates(self, answer, ids):
        found = chosen(answer, ids)
        assert found is None or (set(found) <= set(ids) and len(set(found)) == len(found))
