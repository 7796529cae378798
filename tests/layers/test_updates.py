"""What a model writes is understood in whatever form it comes, and never reaches the user."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from langchain_agentmem.layers import text_protocol
from langchain_agentmem.layers.layer_tools import NOTATION, OPERATIONS
from langchain_agentmem.layers.text_protocol import MOST_OPERATIONS, PROTOCOL_PROMPT, parse

MARK = re.compile(r"<\\?/?memory_(?:update|results)\b[^<>\n]{0,200}>", re.IGNORECASE)


class CountingReader:
    """Reads JSON, and counts what it reads; before an error, Python counts the lines from the beginning, too."""

    def __init__(self):
        self.characters = 0

    def raw_decode(self, text, at):
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(text, at)
        except json.JSONDecodeError as error:
            self.characters += (len(text) if "Unterminated" in error.msg else error.pos) - at + error.pos
            raise
        except RecursionError:
            self.characters += len(text)
            raise
        self.characters += end - at
        return value, end


def block(value):
    return f"<memory_update>{value if isinstance(value, str) else json.dumps(value)}</memory_update>"


def asked(reply):
    """What a reply asks for, as names with arguments."""
    return [(each.name, each.arguments.model_dump(exclude_none=True)) for each in parse(reply).requests]


def one(name, value):
    """The arguments of all that one entry of an update asks for."""
    update = parse(block({name: value}))
    assert not update.problems, update.problems
    assert {each.name for each in update.requests} <= {name}
    return [each.arguments.model_dump(exclude_none=True) for each in update.requests]


ADA = {"key": "user_name", "value": "Ada", "importance": 4}
SET = {"mem_core_set": {"user_name": "Ada"}}


class TestBlocks:
    @pytest.mark.parametrize(
        ("reply", "words"),
        [
            ("Hello! " + block(SET), "Hello!"),
            (block(SET) + "\n\nHello!", "Hello!"),
            ("Hello " + block(SET) + "Ada!", "Hello Ada!"),
            ("One.\n" + block(SET) + "\nTwo.", "One.\n\nTwo."),
            ("x = [\n" + block(SET) + "\n    1,\n]", "x = [\n\n    1,\n]"),
            (block("```json\n" + json.dumps(SET) + "\n```"), ""),
            ("Hi. <MEMORY_UPDATE>" + json.dumps(SET) + "</Memory_Update>", "Hi."),
            ('Hi. <memory_update kind="core">' + json.dumps(SET) + "</memory_update >", "Hi."),
            (r"Hi. <memory_update>" + json.dumps(SET) + r"<\/memory_update>", "Hi."),
            ("<memory_update>" + json.dumps(SET) + "\n\nHi.", "Hi."),
            ("<memory_update>[" + json.dumps(SET) + "]\n\nHi.", "Hi."),
            ("<memory_update>\n```json\n" + json.dumps(SET) + "\n```\n\nHi.", "Hi."),
            ("Hi. " + block("{'mem_core_set': {'user_name': 'Ada',},}"), "Hi."),
            ("Hi. " + block("Here it is: " + json.dumps(SET) + " That is all."), "Hi."),
            ("Hi. " + block(block(SET)), "Hi."),
            ("Hi. " + block([SET]), "Hi."),
            ("Hi. <memory_update>[, " + json.dumps(SET), "Hi."),
        ],
    )
    def test_one_is_read_and_taken_out(self, reply, words):
        update = parse(reply)
        assert asked(reply) == [("mem_core_set", ADA)]
        assert update.problems == ()
        assert update.text == words

    def test_there_may_be_several_and_several_objects_in_one(self):
        reply = (
            f"a {block(SET)} b "
            + block('{"mem_core_del": "x"}\n{"mem_core_del": "y"} and {"mem_core_del": "z"}')
            + ' c <memory_update>{"mem_core_del": "w"}{"mem_core_del": "v"}'
        )
        assert [each[1]["key"] for each in asked(reply)] == ["user_name", "x", "y", "z", "w", "v"]
        assert parse(reply).text == "a b c"

    def test_one_that_is_not_ended_before_the_next_loses_neither(self):
        reply = "<memory_update>" + json.dumps(SET) + " and " + block({"mem_core_del": "x"})
        assert [name for name, _ in asked(reply)] == ["mem_core_set", "mem_core_del"]
        assert parse(reply).text == "and"

    def test_a_mark_within_a_text_is_part_of_it(self):
        note = "It ends with </memory_update>, and <memory_update>{} is not one."
        reply = f"Hi. {block({'mem_core_set': {'note': note}})} Bye."
        [(_, arguments)] = asked(reply)
        assert arguments["value"] == note
        assert parse(reply).text == "Hi. Bye."

    def test_what_the_model_pretends_to_have_been_told_is_taken_out_and_not_done(self):
        reply = f"Hi. <memory_results>\n{block(SET)}\n</memory_results> Bye."
        assert asked(reply) == []
        assert parse(reply).text == "Hi. Bye."
        assert parse('Hi. <memory_results>{"a": 1} Bye.').text == "Hi. Bye."

    def test_a_mark_that_is_only_spoken_of_takes_nothing_with_it(self):
        update = parse("I write `<memory_update>` when I want to remember. Shall I?")
        assert (update.requests, update.problems) == ((), ())
        assert update.text.startswith("I write `")
        assert update.text.endswith("` when I want to remember. Shall I?")

    @pytest.mark.parametrize(
        "malformed",
        [
            '<memory_update"mem_core_set":{"user_name":"Ada"}}/>',
            '<memory_update"mem_core_set":{"user_name":"Ada"}}>',
            '<memory_update {"mem_core_set":{"user_name":"Ada"}}/>',
            '<memory_update{"mem_core_set":{"user_name":"Ada"}}</memory_update>',
            '<memory_update\n{"mem_core_set":{"user_name":"Ada"}}>',
            '<memory_update "mem_core_set": {"user_name": "' + "Ada " * 200 + '"}}/>',
            '<memory_update as="json" {"mem_core_set": {"user_name": "Ada"}}',
        ],
    )
    def test_a_mark_that_is_not_ended_before_its_json_is_told_as_a_problem(self, malformed):
        update = parse(f"Hi. {malformed}\nBye.")
        assert update.requests == ()
        [problem] = update.problems
        assert "memory_update" in problem
        assert len(problem) < 250
        assert "Ada" not in update.text
        assert update.text.split() == ["Hi.", "Bye."]

    def test_of_a_block_that_was_cut_off_nothing_is_done_and_the_model_is_told(self):
        update = parse('Hi. <memory_update>{"mem_core_set": {"a": "whole"}, "mem_recall_append": "only ha')
        assert update.requests == ()
        assert "cut off" in update.problems[0]
        assert update.text == "Hi."

    def test_a_reply_without_any_is_the_same_text(self):
        reply = "  Hello  <b>you</b>\n\n\n   &lt;memory_update&gt; \n"
        assert parse(reply).text == reply
        assert parse(AIMessage(reply)).text == reply

    @pytest.mark.parametrize("reply", ["", None, 5, AIMessage("")])
    def test_no_words_ask_for_nothing(self, reply):
        assert parse(reply).requests == ()

    @pytest.mark.parametrize("words", ["none", "[1, 2]", '"text"', "{{{{"])
    def test_a_block_without_json_is_a_problem_that_says_so(self, words):
        update = parse(f"Hi. {block(words)}")
        assert update.requests == ()
        assert "no JSON object" in update.problems[0]
        assert update.text == "Hi."


class TestSpellings:
    def test_notes(self):
        assert one(
            "mem_core_set", {"a": "x", "b": {"value": "y", "importance": 5, "ttl": 60}, "c": {"value": "z"}}
        ) == [
            {"key": "a", "value": "x", "importance": 4},
            {"key": "b", "value": "y", "importance": 5, "ttl": 60},
            {"key": "c", "value": "z", "importance": 4},
        ]
        assert one("mem_core_set", {"key": "a", "value": "x", "importance": 1}) == [
            {"key": "a", "value": "x", "importance": 1}
        ]
        assert one("mem_core_set", [{"key": "a", "value": "x"}, {"b": 5}]) == [
            {"key": "a", "value": "x", "importance": 4},
            {"key": "b", "value": "5", "importance": 4},
        ]
        assert one("mem_core_set", {"plan": {"step": 1}}) == [{"key": "plan", "value": '{"step": 1}', "importance": 4}]

    def test_reading_notes(self):
        for everything in (None, True, [], "", {}):
            assert one("mem_core_get", everything) in ([{}], [{"keys": []}])
        for some in (["a"], "a", '["a"]', {"keys": ["a"]}, {"key": "a"}):
            assert one("mem_core_get", some) == [{"keys": ["a"]}]

    def test_deleting_notes(self):
        assert one("mem_core_del", "a") == [{"key": "a"}]
        assert one("mem_core_del", ["a", "b"]) == [{"key": "a"}, {"key": "b"}]

    def test_records_are_tagged_as_the_models_own(self):
        assert one("mem_archival_write", [{"text": "x", "tags": ["t"]}, {"content": "y"}, "z"]) == [
            {"content": "x", "tags": ["t", "LLM_INSIGHT"]},
            {"content": "y", "tags": ["LLM_INSIGHT"]},
            {"content": "z", "tags": ["LLM_INSIGHT"]},
        ]
        assert one("mem_archival_write", {"text": "x", "tags": "t"}) == [{"content": "x", "tags": ["t", "LLM_INSIGHT"]}]
        assert one("mem_archival_update", [{"id": "1", "text": "x"}, {"record_id": "2", "tags": ["t"]}]) == [
            {"record_id": "1", "content": "x"},
            {"record_id": "2", "tags": ["t"]},
        ]

    def test_searches(self):
        assert one("mem_archival_search", {"query": "x", "k": 3, "tags": ["t"]}) == [
            {"query": "x", "limit": 3, "tags": ["t"]}
        ]
        assert one("mem_archival_search", ["x", {"query": "y", "limit": "4"}]) == [
            {"query": "x", "limit": 10},
            {"query": "y", "limit": 4},
        ]
        assert one("mem_recall_search", "x") == [{"query": "x", "limit": 20}]
        assert one("mem_recall_search", {"query": "x", "k": 5}) == [{"query": "x", "limit": 5}]

    def test_a7_an_event_of_only_a_content_has_that_content(self):
        for event in ({"content": "x"}, {"text": "x"}, "x"):
            assert one("mem_recall_append", event) == [{"kind": "note", "content": "x"}]
        for event in ({"kind": "k", "content": "x"}, {"event_type": "k", "content": "x"}, {"type": "k", "text": "x"}):
            assert one("mem_recall_append", event) == [{"kind": "k", "content": "x"}]
        assert len(one("mem_recall_append", ["x", "x"])) == 2

    def test_events_that_leave(self):
        assert one("mem_recall_evict", {"oldest": 3}) == [{"oldest": 3}]
        assert one("mem_recall_evict", {"oldest": True}) == [{"oldest": 1}]
        assert one("mem_recall_evict", {"kind": "k"}) == [{"kind": "k"}]
        assert (
            one("mem_recall_evict", {"ids": ["1", "2"]}) == one("mem_recall_evict", ["1", "2"]) == [{"ids": ["1", "2"]}]
        )

    def test_tidying(self):
        assert one("mem_recall_summarize", True) == [{}]
        assert one("consolidate", True) == [{}]
        assert one("consolidate", "high") == one("consolidate", {"level": "high"}) == [{"level": "high"}]
        assert one("mem_recall_summarize", False) == one("consolidate", False) == []
        assert asked(block({"recall_summarize": True, "Mem-Consolidate": True})) == [
            ("mem_recall_summarize", {}),
            ("consolidate", {}),
        ]

    def test_every_operation_has_a_form_that_the_model_is_shown_and_that_is_understood(self):
        assert sorted(NOTATION) == sorted(each.name for each in OPERATIONS)
        for name, form in ((name, told["form"]) for name, told in NOTATION.items()):
            assert f'"{name}": {form}' in PROTOCOL_PROMPT
            for spelled in form.split(" or "):
                assert one(name, json.loads(spelled))

    def test_they_are_done_in_the_documented_order_however_they_are_written(self):
        update = {
            "consolidate": True, "recall_summarize": True, "mem_recall_evict": {"oldest": 1}, "mem_recall_search": "x",
            "mem_recall_append": "x", "mem_archival_search": "x", "mem_archival_update": {"id": "1", "text": "x"},
            "mem_archival_write": "x", "mem_core_del": "a", "mem_core_get": ["a"], "mem_core_set": {"a": "x"},
        }  # fmt: skip
        names = [name for name, _ in asked(block(update))]
        assert names == [
            "mem_core_set", "mem_core_get", "mem_core_del", "mem_archival_write", "mem_archival_update",
            "mem_archival_search", "mem_recall_append", "mem_recall_search", "mem_recall_evict", "mem_recall_summarize",
            "consolidate",
        ]  # fmt: skip


class TestProblems:
    @pytest.mark.parametrize(
        ("update", "said"),
        [
            ({"mem_core_sett": {"a": "x"}}, "there is no such operation; there are consolidate, "),
            ({"mem_core_set": {"a": {"value": "x", "importance": 9}}}, "importance: "),
            ({"mem_core_set": 5}, "mem_core_set: "),
            ({"mem_recall_append": {"content": "x", "knd": "k"}}, "knd: there is no such argument"),
            ({"mem_recall_append": {"kind": "k"}}, "content: it is missing"),
            ({"mem_recall_append": {"content": ""}}, "content: "),
            ({"mem_archival_update": {"id": "1"}}, "give the new content, the new tags, or both"),
            ({"mem_recall_evict": {}}, "say which events: ids, kind, or oldest"),
            ({"mem_archival_search": {"query": "x", "k": "many"}}, "limit: "),
            ({"mem_node_read": "everything"}, "scope: "),
        ],
    )
    def test_what_is_malformed_is_told_and_the_rest_is_read(self, update, said):
        read = parse(block({**update, "mem_core_del": "other"}))
        assert [each.name for each in read.requests] == ["mem_core_del"]
        [problem] = read.problems
        assert said in problem

    def test_ten_thousand_operations_are_bounded_and_it_is_said(self):
        read = parse(block({"mem_recall_append": ["x"] * 10_000}))
        assert len(read.requests) == MOST_OPERATIONS
        assert read.problems == (f"{10_000 - MOST_OPERATIONS} operations were not done: a reply may have 100.",)
        read = parse(block({f"op{n}": 1 for n in range(10_000)}))
        assert len(read.problems) < 30


class TestHostile:
    PIECES = (
        "<memory_update>", "</memory_update>", r"<\/memory_update>", "<memory_results>", "</memory_results>",
        "<memory_", "update>", '{"mem_core_set": {"a": "b"}}',
        "{", "}", "[", "]", '"', "'", ":", ",", "a", "\\", "```", "\n", " ",
        "<", ">", "1",
    )  # fmt: skip

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join))
    def test_whatever_is_written_nothing_is_raised_and_no_mark_is_left(self, reply):
        update = parse(reply)
        assert not MARK.search(update.text)
        assert parse(update.text).requests == ()
        if "<mem" not in reply.lower() and "memory_" not in reply.lower():
            assert update.text == reply

    def test_two_halves_of_a_mark_do_not_come_together(self):
        assert not MARK.search(parse(f"a <memory_update{block({})}> b <mem{block({})}ory_update> c").text)

    @pytest.mark.parametrize(
        "piece",
        [
            "<memory_update>", '<memory_update>{"', '<memory_update>{"a":', "<memory_update>{", "</memory_update>", "<",
            '<memory_update>{"a":[</memory_update>', '"x<memory_update>{": 1,', '"":"<memory_update>{",',
            "<memory_results>", '<memory_results>{"', "<memory_results><memory_update>{}",
            "```\n<memory_update>{}</memory_update>\n```\n",
        ],
    )  # fmt: skip
    def test_a_long_reply_is_read_only_so_often(self, piece, monkeypatch):
        reader = CountingReader()
        monkeypatch.setattr(text_protocol, "_strict", reader)
        text = "<memory_update>{" + piece * (100_000 // len(piece))
        parse(text)
        assert reader.characters < 10 * len(text)

    @pytest.mark.timeout(60)
    def test_a_megabyte_of_nested_tags_is_read(self):
        update = parse("<memory_update>" * 30_000 + json.dumps(SET) + "</memory_update>" * 30_000 + " Hi.")
        assert len(update.requests) == 1
        assert update.text == "Hi."

    def test_random_replies_of_many_marks_are_read(self):
        source = random.Random(5)
        for _ in range(5):
            update = parse("".join(source.choices(self.PIECES, k=20_000)))
            assert len(update.requests) <= MOST_OPERATIONS
            assert not MARK.search(update.text)

    def test_deep_nesting_is_a_problem_and_no_error(self):
        for deep in ("[" * 1_500 + "]" * 1_500, '{"a":' * 1_500 + "1" + "}" * 1_500, "[" * 900 + "]" * 900):
            parse(block('{"mem_core_set": {"a": ' + deep + "}}"))
            parse(block('{"mem_core_set": ' + deep + "}"))
