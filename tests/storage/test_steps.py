"""An operation is written once and does no I/O: whoever can answer statements can run it."""

import pytest

from langchain_agentmem.conversations import log
from langchain_agentmem.errors import BranchMoved, MessageError
from langchain_agentmem.retrieval import index
from langchain_agentmem.storage import query
from langchain_agentmem.storage.content import digest
from langchain_agentmem.storage.steps import Statement, drive

AT = log.Address("", "c")


def entry(key="m1", text="hello"):
    return log.Entry(key, b'{"content":"%s"}' % text.encode(), text, created_at=1)


class Answers:
    """Answers each statement by its name, and remembers what it was asked."""

    def __init__(self, **rows):
        self.rows = rows
        self.asked = []

    def __call__(self, statement):
        self.asked.append(statement)
        return self.rows.get(statement.query, ())

    @property
    def names(self):
        return [statement.query for statement in self.asked]


class TestOperationsWithoutADatabase:
    def test_an_append_is_a_list_of_statements(self):
        new = [{"id": 9, "key": "m1"}]
        answers = Answers(lock_branch=[{"id": 7, "head": 3}], move_head=[{"head": 4}], insert_entry=new, entries_at=new)

        stored = drive(log.append(AT, [entry()], now=5, tail=64), answers)

        assert stored.keys == ["m1"]
        assert answers.names[:5] == ["lock_branch", "known_key", "store_content", "move_head", "insert_entry"]
        assert answers.asked[3].parameters == {"branch": 7, "expected": 3, "position": 4, "added": 1}
        assert answers.asked[4].parameters["content_hash"] == digest(entry().body)

    def test_a_head_that_moved_stops_the_append(self):
        answers = Answers(lock_branch=[{"id": 7, "head": 3}], move_head=[])

        with pytest.raises(BranchMoved):
            drive(log.append(AT, [entry()], now=5, tail=64), answers)

        assert "insert_entry" not in answers.names

    def test_a_conversation_that_vanishes_while_it_is_opened_is_a_lost_race(self):
        answers = Answers()

        with pytest.raises(BranchMoved):
            drive(log.append(AT, [entry()], now=5, tail=64), answers)

        assert answers.names == ["lock_branch", "create_namespace", "create_branch", "lock_branch"]

    def test_a_repeat_writes_nothing(self):
        known = {
            "key": "m1",
            "kind": "message",
            "recipient": None,
            "round_key": None,
            "content_hash": digest(entry().body),
            "attachments_hash": None,
        }
        answers = Answers(lock_branch=[{"id": 7, "head": 3}], known_key=[known])

        assert drive(log.append(AT, [entry()], now=5, tail=64), answers).keys == []
        assert answers.names == ["lock_branch", "known_key"]

        with pytest.raises(MessageError, match="m1"):
            drive(log.append(AT, [entry(text="other")], now=5, tail=64), answers)

    def test_the_index_is_written_when_the_tail_is_full(self):
        asked = Answers(tail_to_index=[{"id": 63, "body": b"b"}])
        drive(index.follow([63], ["x"], tail=64, text_of=lambda body: "waited"), asked)
        assert asked.names == []

        drive(index.follow([64], ["now"], tail=64, text_of=lambda body: "waited"), asked)
        assert asked.names == ["tail_to_index", "index_terms", "set_index_state", "index_terms", "set_index_state"]

    def test_without_a_tail_every_entry_is_indexed_at_once(self):
        asked = Answers()
        drive(index.follow([63, 64], ["One fish", "two"], tail=0, text_of=str), asked)
        assert asked.asked == [
            query.index_terms.many([{"id": 63, "terms": "one fish"}, {"id": 64, "terms": "two"}]),
        ]


class TestDriving:
    def test_the_value_of_the_operation_is_returned(self):
        def steps():
            [row] = yield Statement("first", {})
            return row + 1

        assert drive(steps(), lambda statement: [41]) == 42

    def test_an_operation_is_closed_when_a_statement_fails(self):
        closed = []

        def steps():
            try:
                yield Statement("first", {})
            finally:
                closed.append(True)

        def failing(statement):
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            drive(steps(), failing)
        assert closed == [True]

    def test_an_operation_without_statements_is_one_too(self):
        def steps():
            yield from ()
            return "nothing to ask"

        assert drive(steps(), lambda statement: pytest.fail("asked")) == "nothing to ask"
