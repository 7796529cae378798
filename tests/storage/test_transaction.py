"""An operation is written once and does no I/O: whoever can answer statements can run it."""

import traceback
from types import SimpleNamespace

import pytest

from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import BranchMoved, StorageError
from langchain_agentmem.storage import query
from langchain_agentmem.storage.transaction import Transaction
from tests.storage.sessions import AT, entry

PLACES = [{"id": 5, "next": 3, "dimensions": None, "waiting": 0}]


class Answers(Transaction):
    """Answers each query by its name, and remembers what it was asked."""

    def __init__(self, **rows):
        self.rows = rows
        self.asked = []

    def run(self, query, parameters, *, ahead=False):
        self.asked.append(SimpleNamespace(query=query, parameters=parameters, ahead=ahead))
        return self.rows.get(query, ())

    def run_many(self, query, rows):
        self.run(query, rows)

    @property
    def names(self):
        return [statement.query for statement in self.asked]


class TestOperationsWithoutADatabase:
    def test_an_append_is_a_list_of_statements(self):
        new = [{"id": 9, "key": "m1"}]
        answers = Answers(
            lock_branch=[{"id": 7, "head": 3}], move_head=[{"id": 7, "head": 4}], insert_entry=new, series_places=PLACES
        )

        stored = message_log.append(answers, AT, [entry("m1")], now=5, tail=64)

        assert stored.keys == ["m1"]
        assert answers.names[:3] == ["lock_branch", "known_in", "move_head"]
        assert answers.asked[2].parameters == {"branch": 7, "expected": 3, "position": 4, "added": 1}
        fresh = Answers(move_on=[{"id": 7, "head": 4}], insert_entry=new, series_places=PLACES)
        message_log.append(fresh, AT, [entry("m1")._replace(new_key=True)], now=5, tail=64)
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
                message_log.append(answers, AT, [entry("m1")], now=5, tail=64)
            assert answers.names[-1] == last
            assert "insert_entry" not in answers.names


class TestAfterItsEnd:
    def test_a_transaction_refuses_every_query(self, memory):
        for run in (memory.database.engine.read, memory.database.engine.write):
            ended = run(lambda tx: tx)
            with pytest.raises(StorageError, match="has ended"):
                query.find_branch(ended, path="", kind="k", name="n")
            with pytest.raises(StorageError, match="has ended"):
                query.delete_entry.many(ended, [{"id": 1}])

    def test_a_traceback_of_a_failing_statement_names_the_operation(self, memory):
        def keep_nothing(tx):
            query.store_content(tx, hash=None, body=None)
            query.find_namespace(tx, path="")

        with pytest.raises(StorageError) as caught:
            memory.database.engine.write(keep_nothing)
        assert "keep_nothing" in "".join(traceback.format_exception(caught.value))
