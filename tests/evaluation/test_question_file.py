"""A file of questions: one JSON object a line, and every mistake is told with its line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from langchain_agentmem import InvalidInput
from langchain_agentmem.evaluation import read_questions

pytestmark = pytest.mark.sqlite_suffices


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "questions.jsonl"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_questions(path)

    return read


def test_all_that_a_question_may_say(read):
    full, spare = read(
        '\ufeff{"question": "Where?", "evidence": ["m1", 7], "namespace": ["users", "a/b"], "category": 4, '
        '"at": "2026-03-02T18:30+01:00", "answer": "here", "note": 1}\n\n{"question": "When?", "evidence": []}\n'
    )
    assert (full.text, full.evidence, full.namespace) == ("Where?", {"m1", "7"}, ("users", "a/b"))
    assert (full.category, full.answer) == ("4", "here")
    assert full.at == datetime(2026, 3, 2, 18, 30, tzinfo=timezone(timedelta(hours=1)))
    assert (spare.evidence, spare.namespace, spare.category, spare.at) == (set(), None, None, None)


def test_a_namespace_may_be_written_as_on_the_command_line_and_a_time_without_a_zone_is_in_utc(read):
    line = '{{"question": "q", "evidence": [], "namespace": {}, "at": "2026-03-02"}}\n'
    lines = "".join(map(line.format, ('"users/a%2Fb"', '"/"', "[]")))
    assert [each.namespace for each in read(lines)] == [("users", "a/b"), None, ()]
    assert read(lines)[0].at == datetime(2026, 3, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "Line 2 of {path} is not JSON"),
        ("[1]", "Line 2 of {path} is no object"),
        ('{"evidence": []}', 'Line 2 of {path} has no "question"'),
        ('{"question": " ", "evidence": []}', 'has no "question"'),
        ('{"question": "q"}', 'has no "evidence", which is a list of ids'),
        ('{"question": "q", "evidence": "m1"}', 'has no "evidence"'),
        ('{"question": "q", "evidence": [["m1"]]}', 'has no "evidence"'),
        ('{"question": "q", "evidence": [], "at": "May"}', 'Line 2 of {path}: "at" is a time'),
        ('{"question": "q", "evidence": [], "at": 5}', '"at" is a time'),
        ('{"question": "q", "evidence": [], "namespace": "a//b"}', "is no namespace"),
        ('{"question": "q", "evidence": [], "namespace": [5]}', "cannot be part of a namespace"),
    ],
)
def test_a_line_that_says_something_else_is_refused_with_its_number(read, tmp_path, line, said):
    with pytest.raises(InvalidInput) as refused:
        read('{"question": "q", "evidence": []}\n' + line)
    assert said.format(path=repr(str(tmp_path / "questions.jsonl"))) in str(refused.value)


@pytest.mark.parametrize(("content", "said"), [("\n \n", "holds no questions"), (b"\xff", "cannot be read")])
def test_a_file_that_is_none_is_refused(read, content, said):
    with pytest.raises(InvalidInput, match=said):
        read(content)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_questions(tmp_path / "nothing.jsonl")
