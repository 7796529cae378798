"""An operation is written once and does no I/O: whoever can answer statements can run it."""

import pytest

from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import BranchMoved
from langchain_agentmem.storage.steps import Statement, drive
from tests.storage.sessions import AT, entry

PLACES = [{"id": 5, "next": 3, "dimensions": None, "waiting": 0}]


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
        answers = Answers(
            lock_branch=[{"id": 7, "head": 3}], move_head=[{"id": 7, "head": 4}], insert_entry=new, series_places=PLACES
        )

        stored = drive(message_log.append(AT, [entry("m1")], now=5, tail=64), answers)

        assert stored.keys == ["m1"]
        assert answers.names[:3] == ["lock_branch", "known_key", "move_head"]
        assert answers.asked[2].parameters == {"branch": 7, "expected": 3, "position": 4, "added": 1}
        fresh = Answers(move_on=[{"id": 7, "head": 4}], insert_entry=new, series_places=PLACES)
        drive(message_log.append(AT, [entry("m1")._replace(new_key=True)], now=5, tail=64), fresh)
        assert (fresh.names[0], fresh.asked[0].ahead) == ("move_on", True)  # what is new looks at nothing first

    def test_who_loses_a_race_is_told(self):
        """The head moved, the conversation vanished while it was opened, or others took the series away."""
        place, moved = {"lock_branch": [{"id": 7, "head": 3}]}, {"move_head": [{"head": 4}]}
        for rows, last in (
            (place | {"series_places": PLACES}, "totals_changed"),
            ({}, "lock_branch"),
            (place | moved | {"scope_series": [{"id": 1, "series": 1}]}, "totals_changed"),
        ):
            answers = Answers(**rows)
            with pytest.raises(BranchMoved):
                drive(message_log.append(AT, [entry("m1")], now=5, tail=64), answers)
            assert answers.names[-1] == last
            assert "insert_entry" not in answers.names


class TestDriving:
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
