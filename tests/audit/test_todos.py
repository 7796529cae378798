"""Each sentence that contains a request becomes one todo."""

from pathlib import Path

import pytest
import yaml

from langchain_agentmem.audit.junk_rules import MAX_TODO_CHARS, find_todos, todo_key

SENTENCES = yaml.safe_load((Path(__file__).parent / "todo_sentences.yaml").read_text(encoding="utf-8"))


def test_request_detection_meets_precision_and_recall():
    asked = [bool(find_todos(sentence["text"])) for sentence in SENTENCES]
    meant = [sentence["todo"] for sentence in SENTENCES]
    right = sum(a and m for a, m in zip(asked, meant, strict=True))
    assert right >= 0.95 * sum(asked)
    assert right >= 0.95 * sum(meant)


def test_sentence_is_returned_whole():
    for text in [sentence["text"] for sentence in SENTENCES if sentence["todo"]]:
        assert find_todos(f"Good morning. {text}") == [text]


BUGS, ON, BUILD = ("I want to add and fix bugs.", "Please test it, e.g. on https://example.org/?c.", "Build it!")
GIVEN = {
    "each sentence gives one": (f"{BUGS} It rains. {ON} {BUILD}", [BUGS, ON, BUILD]),
    "the items of a list give one each": (
        "1. Fix the login\n2) add a button\n- [ ] Test it\n- [x] Create it\n* Nothing here",
        ["Fix the login", "add a button", "Test it"],
    ),
    "code gives none": ("Look:\n```python\nfix()\n# should add a test\n```\nFix it", ["Fix it"]),
    "none is there twice": ("Fix the  build. fix the BUILD!\nFix the build", ["Fix the build."]),
}


@pytest.mark.parametrize(("text", "todos"), GIVEN.values(), ids=GIVEN)
def test_text_yields_the_expected_todos(text, todos):
    assert find_todos(text) == todos


def test_key_ignores_case_and_punctuation():
    assert todo_key(" Fix  the Build!! ") == todo_key("fix the build") == "fix the build"


def test_word_parts_and_empty_text_yield_none():
    words = ("address", "latest", "needle", "wanton", "buildings", "contest", "documentary", "prefix")
    for text in (*(f"{word} is here" for word in words), "", "   ", "\x00\x01\x02", "\ud800"):
        assert find_todos(text) == []


def test_a_todo_has_at_most_500_characters():
    (todo,) = find_todos("Please add " + "this and that " * 100_000)
    assert todo.startswith("Please add this")
    assert len(todo) <= MAX_TODO_CHARS
