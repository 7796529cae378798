"""The rows that a write of a thread will probably read: those that this process last stored or read.

A prediction need not be right, because the server checks it. It saves the round trip that reads the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_agentmem.storage.transaction import Expectation
from langchain_agentmem.threads.thread_rows import ROOT_NS, Thread

_MAX_NEW_PARTS = 12
"""The maximum number of new parts. Further parts are looked up, since the store may contain some of them already. Up to
this number, an equal part that was not written recently is stored again. It shares the body of the older part."""


class ThreadPrediction:
    """The expected rows for a put or a task's writes in a thread without memory.

    The checkpoint namespace is that of the thread's own graph.

    Args:
        thread: The thread as last seen, with its root checkpoint namespace.
        parent: The id of the newest checkpoint, which is the parent of the checkpoint to put.

    Attributes:
        failed: True if the prediction was not used, or was wrong.
    """

    def __init__(self, thread: Thread, parent: str | None) -> None:
        self.failed = False
        self._thread, self._parent = thread, parent

    def expect(self, query: str, parameters: Mapping[str, Any]) -> Expectation | None:  # noqa: PLR0911 - one for each query
        """Return the expected rows of a query; None if they cannot be predicted."""
        thread, (store_id, sweep_count) = self._thread, self._thread.store
        if query == "lock_store" and thread.state is not None and parameters["store"] == store_id:
            next_element, next_part, _ = thread.state
            row = {"next_element": next_element, "next_part": next_part, "sweep_count": sweep_count}
            return _expect_row(row, *row)
        if query == "known_parts" and thread.state is not None:
            keys = [(bytes.fromhex(digest), form, name) for digest, form, name in json.loads(parameters["keys"])]
            known = [(*key, thread.state.part_numbers[key]) for key in keys if key in thread.state.part_numbers]
            if len(keys) - len(known) > _MAX_NEW_PARTS:
                return None
            rows = [dict(zip(("hash", "encoding", "name", "number"), row, strict=True)) for row in known]
            return Expectation(rows)  # `lock_store` checks that no other process has stored parts meanwhile
        if query == "find_thread" and parameters == {"path": thread.path, "name": thread.name, "ns": ROOT_NS}:
            row = {name: getattr(thread, name) for name in ("id", "path", "removed_count", "ns_id", "created_at")}
            row |= {"store_id": store_id, "sweep_count": sweep_count, "delta": int(thread.delta)}
            return Expectation((row,))  # the foreign keys of the new rows check that the thread still exists
        if query == "lock_thread" and parameters["thread"] == thread.id:
            return _expect_row({"author": None}, "author")
        if query == "newest_other_checkpoint" and parameters["ns_id"] == thread.ns_id and self._parent is not None:
            return _expect_row({"name": self._parent, "branch_id": None}, "name", "branch_id")
        return None  # also for `find_run_start`, whose rows a run keeps, even if the prediction is wrong


def _expect_row(row: Mapping[str, Any], *checked: str) -> Expectation:
    """Return the expectation of one row, of which the server checks some columns."""
    values = {f"is_{name}": row[name] for name in checked if row[name] is not None}
    tests = [f"r.{name} is null" if row[name] is None else f"r.{name} = :is_{name}" for name in checked]
    return Expectation((row,), " and ".join(tests), values)
