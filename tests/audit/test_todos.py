"""A sentence that asks for something gives one todo."""

from __future__ import annotations

from pathlib import Path

import yaml

from langchain_agentmem.audit.audit_todos import LONGEST, todo_key, todos_in

SENTENCES = yaml.safe_load((Path(__file__).parent / "todo_sentences.yaml").read_text(encoding="utf-8"))


def test_sentences_that_ask_are_told_from_those_that_do_not():
    asked = [bool(todos_in(sentence["text"])) for sentence in SENTENCES]
    meant = [sentence["todo"] for sentence in SENTENCES]
    right = sum(a and m for a, m in zip(asked, meant, strict=True))
    assert right >= 0.95 * sum(asked)
    assert right >= 0.95 * sum(meant)


def test_a_sentence_is_given_whole():
    for text in [sentence["text"] for sentence in SENTENCES if sentence["todo"]]:
        assert todos_in(f"Good morning. {text}") == [text]


def test_each_sentence_gives_one():
    text = (
        "I want to add a new feature and fix bugs. It rains. Please test it, e.g. on https://example.org/?c. Build it!"
    )
    assert todos_in(text) == [
        "I want to add a new feature and fix bugs.",
        "Please test it, e.g. on https://example.org/?c.",
        "Build it!",
    ]


def test_the_items_of_a_list_give_one_each():
    text = "1. Fix the login\n2) add a button\n- [ ] Test it\n- [x] Create it\n* Nothing here"
    assert todos_in(text) == ["Fix the login", "add a button", "Test it"]


def test_code_gives_none():
    assert todos_in("Look:\n```python\nfix()\n# should add a test\n```\nFix it") == ["Fix it"]


def test_none_is_there_twice():
    assert todos_in("Fix the  build. fix the BUILD!\nFix the build") == ["Fix the build."]
    assert todo_key(" Fix  the Build!! ") == todo_key("fix the build") == "fix the build"


def test_a_keyword_is_a_whole_word():
    for word in ("address", "latest", "needle", "wanton", "buildings", "contest", "documentary", "prefix"):
        assert todos_in(f"{word} is here") == []


def test_where_nothing_is_written_nothing_is_found():
    for text in (None, "", "   ", "\x00\x01\x02", "\ud800", 7, b"fix it"):
        assert todos_in(text) == []


def test_a_todo_has_at_most_500_characters():
    (todo,) = todos_in("Please add " + "this and that " * 100_000)
    assert todo.startswith("Please add this")
    assert len(todo) <= LONGEST
