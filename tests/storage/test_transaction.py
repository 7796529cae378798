"""An ended transaction rejects queries, and a failing one names its operation."""

import traceback

import pytest

from langchain_agentmem.errors import StorageError
from langchain_agentmem.storage import query


class TestEndedTransactions:
    def test_ended_transaction_rejects_every_query(self, memory):
        for run in (memory.database.engine.read, memory.database.engine.write):
            ended = run(lambda tx: tx)
            with pytest.raises(StorageError, match="has ended"):
                query.find_branch(ended, path="", kind="k", name="n")
            with pytest.raises(StorageError, match="has ended"):
                query.delete_entry.run_many(ended, [{"id": 1}])

    def test_traceback_names_the_failing_operation(self, memory):
        def keep_nothing(tx):
            query.store_content(tx, hash=None, body=None)
            query.find_namespace(tx, path="")

        with pytest.raises(StorageError) as caught:
            memory.database.engine.write(keep_nothing)
        assert "keep_nothing" in "".join(traceback.format_exception(caught.value))
